"""Requirements may refer to the queue's own attributes of a job, as in HTCondor's queue."""

import pytest

from fetchwork.classad.jsonform import from_json
from fetchwork.classad.values import evaluate
from tests.support.direct_queue import EXITED, Claimed, DirectQueue
from tests.support.new_job import TRUE_OF_A_NEW_JOB
from tests.support.there import there


def says(queue: DirectQueue, job: str, expression: str) -> object:
    """The value of an expression in the ad that matching uses."""
    ad = queue.value(
        "SELECT a.ad FROM fetchwork.autoclusters AS a JOIN fetchwork.jobs AS j USING (AutoclusterId)"
        " WHERE j.JobId = %s",
        job,
    )
    return evaluate(from_json(ad), expression)


@pytest.mark.parametrize("expression", TRUE_OF_A_NEW_JOB)
def test_requirements_see_what_the_queue_keeps_of_a_new_job(queue: DirectQueue, expression: str) -> None:
    job = queue.submit(Requirements=f"/Expr({expression})/")
    assert says(queue, job, "Requirements") is True


def test_all_of_it_through_another_attribute(queue: DirectQueue) -> None:
    every = " && ".join(f"({expression})" for expression in TRUE_OF_A_NEW_JOB)
    job = queue.submit(Requirements="/Expr(MY.Every)/", Every=f"/Expr({every})/")
    assert says(queue, job, "Requirements") is True


def test_jobs_of_a_cluster_that_differ_in_it_are_autoclusters_of_their_own(queue: DirectQueue) -> None:
    jobs = queue.submit_many(
        [{}, {}, {}], {"Cmd": "/bin/true", "Owner": "alice", "Requirements": "/Expr(ProcId == 1)/"}
    )
    assert [says(queue, job, "Requirements") for job in jobs] == [False, True, False]
    same = queue.submit_many(
        [{}, {}], {"Cmd": "/bin/true", "Owner": "alice", "Requirements": "/Expr(QDate > 1)/"}
    )
    assert len({queue.column("autocluster_id", job) for job in same}) == 1


def ended(queue: DirectQueue, run: Claimed) -> None:
    queue.heartbeat(run, ImageSize=5000, ResidentSetSize=3000)
    queue.finish(run, "evict", **{**EXITED, "JobDuration": 5.0})


def test_a_job_that_waits_again_is_looked_at_with_what_came_of_it(queue: DirectQueue) -> None:
    job = queue.submit(
        Requirements="/Expr(NumJobStarts == 0 || (TARGET.Name =!= LastRemoteHost && ImageSize > 4000))/"
    )
    plain = queue.submit(Args="1")
    assert says(queue, job, "Requirements") is True
    run = there(queue.claim())
    assert run.job == job
    queue.of(run, "accept")
    assert queue.start(run) is None
    before = queue.column("autocluster_id", plain)
    ended(queue, run)
    assert says(queue, job, "NumJobStarts") == 1
    assert says(queue, job, "LastRemoteHost") == "slot1@h1"
    assert says(queue, job, "ImageSize") == 5000
    assert queue.column("autocluster_id", plain) == before
    assert queue.claim("slot2@h1") is not None


def test_a_held_job_is_looked_at_anew_at_its_release(queue: DirectQueue) -> None:
    job = queue.submit(Requirements="/Expr(NumHolds < 1 || LastHoldReasonCode == 1)/")
    queue.act("hold", job, reason="wait")
    queue.act("release", job)
    assert says(queue, job, "NumHolds") == 1
    assert says(queue, job, "Requirements") is True


def test_an_edit_keeps_it(queue: DirectQueue) -> None:
    job = queue.submit(Requirements="/Expr(ProcId == 0)/")
    queue.act("edit", job, changes={"Requirements": "/Expr(ProcId == 0 && NumJobStarts == 0)/"})
    assert says(queue, job, "Requirements") is True
