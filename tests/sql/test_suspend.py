"""suspend and continue: a person's wish about running jobs, which their hosts follow."""

import psycopg
import pytest

from tests.support.direct_queue import Claimed, DirectQueue


def orders(queue: DirectQueue, *runs: Claimed) -> list[str]:
    """The actions that a beat tells the host's agent."""
    return [row["action"] for row in queue.beat(queue.host(), *runs)]


def test_the_wish_is_followed_and_stays_until_it_is_taken_back(queue: DirectQueue) -> None:
    job = queue.submit()
    run = queue.started()
    assert queue.act("suspend", job) == 1
    # the job runs until its host has stopped it
    assert queue.status(job) == 2
    assert queue.act("suspend", job) == 0
    assert orders(queue, run) == ["suspend"]
    queue.heartbeat(run, JobState="Suspended")
    assert queue.status(job) == 7
    # the startd let it go on for a moment
    queue.heartbeat(run, JobState="Running")
    assert orders(queue, run) == ["suspend"]
    queue.heartbeat(run, JobState="Suspended")
    assert queue.act("continue", job) == 1
    assert queue.act("continue", job) == 0
    assert orders(queue, run) == ["continue"]
    queue.heartbeat(run, JobState="Suspended")
    assert orders(queue, run) == ["continue"]
    queue.heartbeat(run, JobState="Running")
    assert (queue.status(job), orders(queue, run)) == (2, [])
    assert queue.events(job) == [0, 1, 10, 11, 10, 11]
    asked = "SELECT DISTINCT action FROM fetchwork.actions WHERE actionid IS NOT NULL ORDER BY action"
    assert queue.rows(asked) == [("continue",), ("suspend",)]


def test_a_wish_that_was_not_followed_yet_is_taken_back(queue: DirectQueue) -> None:
    job = queue.submit()
    run = queue.started()
    assert (queue.act("suspend", job), queue.act("continue", job)) == (1, 1)
    assert orders(queue, run) == ["continue"]
    queue.heartbeat(run)
    assert orders(queue, run) == []
    assert queue.events(job) == [0, 1]


def test_only_running_jobs_are_suspended_and_only_suspended_ones_go_on(queue: DirectQueue) -> None:
    job = queue.submit()
    assert (queue.act("suspend", job), queue.act("continue", job)) == (0, 0)
    run = queue.claim()
    assert run is not None
    assert queue.act("suspend", job) == 0
    queue.of(run, "accept")
    queue.start(run)
    assert queue.act("continue", job) == 0
    queue.act("remove", job)
    assert queue.act("suspend", job) == 0
    assert orders(queue, run) == ["end"]


@pytest.mark.parametrize(("act", "status"), [("remove", 3), ("hold", 5), ("vacate", 7)])
def test_a_suspended_job_may_be_told_to_end(queue: DirectQueue, act: str, status: int) -> None:
    job = queue.submit()
    run = queue.started()
    queue.act("suspend", job)
    queue.heartbeat(run, JobState="Suspended")
    assert queue.act(act, job) == 1
    assert queue.status(job) == status
    assert orders(queue, run) == ["end"]
    queue.heartbeat(run, JobState="Suspended")
    queue.finish(run, "evict", JobPid=77)
    assert queue.rows("SELECT run_id FROM fetchwork.run") == []


def test_suspended_time_is_not_charged_and_is_in_the_ad(queue: DirectQueue) -> None:
    job = queue.submit()
    run = queue.started()
    queue.act("suspend", job)
    queue.heartbeat(run, JobState="Suspended")
    queue.pass_time(100)
    queue.connection.execute("UPDATE fetchwork.run SET suspended_at = suspended_at - interval '100 s'")
    used = queue.value("SELECT usage FROM fetchwork.shares()")
    assert used < 50
    policy = queue.of(run, "run_policy")
    assert 100 <= policy["FetchWorkSuspendedTime"] < 150
    queue.act("continue", job)
    queue.heartbeat(run)
    queue.heartbeat(run, JobState="Suspended")
    queue.connection.execute("UPDATE fetchwork.run SET suspended_at = suspended_at - interval '50 s'")
    queue.connection.execute("UPDATE fetchwork.run SET started_at = started_at - interval '50 s'")
    queue.finish(run)
    assert queue.value("SELECT usage FROM fetchwork.shares()") < 50
    ad = queue.value("SELECT facts FROM fetchwork.job_history")
    assert ad["TotalSuspensions"] == 2
    assert 150 <= ad["CumulativeSuspensionTime"] < 200
    assert ad["CommittedSuspensionTime"] == ad["CumulativeSuspensionTime"]
    assert ad["LastSuspensionTime"] == 0
    assert queue.events(job) == [0, 1, 10, 11, 10, 11, 5]
    # it had gone on before it ended
    assert ad["LastJobStatus"] == 2


def test_a_job_that_is_killed_while_it_is_suspended_has_not_gone_on(queue: DirectQueue) -> None:
    job = queue.submit()
    run = queue.started()
    queue.act("suspend", job)
    queue.heartbeat(run, JobState="Suspended")
    queue.finish(run, ExitCode=None, ExitBySignal=True, ExitSignal=9)
    assert queue.events(job) == [0, 1, 10, 5]
    assert queue.value("SELECT facts -> 'LastJobStatus' FROM fetchwork.job_history") == 7


def test_the_ad_follows_a_suspension_as_a_shadow_s_does(queue: DirectQueue) -> None:
    job = queue.submit()
    run = queue.started()
    facts = "SELECT facts FROM fetchwork.job"
    queue.act("suspend", job)
    queue.heartbeat(run, JobState="Suspended")
    suspended = queue.value(facts)
    assert (suspended["LastJobStatus"], suspended["TotalSuspensions"]) == (2, 1)
    assert suspended["LastSuspensionTime"] > 0
    queue.act("continue", job)
    queue.heartbeat(run)
    gone_on = queue.value(facts)
    assert (gone_on["LastJobStatus"], gone_on["LastSuspensionTime"]) == (7, 0)


def test_a_host_that_may_not_signal_jobs_is_named(queue: DirectQueue) -> None:
    jobs = [queue.submit(), queue.submit()]
    queue.started("slot1@h1")
    queue.started("slot1@h2")
    queue.connection.execute("UPDATE fetchwork.host SET signals_jobs = false WHERE name = 'h2'")
    with pytest.raises(psycopg.Error, match=r"its host 'h2' may not signal jobs") as caught:
        queue.act("suspend", *jobs)
    assert caught.value.sqlstate == "FWINV"
    # as for jobs that a constraint selected
    assert queue.act("suspend", *jobs, gone_ok=True) == 1


def test_a_run_of_a_job_begins_without_the_wish_about_the_one_before(queue: DirectQueue) -> None:
    job = queue.submit()
    run = queue.started()
    queue.act("suspend", job)
    queue.heartbeat(run, JobState="Suspended")
    queue.finish(run, "evict", JobPid=77)
    assert queue.status(job) == 1
    again = queue.started("slot2@h1")
    assert orders(queue, again) == []
    assert queue.status(job) == 2
