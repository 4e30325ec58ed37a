"""The database's reasons why a job waits: prospects, waiting_autoclusters, blocked_by, the view rests."""

from typing import Any

from tests.support.direct_queue import DirectQueue
from tests.support.there import there


def prospects(queue: DirectQueue, job: str) -> dict[str, Any]:
    cluster, _, proc = job.partition(".")
    (row,) = queue.call("prospects", cluster=int(cluster), proc=int(proc))
    return row


def blocked(queue: DirectQueue, job: str) -> str | None:
    return prospects(queue, job)["blocked"]


def test_prospects_tell_place_and_number_before_it(queue: DirectQueue) -> None:
    jobs = queue.submit_many([{"Args": str(number)} for number in range(3)])
    assert [prospects(queue, job)["ahead"] for job in jobs] == [0, 1, 2]
    assert prospects(queue, jobs[0])["waits"] is True
    run = there(queue.claim())
    told = prospects(queue, run.job)
    assert (told["waits"], told["run_state"], told["run_slot"]) == (False, "reserved", "slot1@h1")
    assert prospects(queue, jobs[2])["ahead"] == 1


def test_prospects_of_a_job_that_is_not_there_are_none(queue: DirectQueue) -> None:
    assert queue.call("prospects", cluster=999999, proc=0) == []


def test_nothing_blocks_a_job_without_limits(queue: DirectQueue) -> None:
    assert blocked(queue, queue.submit()) is None


def test_what_blocks_is_what_keeps_it_from_being_claimed(queue: DirectQueue) -> None:
    queue.call("set_limit", name="licence", maximum=3)
    job = queue.submit(ConcurrencyLimits="licence:2,other")
    assert blocked(queue, job) is None
    assert queue.claim() is not None
    job = queue.submit(ConcurrencyLimits="licence:2,other")
    assert blocked(queue, job) == 'concurrency limit "licence" is reached: 2 of 3 in use, a job takes 2'
    assert queue.claim("slot2@h1") is None

    queue.call("set_limit", name="licence", maximum=9)
    queue.call("set_queue", name="default", changes='{"max_running": 1}')
    assert blocked(queue, job) == 'queue "default" has its maximum of 1 jobs running'
    assert queue.claim("slot2@h1") is None

    queue.call("set_queue", name="default", changes='{"max_running": null, "paused": true}')
    assert blocked(queue, job) == 'queue "default" is paused'
    assert queue.claim("slot2@h1") is None

    queue.call("set_queue", name="default", changes='{"paused": false}')
    queue.call("set_submitter", name="alice", changes='{"max_running": 1}')
    assert blocked(queue, job) == 'submitter "alice" has its maximum of 1 jobs running'
    assert queue.claim("slot2@h1") is None

    queue.call("set_submitter", name="alice", changes='{"max_running": 2}')
    assert blocked(queue, job) is None
    assert queue.claim("slot2@h1") is not None


def test_the_jobs_that_an_access_point_runs_count_for_no_maximum(queue: DirectQueue) -> None:
    queue.submit(JobUniverse=7, FetchWorkAccessPoint="ap")
    assert queue.call("claim_scheduler_job", access_point="ap", max_each=1, lease_s=60)
    queue.call("set_queue", name="default", changes='{"max_running": 1}')
    queue.call("set_submitter", name="alice", changes='{"max_running": 1}')
    job = queue.submit()
    assert blocked(queue, job) is None
    assert queue.claim() is not None


def test_waiting_autoclusters_are_the_first_jobs_of_each_autocluster_and_priority(queue: DirectQueue) -> None:
    first = queue.submit()
    queue.submit()
    high = queue.submit(JobPrio=4)
    queue.call("set_queue", name="night")
    nights = queue.submit(FetchWorkQueue="night")
    assert {row["first_job"] for row in queue.call("waiting_autoclusters")} == {first, high, nights}
    (row,) = queue.call("waiting_autoclusters", queues=["night"])
    assert (row["first_job"], row["queue"], row["blocked"], row["limited"]) == (nights, "night", None, False)


def test_what_was_claimed_waits_no_more(queue: DirectQueue) -> None:
    queue.submit()
    assert queue.claim() is not None
    assert queue.call("waiting_autoclusters") == []


def test_rests_tell_who_refused_and_how_often(queue: DirectQueue) -> None:
    queue.submit()
    run = there(queue.claim())
    queue.of(run, "reject")
    rows = queue.rows("SELECT Machine, Name, Refusals, rest_until_at > now() FROM fetchwork.rests")
    assert rows == [("h1", "slot1@h1", 1, True)]
