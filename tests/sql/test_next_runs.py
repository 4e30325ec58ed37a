"""next_runs: the end of a run, the claim of its slot's next job and that job's start, in one call."""

import uuid
from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import Claimed, DirectQueue

EXIT = {"JobPid": 77, "ExitCode": 0, "ExitBySignal": False, "JobDuration": 5.0, "RemoteUserCpu": 1.5}
COMPARED = ["cmd", "killsig"]
SAME = {"cmd": "/bin/true"}


def ask(
    queue: DirectQueue,
    *ended: Claimed | None,
    report: dict[str, Any] = EXIT,
    same: dict[str, Any] = SAME,
) -> list[dict[str, Any]]:
    """Call it for slot0, slot1, ... of h1; ``ended`` has the run of each slot that reports one."""
    host_id = queue.value("SELECT host_id FROM fetchwork.host WHERE name = 'h1'") or queue.host("h1")
    slots = {f"slot{n}@h1": run for n, run in enumerate(ended)}
    answers = queue.next_runs(host_id, slots, report=report, compared=COMPARED, same=same)
    assert [answer["slot_number"] for answer in answers] == list(range(1, len(ended) + 1))
    return answers


def the_run(answer: dict[str, Any]) -> Claimed:
    """The run that a slot got."""
    job = f"{answer['cluster_id']}.{answer['proc_id']}"
    return Claimed(answer["run_id"], answer["token"], job, answer["position"], answer["ad"], 0)


def jobs(answers: list[dict[str, Any]]) -> list[str | None]:
    """The job that each slot got."""
    return [the_run(answer).job if answer["run_id"] else None for answer in answers]


@pytest.fixture
def runs(queue: DirectQueue) -> list[Claimed]:
    """Two running jobs of eight."""
    queue.submit_many([{}] * 8)
    return [queue.started(f"slot{n}@h1") for n in range(2)]


def test_the_next_jobs_of_slots_run_as_if_claimed_and_started_by_other_calls(
    queue: DirectQueue, runs: list[Claimed]
) -> None:
    answers = ask(queue, *runs)
    assert [answer["ended"] for answer in answers] == [True, True]
    assert jobs(answers) == ["1.2", "1.3"]
    assert [queue.status(run.job) for run in runs] == [4, 4]
    # as an offer says it: before this start
    assert [answer["facts"]["NumJobStarts"] for answer in answers] == [0, 0]
    other = queue.started("slot5@h1")
    columns = "{run_id,cluster_id,proc_id,token,slot,starter,chain,claimed_at,accepted_at,started_at,contact_at,deadline}"
    rows = queue.rows(
        "SELECT to_jsonb(r) - %s::text[], to_jsonb(j) - '{proc_id,position,run_id,status_at,first_start_at,last_start_at}'::text[]"
        " FROM fetchwork.run AS r JOIN fetchwork.job AS j USING (cluster_id, proc_id) ORDER BY r.run_id",
        columns,
    )
    assert len(rows) == 3
    for run, job in rows[:2]:
        run["lease"] = rows[2][0]["lease"]
        job["facts"]["LastMatchTime"] = rows[2][1]["facts"]["LastMatchTime"]
        assert (run, job) == rows[2]
    chains = queue.rows(
        "SELECT s.chain, r.starter FROM fetchwork.runs AS s JOIN fetchwork.run AS r ON r.run_id = s.runid ORDER BY 2"
    )
    assert chains == [(7, "0:1"), (None, "10:1"), (7, "1:1")]
    infos = queue.rows("SELECT info - 'SlotName' FROM fetchwork.events WHERE EventTypeNumber = 1")
    assert len(infos) == 5
    assert all(info == infos[0] for info in infos)
    assert queue.finish(the_run(answers[0])) == "completed"
    assert queue.finish(other) == "completed"
    assert queue.value("SELECT chain FROM fetchwork.runs WHERE runid = %s", answers[0]["run_id"]) == 7


def test_a_slot_without_a_report_gets_a_job_too(queue: DirectQueue, runs: list[Claimed]) -> None:
    assert queue.finish(runs[0]) == "completed"
    assert jobs(ask(queue, None, runs[1])) == ["1.2", "1.3"]


def test_an_end_that_is_not_common_is_left_and_gets_no_job(queue: DirectQueue, runs: list[Claimed]) -> None:
    """It is the agent's to report by finish; the slot beside it goes on."""
    queue.act("hold", runs[0].job)
    answers = ask(queue, *runs)
    assert [answer["ended"] for answer in answers] == [False, True]
    assert jobs(answers) == [None, "1.2"]
    assert queue.outcome(runs[0]) is None
    queue.finish(runs[0])


@pytest.mark.parametrize("kind", ["forged", "over", "failed at once"])
def test_a_refused_report_ends_nothing(queue: DirectQueue, runs: list[Claimed], kind: str) -> None:
    run, report = runs[0], EXIT
    if kind == "forged":
        run = run._replace(token=uuid.uuid4())
    elif kind == "over":
        queue.finish(run)
    else:
        report = {**EXIT, "ExitCode": 1, "JobDuration": 0.0}
    answers = ask(queue, run, report=report)
    assert (answers[0]["ended"], jobs(answers)) == (False, [None])
    assert queue.value("SELECT count(*) FROM fetchwork.waiting") == 6


def test_the_end_is_recorded_without_a_next_job(queue: DirectQueue) -> None:
    queue.submit()
    run = queue.started("slot0@h1")
    answers = ask(queue, run)
    assert (answers[0]["ended"], jobs(answers)) == (True, [None])
    assert queue.outcome(run) == "completed"


def test_fewer_jobs_than_slots_go_to_the_first_slots(queue: DirectQueue) -> None:
    queue.submit_many([{}] * 3)
    runs = [queue.started(f"slot{n}@h1") for n in range(2)]
    assert jobs(ask(queue, *runs)) == ["1.2", None]


@pytest.mark.parametrize("slots", [1, 2])
def test_a_job_that_differs_waits_for_the_slots_fetch(queue: DirectQueue, slots: int) -> None:
    """No other job is taken in its place: the next job is the one that a fetch would get."""
    queue.submit_many([{}] * slots + [{"KillSig": "SIGINT"}] + [{}] * 3)
    runs = [queue.started(f"slot{n}@h1") for n in range(slots)]
    differing = f"1.{slots}"
    got = jobs(ask(queue, *runs))
    assert got == [None] * slots
    assert queue.events(differing) == [0]
    assert queue.value("SELECT count(*) FROM fetchwork.run") == 0
    claimed = queue.claim("slot0@h1")
    assert claimed is not None
    assert claimed.job == differing


def test_a_slot_gets_its_job_though_the_next_slots_job_differs(
    queue: DirectQueue, runs: list[Claimed]
) -> None:
    """The job of the first slot runs: a run that the queue does not know would let it run twice."""
    queue.connection.execute(
        """UPDATE fetchwork.job SET ad = ad || '{"KillSig": "SIGINT"}' WHERE proc_id = 3"""
    )
    answers = ask(queue, *runs)
    assert jobs(answers) == ["1.2", None]
    assert queue.rows("SELECT run_id, cluster_id || '.' || proc_id FROM fetchwork.run") == [
        (answers[0]["run_id"], "1.2")
    ]
    assert (queue.status("1.2"), queue.status("1.3")) == (2, 1)


@pytest.mark.parametrize("slots", [1, 2])
def test_a_job_that_was_lost_waits_for_the_slots_fetch(queue: DirectQueue, slots: int) -> None:
    queue.submit_many([{}] * (slots + 2))
    runs = [queue.started(f"slot{n}@h1") for n in range(slots)]
    queue.connection.execute("UPDATE fetchwork.job SET num_lost = 1 WHERE proc_id = %s", [slots])
    assert jobs(ask(queue, *runs)) == [None] * slots
    claimed = queue.claim("slot0@h1")
    assert claimed is not None
    assert claimed.job == f"1.{slots}"


def test_a_name_in_another_case_differs_too(queue: DirectQueue) -> None:
    queue.submit_many([{}, {"KILLSIG": "SIGINT"}])
    assert jobs(ask(queue, queue.started("slot0@h1"))) == [None]


@pytest.mark.parametrize("hindrance", ["paused", "limit", "concurrency", "black hole", "move"])
def test_what_keeps_a_claim_from_jobs_ends_the_chain(queue: DirectQueue, hindrance: str) -> None:
    limits = {"ConcurrencyLimits": "one"} if hindrance == "concurrency" else {}
    queue.submit_many([limits] * 4)
    run = queue.started("slot0@h1")
    if hindrance == "paused":
        queue.connection.execute("""SELECT fetchwork.set_queue('default', '{"paused": true}')""")
    elif hindrance == "limit":
        queue.connection.execute("""SELECT fetchwork.set_queue('default', '{"max_running": 1}')""")
    elif hindrance == "concurrency":
        queue.connection.execute("SELECT fetchwork.set_limit('one', 0)")
    elif hindrance == "black hole":
        queue.connection.execute(
            "UPDATE fetchwork.host SET black_hole_since = now(), next_probe_at = now() + interval '1 hour',"
            " newcomer_probe_at = now() + interval '1 hour'"
        )
    else:
        queue.connection.execute("UPDATE fetchwork.heartbeat SET offers_wait = true")
    answers = ask(queue, run)
    # the run that ends has made room below the queue's limit
    assert jobs(answers) == ["1.1" if hindrance == "limit" else None]


def test_a_limited_kind_is_counted(queue: DirectQueue) -> None:
    queue.connection.execute("SELECT fetchwork.set_limit('one', 1)")
    queue.submit_many([{"ConcurrencyLimits": "one"}] * 3)
    run = queue.started("slot0@h1")
    assert jobs(ask(queue, run, None)) == ["1.1", None]


LOCK_LIMITS = "SELECT FROM fetchwork.turn WHERE name = 'limits' FOR NO KEY UPDATE NOWAIT"


def test_a_claim_that_is_undone_keeps_the_limits_locked(queue: DirectQueue) -> None:
    """Other sessions wait for the whole transaction; if it locked again behind them, that would be a deadlock."""
    queue.submit_many([{"ConcurrencyLimits": "one"}, {"ConcurrencyLimits": "one", "Cmd": "/bin/false"}])
    run = queue.started("slot0@h1")
    asker = queue.another(autocommit=False)
    assert jobs(ask(asker, run, None)) == [None, None]
    with pytest.raises(psycopg.errors.LockNotAvailable):
        queue.connection.execute(LOCK_LIMITS)


def test_the_chain_ends_while_another_session_counts_limits(queue: DirectQueue) -> None:
    queue.submit_many([{"ConcurrencyLimits": "one"}] * 2)
    run = queue.started("slot0@h1")
    other = queue.another(autocommit=False)
    other.connection.execute(LOCK_LIMITS)
    answers = ask(queue, run)
    assert (answers[0]["ended"], jobs(answers)) == (True, [None])


def test_a_second_choice_follows_the_first(queue: DirectQueue) -> None:
    queue.submit_many([{}] * 2)
    queue.submit(RequestMemory=77)
    assert jobs(ask(queue, queue.started("slot0@h1"), None)) == ["1.1", "2.0"]


def test_a_locked_job_is_left_to_others(queue: DirectQueue, runs: list[Claimed]) -> None:
    """It is neither waited for nor started, and an act on it is not made to wait."""
    editor = queue.another(autocommit=False)
    editor.act("hold", "1.2")
    with queue.within(2):
        assert jobs(ask(queue, *runs)) == ["1.3", "1.4"]
    editor.connection.commit()
    assert queue.status("1.2") == 5


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (
            "INSERT INTO fetchwork.run (cluster_id, proc_id, autocluster_id, host_id, slot, lease, deadline)"
            " SELECT 1, 2, autocluster_id, 1, 'other', '1 h', now() FROM fetchwork.waiting LIMIT 1",
            "run_one_live_run_per_job",
        ),
        ("UPDATE fetchwork.job SET num_starts = 2147483647 WHERE proc_id = 2", "integer out of range"),
    ],
    ids=["claimed", "started"],
)
def test_a_job_that_cannot_be_claimed_or_started_is_its_slots_problem(
    queue: DirectQueue, runs: list[Claimed], spoil: str, problem: str
) -> None:
    """Both ends are recorded, and the slot beside it gets the next job."""
    queue.connection.execute(spoil)
    answers = ask(queue, *runs)
    assert [answer["ended"] for answer in answers] == [True, True]
    assert jobs(answers) == [None, "1.3"]
    assert problem in answers[0]["problem"]
    position = queue.value("SELECT position FROM fetchwork.waiting WHERE proc_id = 2")
    assert (answers[0]["choice"], answers[0]["position"]) == (1, position)
    assert queue.status("1.2") == 1
    assert [queue.outcome(run) for run in runs] == ["completed", "completed"]
    queue.connection.execute(
        "DELETE FROM fetchwork.run WHERE slot = 'other'; UPDATE fetchwork.job SET num_starts = 0 WHERE proc_id = 2"
    )


def test_an_error_of_the_whole_claim_is_its_slots_problem(queue: DirectQueue, runs: list[Claimed]) -> None:
    host_id = queue.host("h1")
    answers = queue.next_runs(host_id, {"slot0@h1": runs[0]}, weights="heavy", compared=COMPARED, same=SAME)
    assert (answers[0]["ended"], jobs(answers)) == (True, [None])
    assert "heavy" in answers[0]["problem"]
    assert answers[0]["choice"] is None


def test_a_repeated_report_changes_nothing(queue: DirectQueue, runs: list[Claimed]) -> None:
    """The agent asks finish about it, which says that the end is known."""
    ask(queue, *runs)
    answers = ask(queue, *runs)
    assert [answer["ended"] for answer in answers] == [False, False]
    assert jobs(answers) == [None, None]
    assert queue.finish(runs[0]) == "duplicate"
    assert queue.value("SELECT count(*) FROM fetchwork.run") == 2
