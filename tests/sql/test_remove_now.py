"""condor_rm -forcex: a removed job leaves without waiting for its process, and the host is told."""

from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import EXITED, DirectQueue


def test_only_jobs_that_are_removed_leave(queue: DirectQueue) -> None:
    waiting, job = queue.submit_many([{}, {}])
    run = queue.started()
    job, waiting = (run.job, waiting if run.job == job else job)
    assert queue.act("remove_now", job) == 0
    assert queue.act("remove_now", waiting) == 0
    assert queue.act("remove", job) == 1
    assert queue.act("remove_now", job, reason="at once") == 1
    assert queue.events(job)[-2:] == [4, 9]
    assert (queue.status(job), queue.outcome(run)) == (3, "removed")
    with pytest.raises(psycopg.Error, match=f"job {job} "):
        queue.act("remove_now", job)
    # the process still lives: its update is told that it has no run, its report changes nothing
    assert queue.heartbeat(run)["action"] == "gone"
    assert queue.finish(run, **EXITED) == "late"
    assert queue.status(job) == 3


@pytest.mark.parametrize("attribute", [{"WantGracefulRemoval": False}, {"JobMaxVacateTime": 0}])
def test_removal_that_is_not_graceful_has_no_time(queue: DirectQueue, attribute: dict[str, Any]) -> None:
    queue.submit(attribute)
    run = queue.started()
    queue.act("remove", run.job)
    assert queue.heartbeat(run)["max_vacate_s"] == 0


@pytest.mark.parametrize(
    ("act", "attributes", "seconds"),
    [
        ("remove", {"JobMaxVacateTime": 30}, 30),
        ("hold", {"KillSigTimeout": 7}, 7),
        ("vacate", {"WantGracefulRemoval": False, "JobMaxVacateTime": 30}, 30),
        ("remove", {"WantGracefulRemoval": False, "JobMaxVacateTime": 30}, 0),
        # HTCondor's own bound
        ("remove", {}, 600),
        ("remove", {"JobMaxVacateTime": 9000}, 600),
        ("remove", {"JobMaxVacateTime": -1}, 0),
    ],
)
def test_a_job_that_was_told_to_end_says_when_it_is_killed(
    queue: DirectQueue, act: str, attributes: dict[str, Any], seconds: int
) -> None:
    job = queue.submit(attributes)
    run = queue.started()
    killed_at = "SELECT (facts ->> 'FetchWorkKillDate')::bigint FROM fetchwork.jobs"
    queue.heartbeat(run, JobPid=7)
    assert queue.value(killed_at) is None
    queue.act(act, job)
    # the job has not been told yet
    assert queue.value(killed_at) is None
    assert queue.heartbeat(run, JobPid=7)["max_vacate_s"] == seconds
    told_at = queue.value("SELECT extract(epoch FROM signalled_at)::float8 FROM fetchwork.run")
    assert told_at + seconds <= queue.value(killed_at) < told_at + seconds + 1
    queue.finish(run, "evict")
    assert queue.value("SELECT count(*) FROM fetchwork.jobs WHERE facts ? 'FetchWorkKillDate'") == 0


def test_vacate_is_graceful_whatever_removal_is(queue: DirectQueue) -> None:
    queue.submit({"WantGracefulRemoval": False, "KillSigTimeout": 7})
    run = queue.started()
    queue.act("vacate", run.job)
    assert queue.heartbeat(run)["max_vacate_s"] == 7
