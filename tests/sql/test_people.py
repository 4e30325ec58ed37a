"""hold, release, remove, vacate, edit, policy, preemption: actions on jobs in the queue."""

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.support.direct_queue import DirectQueue
from tests.support.there import there


def test_a_held_job_does_not_wait_and_a_released_one_does(queue: DirectQueue) -> None:
    job = queue.submit()
    assert queue.act("hold", job, reason="so it is", code=1, subcode=2) == 1
    assert queue.rows(
        "SELECT JobStatus, HoldReason, HoldReasonCode, HoldReasonSubCode, NumHolds FROM fetchwork.jobs"
    ) == [(5, "so it is", 1, 2, 1)]
    assert queue.claim() is None
    assert queue.act("hold", job) == 0
    assert queue.act("release", job, reason="go on") == 1
    assert queue.act("release", job) == 0
    assert queue.rows("SELECT JobStatus, HoldReason, HoldReasonCode FROM fetchwork.jobs") == [(1, None, None)]
    assert queue.claim() is not None
    assert queue.events(job) == [0, 12, 13]
    assert queue.value("SELECT info FROM fetchwork.events WHERE EventTypeNumber = 13") == {"Reason": "go on"}


def test_a_removed_job_is_in_the_history_at_once(queue: DirectQueue) -> None:
    idle, held = queue.submit_many([{}, {"JobStatus": 5}])
    assert queue.act("remove", idle, held, reason="typo") == 2
    assert queue.rows("SELECT JobStatus, LastReason FROM fetchwork.history") == [(3, "typo"), (3, "typo")]
    assert queue.events(idle) == [0, 9]
    assert queue.claim() is None
    with pytest.raises(psycopg.Error, match=f"job {idle} is not in the queue"):
        queue.act("remove", idle)


def test_a_removed_job_that_still_ends_is_not_removed_twice(queue: DirectQueue) -> None:
    job = queue.submit()
    queue.started()
    assert queue.act("remove", job) == 1
    assert queue.act("remove", job) == 0
    assert queue.act("hold", job) == 0
    assert queue.events(job) == [0, 1]


def test_a_delayed_job_may_be_held_and_removed(queue: DirectQueue) -> None:
    job = queue.submit()
    run = queue.started()
    queue.finish(run, "exit", {"action": "requeue", "delay_s": 100})
    assert queue.act("hold", job) == 1
    assert queue.scalar("wake") == 0
    assert queue.act("release", job) == 1
    assert queue.claim() is not None


def test_a_cluster_is_all_its_jobs(queue: DirectQueue) -> None:
    queue.submit_many([{}, {}])
    queue.submit()
    assert queue.act("hold", "1") == 2
    assert [
        row[0] for row in queue.rows("SELECT JobStatus FROM fetchwork.jobs ORDER BY ClusterId, ProcId")
    ] == [5, 5, 1]


def test_one_job_may_be_named_without_an_array(queue: DirectQueue) -> None:
    first, second = queue.submit_many([{}, {}])
    assert queue.value("SELECT fetchwork.hold('1.0', 'not today')") == 1
    assert queue.status(first) == 5
    assert queue.value("SELECT fetchwork.hold('1')") == 1
    assert queue.value("SELECT fetchwork.release('1')") == 2
    assert queue.value("SELECT fetchwork.vacate('1.0')") == 0
    assert queue.value("SELECT fetchwork.remove(job => '1.1', reason => 'over')") == 1
    assert queue.status(first) == 1
    assert queue.value("SELECT LastReason FROM fetchwork.history WHERE JobId = %s", second) == "over"


def test_a_job_that_is_named_several_times_is_treated_once(queue: DirectQueue) -> None:
    queue.submit_many([{}, {}])
    assert queue.act("hold", "1", "1.0", "01.0", "1.0", "1.1") == 2
    assert queue.value("SELECT sum(NumHolds) FROM fetchwork.jobs") == 2


def test_all_jobs_of_an_owner(queue: DirectQueue) -> None:
    queue.submit_many([{"Owner": "alice"}, {"Owner": "bob"}])
    assert queue.scalar("hold", jobs=None, owner="bob") == 1
    assert queue.status("1.0") == 1
    # with both, those of the jobs that are his
    assert queue.scalar("hold", jobs=["1"], owner="alice") == 1


@pytest.mark.parametrize(
    ("jobs", "state", "message"),
    [
        (["7.0"], "FWNOT", "job 7.0 is not in the queue"),
        (["1.0", "1.9"], "FWNOT", "job 1.9 is not in the queue"),
        (
            ["x"],
            "FWINV",
            "'x' is not a job id; allowed: CLUSTER.PROC such as 42.0, or CLUSTER for all its jobs",
        ),
        (["1.0; DROP TABLE job"], "FWINV", "'1.0; DROP TABLE job' is not a job id"),
        (["-1.0"], "FWINV", "'-1.0' is not a job id"),
        (["99999999999"], "FWINV", "'99999999999' is not a job id"),
        ([None], "FWINV", "NULL is not a job id"),
        (None, "FWINV", "no job was named; allowed: job ids, an owner, or both"),
    ],
)
@pytest.mark.parametrize("function", ["hold", "release", "remove", "vacate"])
def test_what_names_no_job_is_refused_and_nothing_is_done(
    queue: DirectQueue, function: str, jobs: list[str] | None, state: str, message: str
) -> None:
    job = queue.submit()
    with pytest.raises(psycopg.Error) as caught:
        queue.scalar(function, jobs=jobs)
    assert caught.value.sqlstate == state
    assert str(caught.value.diag.message_primary).startswith(message)
    assert queue.status(job) == 1


def test_vacate_asks_running_jobs_only(queue: DirectQueue) -> None:
    queue.submit_many([{}, {}])
    run = queue.started()
    assert queue.act("vacate", "1") == 1
    assert queue.heartbeat(run)["reason"] == "via fetchwork vacate (by postgres)"


# edit


def test_an_edit_changes_what_the_next_run_gets(queue: DirectQueue) -> None:
    job, other = queue.submit_many(
        [{"Args": "1"}, {"Args": "2"}], {"Cmd": "/bin/true", "Owner": "alice", "Foo": 1}
    )
    assert queue.act("edit", job, changes={"args": "9", "FOO": 2, "New": "x", "requestmemory": 5}) == 1
    assert queue.value("SELECT ad FROM fetchwork.jobs WHERE JobId = %s", job) == {
        "Cmd": "/bin/true", "Owner": "alice", "Foo": 2, "Args": "9", "New": "x", "RequestMemory": 5,
    }  # fmt: skip
    assert queue.value("SELECT ad ->> 'Args' FROM fetchwork.jobs WHERE JobId = %s", other) == "2"


def test_an_edit_moves_an_idle_job_to_its_new_autocluster_and_keeps_its_turn(queue: DirectQueue) -> None:
    first, second = queue.submit_many([{}, {"RequestCpus": 2}])
    position = queue.column("position", first)
    queue.act("edit", first, changes={"RequestCpus": 2, "JobPrio": 0})
    assert queue.column("autocluster_id", first) == queue.column("autocluster_id", second)
    assert queue.column("position", first) == position
    run = there(queue.claim())
    assert run.job == first


def test_an_edit_changes_priority_and_batch(queue: DirectQueue) -> None:
    job = queue.submit(JobBatchName="a")
    queue.act("edit", job, changes={"JobPrio": 7, "JobBatchName": "b"})
    assert queue.rows("SELECT JobPrio, JobBatchName FROM fetchwork.jobs") == [(7, "b")]
    assert queue.rows("SELECT JobBatchName, jobs FROM fetchwork.batches ORDER BY 1") == [("a", 0), ("b", 1)]


def test_an_edit_takes_an_attribute_away_with_null(queue: DirectQueue) -> None:
    one, other = queue.submit_many(
        [{"Foo": 1}, {}], {"Cmd": "/bin/true", "Owner": "alice", "Requirements": "/Expr(TARGET.x)/"}
    )
    queue.act("edit", one, other, changes={"Foo": None, "Requirements": None})
    assert queue.column("autocluster_id", one) == queue.column("autocluster_id", other)
    assert queue.value("SELECT jsonb_strip_nulls(ad) FROM fetchwork.jobs LIMIT 1") == {
        "Cmd": "/bin/true",
        "Owner": "alice",
    }


def test_an_edit_of_a_running_job_keeps_the_counts(queue: DirectQueue) -> None:
    job = queue.submit()
    run = queue.started()
    queue.act("edit", job, changes={"RequestCpus": 3})
    queue.check()
    queue.finish(run, "evict", JobPid=1)
    again = there(queue.claim())
    assert again.ad["RequestCpus"] == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"Owner": "bob"}, 'attribute "Owner" can\'t be edited; allowed: what a submitter sets'),
        ({"JobStatus": 4}, 'attribute "JobStatus" can\'t be edited'),
        ({"HookKeyword": "x"}, 'attribute "HookKeyword" is set by fetchwork only'),
        ({"TransferInputRemaps": "x"}, 'attribute "TransferInputRemaps" = "x" can\'t be honoured'),
        ({"TransferInput": "x"}, 'attribute "TransferInput" can\'t be edited'),
        ({"ShouldTransferFiles": "YES"}, 'attribute "ShouldTransferFiles" can\'t be edited'),
        ({"Cmd": None}, 'attribute "Cmd" is null; allowed: a string'),
        ({"Cmd": ""}, 'attribute "Cmd" is missing or empty'),
        ({"JobUniverse": 1}, 'attribute "JobUniverse" is 1'),
        ({"Args": "x" * 80000}, "the job ad is too large"),
        ({"Requestcpus": -1}, 'attribute "RequestCpus" is -1'),
    ],
)
def test_what_submit_refuses_edit_refuses(queue: DirectQueue, changes: dict[str, Any], message: str) -> None:
    job = queue.submit()
    with pytest.raises(psycopg.Error) as caught:
        queue.act("edit", job, changes=changes)
    assert str(caught.value.diag.message_primary).startswith(message)
    assert queue.value("SELECT ad FROM fetchwork.jobs") == {"Cmd": "/bin/true", "Owner": "alice"}


def test_edits_in_a_row_give_what_one_submit_would(queue: DirectQueue) -> None:
    job = queue.submit(foo=1, RequestCpus=1)
    for changes in ({"FOO": 2}, {"Foo": 3, "REQUESTCPUS": 4}, {"bar": "/Expr(foo)/"}):
        queue.act("edit", job, changes=changes)
    assert queue.value("SELECT ad FROM fetchwork.jobs") == {
        "Cmd": "/bin/true", "Owner": "alice", "foo": 3, "RequestCpus": 4, "bar": "/Expr(foo)/",
    }  # fmt: skip


# policy, as an agent evaluated it


def test_jobs_with_policy_are_listed_in_pages(queue: DirectQueue) -> None:
    queue.submit_many([{"PeriodicHold": "/Expr(NumJobStarts > 3)/"} for _ in range(3)] + [{}])
    first = queue.call("policy_jobs", page=2)
    assert [(row["cluster_id"], row["proc_id"]) for row in first] == [(1, 0), (1, 1)]
    assert first[0]["ad"]["NumJobStarts"] == 0
    rest = queue.call("policy_jobs", after_cluster=1, after_proc=1, page=2)
    assert [(row["cluster_id"], row["proc_id"]) for row in rest] == [(1, 2)]


@pytest.mark.parametrize(
    ("before", "action", "after", "events"),
    [
        (1, "hold", 5, [0, 12]),
        (1, "remove", 3, [0, 9]),
        (5, "release", 1, [0, 12, 13]),
        (5, "remove", 3, [0, 12, 9]),
        # the event comes when the run has ended
        (2, "hold", 5, [0, 1]),
        (2, "remove", 3, [0, 1]),
        (2, "vacate", 2, [0, 1]),
    ],
)
def test_a_policy_that_became_true_is_obeyed(
    queue: DirectQueue, before: int, action: str, after: int, events: list[int]
) -> None:
    job = queue.submit({"JobStatus": 5} if before == 5 else {})
    if before == 2:
        queue.started()
    assert (
        queue.scalar(
            "apply_policy", cluster=1, proc=0, status=before, action=action, reason="PeriodicX is true"
        )
        is True
    )
    assert queue.status(job) == after
    assert queue.events(job) == events


@pytest.mark.parametrize(("status", "action"), [(2, "hold"), (5, "release"), (1, "vacate"), (1, "release")])
def test_a_policy_of_a_job_that_is_in_another_state_by_now_is_not_obeyed(
    queue: DirectQueue, status: int, action: str
) -> None:
    queue.submit()
    assert queue.scalar("apply_policy", cluster=1, proc=0, status=status, action=action, reason="x") is False


def test_a_policy_of_one_run_says_nothing_about_the_next(queue: DirectQueue) -> None:
    job = queue.submit()
    first = queue.started()
    queue.of(first, "starter_gone")
    second = queue.started()
    assert second.job == first.job
    said = {"cluster": 1, "proc": 0, "status": 2, "action": "hold", "reason": "x"}
    assert queue.scalar("apply_policy", **said, run_id=first.run_id) is False
    assert queue.status(job) == 2
    assert queue.scalar("apply_policy", **said, run_id=second.run_id) is True
    assert queue.status(job) == 5


def test_a_policy_does_not_bring_a_removed_job_back(queue: DirectQueue) -> None:
    job = queue.submit()
    queue.started()
    queue.act("remove", job)
    for action in ("hold", "remove", "vacate"):
        assert queue.scalar("apply_policy", cluster=1, proc=0, status=3, action=action, reason="x") is False
    assert queue.status(job) == 3
    assert queue.events(job) == [0, 1]


# preemption from the database


@pytest.fixture
def contended(queue: DirectQueue) -> DirectQueue:
    """bob, with much usage, runs two jobs; alice, with no usage, waits with one."""
    queue.submit_many([{"Owner": "bob"}, {"Owner": "bob"}])
    queue.started("slot1@h1")
    queue.started("slot2@h1")
    queue.submit_many([{"Owner": "alice"}])
    queue.call("set_submitter", name="bob", changes={"usage": 10_000_000})
    return queue


def test_without_a_ratio_nothing_is_preempted(contended: DirectQueue) -> None:
    assert contended.scalar("preempt") == 0


def test_a_submitter_of_much_better_share_gets_one_place_for_one_autocluster(contended: DirectQueue) -> None:
    contended.call("set_queue", name="default", changes={"preempt_ratio": 2})
    assert contended.scalar("preempt") == 1
    assert contended.scalar("preempt") == 0
    # the youngest run: the least work is lost
    assert contended.rows("SELECT RemoteHost, end_requested FROM fetchwork.runs ORDER BY 1") == [
        ("slot1@h1", None),
        ("slot2@h1", "vacate"),
    ]


def test_a_share_that_is_not_better_by_the_ratio_preempts_nothing(contended: DirectQueue) -> None:
    contended.call("set_queue", name="default", changes={"preempt_ratio": 1e9})
    assert contended.scalar("preempt") == 0


def test_a_preempted_job_is_not_charged_a_try(contended: DirectQueue) -> None:
    contended.call("set_queue", name="default", changes={"preempt_ratio": 2})
    contended.scalar("preempt")
    cluster, proc, run_id, token = contended.rows(
        "SELECT cluster_id, proc_id, run_id, token FROM fetchwork.run WHERE end_requested IS NOT NULL"
    )[0]
    contended.value(
        "SELECT fetchwork.finish(%s, %s, 'evict', %s)", run_id, token, Jsonb({"JobPid": 1, "ExitSignal": 15})
    )
    assert contended.rows(
        "SELECT JobStatus, NumEvicted, NumNotStarted, NumLost FROM fetchwork.jobs WHERE JobId = %s",
        f"{cluster}.{proc}",
    ) == [(1, 0, 0, 0)]


def test_a_job_of_much_higher_priority_preempts_one_of_the_same_submitter(queue: DirectQueue) -> None:
    queue.call("set_queue", name="default", changes={"preempt_prio": 10})
    queue.submit_many([{"JobPrio": 0}])
    queue.started()
    queue.submit(JobPrio=9)
    assert queue.scalar("preempt") == 0
    queue.submit(JobPrio=10)
    assert queue.scalar("preempt") == 1


def test_a_slot_that_is_too_small_is_not_emptied(contended: DirectQueue) -> None:
    contended.call("set_queue", name="default", changes={"preempt_ratio": 2})
    contended.act("remove", "2.0")
    contended.submit(Owner="alice", RequestCpus=64)
    contended.connection.execute(
        "SELECT fetchwork.report_slots(%s, %s)",
        [contended.host(), Jsonb([{"name": f"slot{n}@h1", "cpus": 1, "fetched_at": 1e9} for n in (1, 2)])],
    )
    assert contended.scalar("preempt") == 0


def test_no_job_gives_way_to_one_that_a_limit_would_keep(queue: DirectQueue) -> None:
    queue.call("set_queue", name="default", changes={"preempt_prio": 10})
    queue.call("set_limit", name="db", maximum=1)
    queue.submit()
    run = queue.started("slot1@h1")
    # it has all of the limit, and does not give way itself
    queue.submit(ConcurrencyLimits="db", JobPrio=10)
    queue.started("slot2@h1")
    waiting = queue.submit(ConcurrencyLimits="db", JobPrio=10)
    assert queue.scalar("preempt") == 0
    queue.call("set_limit", name="db", maximum=2)
    queue.call("set_starts", scope="owner", name="alice", starts=1, seconds=3600)
    queue.finish(run)
    queue.act("hold", waiting)
    queue.submit()
    queue.started("slot1@h1")
    queue.act("release", waiting)
    assert queue.scalar("preempt") == 0
    queue.call("set_starts", scope="owner", name="alice", starts=None)
    assert queue.scalar("preempt") == 1


@pytest.mark.parametrize("limit", ["queue", "submitter", "limit"])
def test_a_job_that_holds_the_last_of_a_limit_gives_way(queue: DirectQueue, limit: str) -> None:
    queue.call("set_queue", name="default", changes={"preempt_prio": 10})
    if limit == "queue":
        queue.call("set_queue", name="default", changes={"max_running": 1})
    elif limit == "submitter":
        queue.call("set_submitter", name="alice", changes={"max_running": 1})
    else:
        queue.call("set_limit", name="db", maximum=1)
    ads = {"ConcurrencyLimits": "db"} if limit == "limit" else {}
    queue.submit(ads)
    queue.started()
    waiting = queue.submit(ads, JobPrio=10)
    assert "1" in queue.call("prospects", cluster=2, proc=0)[0]["blocked"]
    assert queue.scalar("preempt") == 1
    assert queue.rows("SELECT count(*), count(end_requested) FROM fetchwork.run") == [(1, 1)]
    assert queue.status(waiting) == 1


def test_no_job_gives_way_to_one_of_another_group_with_a_quota(contended: DirectQueue) -> None:
    """The slot would go to the group that is next."""
    contended.call("set_queue", name="default", changes={"preempt_ratio": 2})
    contended.act("remove", "2.0")
    contended.call("set_group", name="physics", changes={"quota": 1, "accept_surplus": True})
    contended.submit(AccountingGroup="physics.alice")
    assert contended.scalar("preempt") == 0
    contended.submit(Owner="alice")
    assert contended.scalar("preempt") == 1


def test_no_job_gives_way_to_one_of_a_group_beyond_its_quota(queue: DirectQueue) -> None:
    queue.call("set_queue", name="default", changes={"preempt_ratio": 2})
    queue.call("set_group", name="physics", changes={"quota": 2})
    queue.call("set_group", name="physics.atlas", changes={"quota": 2, "accept_surplus": True})
    queue.call("read_groups", host_id=queue.host(), anew=True)
    queue.submit_many([{"AccountingGroup": "physics.atlas.bob", "Owner": "bob"}] * 2)
    queue.started("slot1@h1")
    queue.started("slot2@h1")
    queue.call("set_submitter", name="physics.atlas.bob", changes={"usage": 10_000_000})
    # a slot of the quota would be too few for it, and one is enough for the other
    large = queue.submit(AccountingGroup="physics.atlas.alice", RequestCpus=2)
    assert queue.scalar("preempt") == 0
    queue.act("remove", large)
    queue.submit(AccountingGroup="physics.atlas.alice")
    assert queue.scalar("preempt") == 1


def test_two_holders_of_many_jobs_in_any_order_do_not_deadlock(queue: DirectQueue) -> None:
    for _ in range(11):
        queue.submit()
    first, second = queue.another(autocommit=False), queue.another()
    first.act("hold", "10.0", "2.0")  # 1. locks 2.0 before 10.0
    with pytest.raises(psycopg.errors.QueryCanceled), second.within(0.3):
        second.scalar("hold", jobs=None, owner="alice")  # 2. waits at 2.0
    assert queue.value("SELECT count(*) FROM pg_locks WHERE NOT granted") == 0
    first.act("hold", "1.0")  # 3. the second holds nothing
    first.connection.commit()
    assert second.scalar("hold", jobs=None, owner="alice") == 8
