"""A job that used too much runs again, asking for more: its ad, its place in the queue, its run."""

from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import DirectQueue

REASON: dict[str, Any] = {"reason": "Job has gone over memory limit", "code": 34, "subcode": 102}
KILLED: dict[str, Any] = {"JobPid": 7, "JobState": "Exited", "ExitBySignal": True, "ExitSignal": 9}
MORE = {"RequestMemory": 2048, "RetryRequestMemoryIndex": 1}


def memory_asked_for(queue: DirectQueue) -> Any:
    return queue.value(
        "SELECT a.ad -> 'RequestMemory' FROM fetchwork.waiting w JOIN fetchwork.autocluster a USING (autocluster_id)"
    )


def test_the_killed_job_waits_again_and_is_matched_by_what_it_asks_for_now(queue: DirectQueue) -> None:
    job = queue.submit(RequestMemory=1024)
    run = queue.started()
    assert queue.of(run, "retry_with_more", changes=MORE, **REASON) is True
    # its end counts as caused by us, with any report
    assert queue.finish(run, **KILLED) == "vacated"
    assert memory_asked_for(queue) == 2048
    ad = queue.value("SELECT ad FROM fetchwork.jobs")
    assert {name: ad[name] for name in MORE} == MORE
    facts = queue.value("SELECT facts FROM fetchwork.jobs")
    assert (facts["VacateReasonCode"], facts["VacateReasonSubCode"]) == (34, 102)
    assert facts["VacateReason"] == REASON["reason"]
    assert queue.events(job) == [0, 1, 4]
    # the counts follow it
    assert queue.rows(
        "SELECT a.ad -> 'RequestMemory', sum(t.jobs) FROM fetchwork.tally_change t"
        " JOIN fetchwork.autocluster a USING (autocluster_id) GROUP BY 1 ORDER BY 1"
    ) == [(1024, 0), (2048, 1)]


@pytest.mark.parametrize("act", ["hold", "remove", "vacate"])
def test_a_job_that_is_to_end_is_left_to_that(queue: DirectQueue, act: str) -> None:
    job = queue.submit(RequestMemory=1024)
    run = queue.started()
    queue.act(act, job)
    assert queue.of(run, "retry_with_more", changes=MORE, **REASON) is False
    assert queue.value("SELECT ad -> 'RequestMemory' FROM fetchwork.jobs") == 1024


def test_an_exit_that_the_kernel_made_lets_it_run_again_with_more(queue: DirectQueue) -> None:
    job = queue.submit(RequestMemory=1024)
    run = queue.started()
    verdict = {"action": "requeue", "changes": {"RequestMemory": 4096}, "delay_s": 0, **REASON}
    assert queue.of(run, "finish", hook_reason="exit", report=KILLED, verdict=verdict) == "completed"
    assert queue.status(job) == 1
    assert memory_asked_for(queue) == 4096
    assert queue.column("num_completions", job) == 0
    assert queue.events(job) == [0, 1, 4]


@pytest.mark.parametrize(
    "changes", [{"Owner": 5}, {"RequestMemory": "/Expr(5)/"}, {"RequestMemory": -1}, {"RequestCpus": 2}]
)
def test_an_agent_writes_nothing_else_into_the_ad(queue: DirectQueue, changes: dict[str, Any]) -> None:
    queue.submit()
    run = queue.started()
    with pytest.raises(psycopg.Error, match="allowed"):
        queue.of(run, "retry_with_more", changes=changes, **REASON)
