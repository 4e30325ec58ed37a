"""leave_in_queue: a job that has ended stays in the queue, Completed, until it is released or removed."""

import psycopg
import pytest

from tests.conftest import Connect
from tests.support.direct_queue import DirectQueue

STAYS = {"LeaveJobInQueue": "/Expr(JobStatus == 4)/"}
IN_QUEUE = "SELECT count(*) FROM fetchwork.jobs"
IN_HISTORY = "SELECT count(*) FROM fetchwork.history"


def ended(queue: DirectQueue, **attributes: object) -> str:
    job = queue.submit({**STAYS, **attributes})
    queue.finish(queue.started(), ExitCode=3)
    return job


def leave(queue: DirectQueue, job: str, action: str = "leave") -> bool:
    cluster, proc = job.split(".")
    said = {"status": 4, "action": action, "reason": "why"}
    return bool(queue.scalar("apply_policy", cluster=int(cluster), proc=int(proc), **said))


def test_it_is_completed_there_and_not_in_history(queue: DirectQueue) -> None:
    job = ended(queue)
    assert queue.rows("SELECT JobStatus, facts ->> 'ExitCode' FROM fetchwork.jobs") == [(4, "3")]
    assert queue.value(IN_HISTORY) == 0
    assert queue.events(job) == [0, 1, 5]
    # it is neither offered nor counted as waiting
    assert queue.claim() is None
    assert queue.rows("SELECT jobs, idle, completed FROM fetchwork.totals") == [(0, 0, 1)]


def test_one_without_it_or_with_false_leaves_at_once(queue: DirectQueue) -> None:
    for ad in ({}, {"LeaveJobInQueue": False}):
        queue.submit(ad)
        queue.finish(queue.started())
    assert (queue.value(IN_QUEUE), queue.value(IN_HISTORY)) == (0, 2)


def test_an_agent_is_asked_about_it_and_lets_it_leave_with_the_time_of_its_end(queue: DirectQueue) -> None:
    job = ended(queue)
    (asked,) = queue.call("policy_jobs")
    assert asked["ad"]["JobStatus"] == 4 and asked["ad"]["ExitCode"] == 3
    at = asked["ad"]["CompletionDate"]
    assert leave(queue, job)
    row = "SELECT JobStatus, ExitCode, CompletionDate, ad -> 'facts' FROM fetchwork.history"
    assert queue.rows(row) == [(4, 3, at, None)]
    assert queue.value("SELECT RunId IS NOT NULL AND LastRemoteHost = 'slot1@h1' FROM fetchwork.history")
    assert queue.value(IN_QUEUE) == 0
    # once, and without another event
    assert not leave(queue, job) and queue.events(job) == [0, 1, 5]


def test_it_can_be_removed_and_nothing_else_be_done_to_it(queue: DirectQueue) -> None:
    job = ended(queue)
    assert queue.act("hold", job) == queue.act("release", job) == queue.act("vacate", job) == 0
    assert not any(leave(queue, job, action) for action in ("hold", "release", "remove", "vacate"))
    assert queue.status(job) == 4
    assert queue.act("remove", job) == 1
    assert (queue.value(IN_QUEUE), queue.value(IN_HISTORY)) == (0, 1)
    # it had ended before, and did not end twice
    assert queue.status(job) == 4 and queue.events(job) == [0, 1, 5]


def test_only_of_one_that_has_ended_an_agent_says_that_it_leaves(queue: DirectQueue) -> None:
    job = queue.submit(STAYS)
    cluster, proc = map(int, job.split("."))
    arguments = {"cluster": cluster, "proc": proc, "status": 1, "action": "leave", "reason": "why"}
    assert not queue.scalar("apply_policy", **arguments)
    assert queue.status(job) == 1


def test_one_that_is_removed_before_its_end_leaves_as_any_other(queue: DirectQueue) -> None:
    job = queue.submit(STAYS)
    queue.act("remove", job)
    assert (queue.value(IN_QUEUE), queue.status(job)) == (0, 3)


def test_an_edit_ends_its_stay(queue: DirectQueue) -> None:
    job = ended(queue)
    queue.act("edit", job, changes={"LeaveJobInQueue": False})
    # an agent still evaluates it, and no expression keeps it
    (asked,) = queue.call("policy_jobs")
    assert not asked["ad"].get("LeaveJobInQueue")


@pytest.mark.parametrize(("days", "stays"), [(9, 1), (11, 0)])
def test_a_setting_says_how_long_it_stays_at_most(queue: DirectQueue, days: int, stays: int) -> None:
    ended(queue)
    queue.connection.execute("UPDATE fetchwork.job SET status_at = now() - make_interval(days => %s)", [days])
    queue.call("maintain_queue")
    assert (queue.value(IN_QUEUE), queue.value(IN_HISTORY)) == (stays, 1 - stays)


def test_the_oldest_leave_first_and_soon_where_they_are_too_many_for_one_call(connect: Connect) -> None:
    queue = DirectQueue(connect())
    queue.connection.execute(
        "SELECT fetchwork.submit_cluster("
        """'{"Cmd": "/bin/true", "Owner": "alice"}', array_fill('{}'::jsonb, ARRAY[501]))"""
    )
    # as if each had run, which would take minutes: they have no runs and events
    queue.connection.execute(
        "DELETE FROM fetchwork.waiting;"
        "UPDATE fetchwork.job SET job_status = 4, status_at = now() - make_interval(days => 50, secs => -proc_id);"
        "INSERT INTO fetchwork.tally_change (autocluster_id, batch_id, jobs, completed)"
        " SELECT autocluster_id, batch_id, -count(*), count(*) FROM fetchwork.job GROUP BY 1, 2"
    )
    # maintenance of every second or two, not of every hour
    queue.call("maintain_queue")
    assert queue.rows("SELECT proc_id FROM fetchwork.job") == [(500,)]
    queue.call("maintain_queue")
    assert (queue.value(IN_QUEUE), queue.value(IN_HISTORY)) == (0, 501)


def test_named_jobs_counts_it(queue: DirectQueue) -> None:
    job = ended(queue)
    (named,) = queue.call("named_jobs", ids=[job])
    assert (named["jobs"], named["completed"]) == (1, 1)


def test_its_owner_may_have_fewer_jobs_as_long_as_it_stays(queue: DirectQueue) -> None:
    queue.call("set_setting", name="max_jobs_per_owner", value=2)
    first = ended(queue)
    ended(queue)
    with pytest.raises(psycopg.Error, match="max_jobs_per_owner"):
        queue.submit()
    assert leave(queue, first)
    queue.submit()
    queue.call("fold")
    with pytest.raises(psycopg.Error, match="max_jobs_per_owner"):
        queue.submit()
