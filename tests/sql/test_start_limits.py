"""Limits on starts: what counts, whose starts, in which windows, and the time of the next one."""

import threading
from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import DirectQueue
from tests.support.there import there
from tests.support.waiting import until


def limit(
    queue: DirectQueue, scope: str, name: str, starts: int | None, seconds: float | None = 60.0
) -> None:
    queue.scalar("set_starts", scope=scope, name=name, starts=starts, seconds=seconds)


def claim(queue: DirectQueue, *slots: str) -> tuple[list[str], list[tuple[int, float]]]:
    """The jobs that these slots get, and the choices that are closed, with the seconds."""
    rows = queue.claim_many(queue.host(), *slots)
    assert [row["problem"] for row in rows] == [None] * len(rows)
    jobs = [f"{row['cluster_id']}.{row['proc_id']}" for row in rows if row["slot_number"] is not None]
    closed = [(row["choice"], row["again_s"]) for row in rows if row["slot_number"] is None]
    assert all(row["again_s"] is None for row in rows if row["slot_number"] is not None)
    return jobs, closed


def names(count: int, first: int = 1) -> list[str]:
    return [f"slot{n}@h1" for n in range(first, first + count)]


@pytest.mark.parametrize(
    ("scope", "name"),
    [("limit", "DB"), ("queue", "default"), ("owner", "alice"), ("group", "Physics")],
    ids=["limit", "queue", "owner", "group"],
)
def test_claims_of_one_call_stop_at_the_limit_and_tell_when_the_next_may_be(
    queue: DirectQueue, scope: str, name: str
) -> None:
    limit(queue, scope, name, 3)
    of_group = {"AccountingGroup": "physics.atlas.alice"} if scope == "group" else {}
    queue.submit_many([{"ConcurrencyLimits": "Db:2, db", **of_group}] * 5)
    jobs, closed = claim(queue, *names(5))
    assert jobs == ["1.0", "1.1", "1.2"]
    ((choice, again_s),) = closed
    assert choice == 1 and 55 < again_s <= 60
    # the next call is told, too
    assert claim(queue, *names(2, 6))[0] == []
    queue.pass_time(again_s + 1)
    assert claim(queue, *names(5, 8)) == (["1.3", "1.4"], [])


def test_no_limit_counts_what_it_does_not_name(queue: DirectQueue) -> None:
    queue.call("set_queue", name="other")
    limits = [("limit", "db"), ("queue", "other"), ("owner", "bob"), ("owner", "default")]
    groups = [("group", name) for name in ("physics.atlas", "phys", "alice", "physics.alice")]
    for scope, name in (*limits, *groups):
        limit(queue, scope, name, 1)
    queue.submit_many([{"ConcurrencyLimits": "dbx, db.x, x:2", "AccountingGroup": "physics.alice"}] * 4)
    assert claim(queue, *names(4)) == (["1.0", "1.1", "1.2", "1.3"], [])
    assert queue.value("SELECT count(*) FROM fetchwork.start_token") == 0


def test_a_claim_keeps_the_limits_of_its_group_and_of_each_above_it(queue: DirectQueue) -> None:
    limit(queue, "group", "physics", 3)
    limit(queue, "group", "physics.atlas", 1)
    groups = [{"AccountingGroup": name} for name in ("physics.atlas.alice", "Physics.bob", "bio.alice")]
    queue.submit_many([groups[0]] * 2 + [groups[1]] * 3 + [groups[2]] * 2)
    assert claim(queue, *names(7))[0] == ["1.0", "1.2", "1.3", "1.5", "1.6"]
    rows = queue.rows("SELECT scope, name, started FROM fetchwork.limits ORDER BY name")
    assert rows == [("group", "physics", 3), ("group", "physics.atlas", 1)]
    job = {row["submitter"]: row["blocked"] for row in queue.call("waiting_autoclusters")}
    assert job["physics.atlas.alice"].startswith('group "physics" allows 3 starts in 60 s: the next in ')
    queue.pass_time(60)
    assert claim(queue, *names(7, 10))[0] == ["1.1", "1.4"]


def test_a_limit_holds_up_no_other_jobs(queue: DirectQueue) -> None:
    limit(queue, "owner", "alice", 1)
    queue.submit_many([*[{"Owner": "alice"}] * 3, *[{"Owner": "bob"}] * 3])
    jobs, closed = claim(queue, *names(4))
    assert jobs == ["1.0", "1.3", "1.4", "1.5"]
    assert [choice for choice, _ in closed] == [1]


def test_any_window_counts(queue: DirectQueue) -> None:
    """Not the calendar's: two starts, then one as each of them is a window old."""
    limit(queue, "queue", "default", 2, 100)
    queue.submit_many([{}] * 9)
    assert len(claim(queue, "slot1@h1")[0]) == 1
    queue.pass_time(60)
    jobs, ((_, again_s),) = claim(queue, *names(2, 2))
    assert len(jobs) == 1
    assert 39 < again_s <= 40
    queue.pass_time(39)
    assert claim(queue, "slot5@h1")[0] == []
    queue.pass_time(2)
    jobs, ((_, again_s),) = claim(queue, *names(2, 6))
    assert len(jobs) == 1
    assert 58 < again_s <= 59


def test_the_last_of_several_limits_decides(queue: DirectQueue) -> None:
    limit(queue, "queue", "default", 1, 10)
    limit(queue, "limit", "a", 1, 100)
    limit(queue, "limit", "b", 1, 50)
    queue.submit_many([{"ConcurrencyLimits": "a,b"}] * 2)
    jobs, ((_, again_s),) = claim(queue, *names(2))
    assert len(jobs) == 1
    assert 99 < again_s <= 100


@pytest.mark.parametrize("end", ["reject", "withdraw", "expired", "lost", "rejected start"])
def test_an_offer_that_is_given_back_returns_no_start(queue: DirectQueue, end: str) -> None:
    limit(queue, "queue", "default", 1)
    job = queue.submit()
    run = there(queue.claim())
    if end == "reject":
        queue.of(run, "reject")
    elif end == "withdraw":
        queue.of(run, "withdraw", reason="why")
    elif end == "rejected start":
        queue.of(run, "refuse_start", reason="why", code=1)
    elif end == "expired":
        queue.connection.execute("UPDATE fetchwork.run SET deadline = now() - interval '1 s'")
        queue.reap()
    else:
        queue.of(run, "accept")
        queue.start(run)
        queue.connection.execute("UPDATE fetchwork.run SET deadline = now() - interval '1 s'")
        queue.reap()
    assert queue.outcome(run) is not None
    queue.connection.execute("UPDATE fetchwork.job SET not_before = now() WHERE not_before IS NOT NULL")
    queue.call("wake")
    assert queue.status(job) == 1
    assert queue.value("SELECT count(*) FROM fetchwork.waiting") == 1
    assert claim(queue, "slot2@h1")[0] == []
    queue.pass_time(61)
    assert claim(queue, "slot3@h1")[0] == [job]


def test_a_claim_that_is_rolled_back_has_started_nothing(queue: DirectQueue) -> None:
    limit(queue, "queue", "default", 1)
    queue.submit_many([{}] * 2)
    other = queue.another(autocommit=False)
    assert other.claim() is not None
    other.connection.rollback()
    assert claim(queue, "slot1@h1")[0] == ["1.0"]


def test_each_job_of_a_chain_is_a_start(queue: DirectQueue) -> None:
    limit(queue, "queue", "default", 3)
    queue.submit_many([{}] * 9)
    runs: Any = {"slot1@h1": queue.started("slot1@h1"), "slot2@h1": None}
    rows = queue.next_runs(queue.host(), runs)
    assert [(row["slot_number"], row["proc_id"]) for row in rows] == [(1, 1), (2, 2)]
    assert queue.next_runs(queue.host(), {"slot3@h1": None})[0]["run_id"] is None
    queue.pass_time(61)
    assert queue.next_runs(queue.host(), {"slot3@h1": None})[0]["proc_id"] == 3


def test_a_changed_limit_goes_on_with_the_starts_it_has_counted(queue: DirectQueue) -> None:
    limit(queue, "queue", "default", 4)
    queue.submit_many([{}] * 20)
    assert len(claim(queue, *names(5))[0]) == 4
    limit(queue, "queue", "default", 6)
    assert len(claim(queue, *names(5, 6))[0]) == 2
    limit(queue, "queue", "default", 2)
    assert claim(queue, *names(1, 11))[0] == []
    queue.pass_time(61)
    assert len(claim(queue, *names(5, 12))[0]) == 2
    # as many as the limit allows
    assert queue.value("SELECT count(*) FROM fetchwork.start_token") == 2
    limit(queue, "queue", "default", None)
    assert queue.value("SELECT count(*) FROM fetchwork.start_token") == 0
    assert len(claim(queue, *names(5, 20))[0]) == 5


def test_limits_are_shown_with_the_starts_that_count(queue: DirectQueue) -> None:
    queue.scalar("set_limit", name="db", maximum=9)
    limit(queue, "limit", "db", 3, 1.5)
    limit(queue, "owner", "alice", 5)
    queue.submit_many([{"ConcurrencyLimits": "db:2"}] * 4)
    assert len(claim(queue, *names(4))[0]) == 3
    queue.pass_time(2)
    rows = queue.rows(
        "SELECT name, scope, maximum, used, maxstarts, startsseconds, started FROM fetchwork.limits ORDER BY 2, 1, 3"
    )
    assert rows == [
        ("db", "limit", 9, 6, None, None, None),
        ("db", "limit", None, None, 3, 1.5, 0),
        ("alice", "owner", None, None, 5, 60, 3),
    ]


def test_reason_names_the_limit_and_the_time(queue: DirectQueue) -> None:
    limit(queue, "limit", "db", 1, 30.5)
    limit(queue, "owner", "alice", 1)
    queue.submit_many([{"ConcurrencyLimits": "db"}] * 2)
    claim(queue, "slot1@h1")
    reasons = [row["blocked"] for row in queue.call("waiting_autoclusters")]
    assert [reason.rpartition(" in ")[0] for reason in reasons] == [
        'concurrency limit "db" allows 1 starts in 30.5 s: the next'
    ]
    queue.connection.execute("UPDATE fetchwork.start_token SET at = now() - interval '40.05 s'")
    assert queue.call("prospects", cluster=1, proc=1)[0]["blocked"] == (
        'owner "alice" allows 1 starts in 60 s: the next in 20.0 s'
    )
    queue.pass_time(60)
    assert queue.call("waiting_autoclusters")[0]["blocked"] is None


@pytest.mark.parametrize(
    ("scope", "name", "starts", "seconds", "message"),
    [
        (
            "submitter",
            "a",
            1,
            1,
            "starts of a 'submitter' have no limit; allowed: limit, queue, owner, group",
        ),
        (None, "a", 1, 1, "starts of a NULL have no limit; allowed: limit, queue, owner, group"),
        ("limit", "a b", 1, 1, "'a b' is not the name of a concurrency limit; allowed: letters, digits, _ ."),
        ("owner", "", 1, 1, "'' is not the name of any owner"),
        ("queue", None, 1, 1, "NULL is not the name of any queue"),
        ("queue", "a", 1, 1, "queue 'a' does not exist"),
        ("queue", "default", 0, 1, "a limit of 0 starts in 1 s"),
        ("queue", "default", 1, 0, "a limit of 1 starts in 0 s"),
        ("queue", "default", 1, float("nan"), "a limit of 1 starts in NaN s"),
        ("queue", "default", 1, None, "a limit of 1 starts in null s"),
        ("queue", "default", 1000001, 1, "a limit of 1000001 starts in 1 s"),
    ],
)
def test_limit_that_cannot_be_is_refused(
    queue: DirectQueue, scope: str, name: str, starts: int, seconds: float, message: str
) -> None:
    with pytest.raises(psycopg.Error, match="^" + message) as refused:
        limit(queue, scope, name, starts, seconds)
    assert refused.value.sqlstate == "FWINV"
    assert queue.value("SELECT count(*) FROM fetchwork.start_limit") == 0


def test_many_claimers_never_start_more_in_any_window(queue: DirectQueue) -> None:
    """Measured from the runs' own times: single claims, claims of many slots and chains, offers given back."""
    starts, seconds, claimers = 20, 0.4, 8
    limit(queue, "limit", "db", starts, seconds)
    limit(queue, "queue", "default", 1000, 0.5)
    queue.submit_many([{"ConcurrencyLimits": "db", "RequestCpus": n % 2 + 1} for n in range(2000)])
    ended = threading.Event()
    problems: list[Exception] = []

    def work(number: int) -> None:
        session = queue.another()
        host_id = session.host(f"h{number}")
        turn = 0
        try:
            while not ended.is_set():
                turn += 1
                slot = f"slot1@h{number}"
                if (turn + number) % 3 == 0:
                    run = session.claim(slot, host_id=host_id)
                    if run is not None:
                        session.of(
                            run, "reject" if turn % 2 else "withdraw", **({} if turn % 2 else {"reason": "x"})
                        )
                elif (turn + number) % 3 == 1:
                    for row in session.claim_many(host_id, *(f"slot{n}@h{number}" for n in range(2, 8))):
                        if row["run_id"] is not None:
                            session.call("withdraw", run_id=row["run_id"], token=row["token"], reason="x")
                else:
                    for row in session.next_runs(host_id, {f"slot9@h{number}": None}):
                        if row["run_id"] is not None:
                            session.call(
                                "finish",
                                run_id=row["run_id"],
                                token=row["token"],
                                hook_reason="exit",
                                report={"JobState": "Exited", "JobPid": 1, "JobDuration": 1.0, "ExitCode": 0},
                            )
        except Exception as error:
            problems.append(error)
            ended.set()

    def all_claimed() -> bool:
        # so many that each claimer has met a closed limit
        spent = queue.value("SELECT max(number) FROM fetchwork.start_token WHERE scope = 'limit'")
        return ended.is_set() or (spent or 0) > 4 * starts

    threads = [threading.Thread(target=work, args=(number,)) for number in range(claimers)]
    for thread in threads:
        thread.start()
    until(all_claimed, "starts of four windows")
    ended.set()
    for thread in threads:
        thread.join()
    assert problems == []
    # each start with the one that is as many starts later as the limit allows
    times = (
        "SELECT claimed_at FROM fetchwork.run UNION ALL SELECT claimed_at FROM fetchwork.run_history"
        " ORDER BY claimed_at"
    )
    claimed = [row[0] for row in queue.rows(times)]
    assert claimed[-1] > claimed[0]
    closest = min((later - at).total_seconds() for at, later in zip(claimed, claimed[starts:], strict=False))
    assert closest >= seconds
    assert queue.value("SELECT max(number) FROM fetchwork.start_token WHERE scope = 'limit'") == len(claimed)
