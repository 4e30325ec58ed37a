"""An open transaction of a submitter delays only that submitter: no call of an agent waits long for it."""

import threading
from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import EXITED, DirectQueue
from tests.support.waiting import PATIENCE_S, until

QUEUED = {"Cmd": "/bin/true", "Owner": "alice"}
WAITS = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
REPORT = {**EXITED, "ExitCode": 0}

CALLS: dict[str, dict[str, Any]] = {
    "heartbeat": {"report": {"JobState": "Running", "JobPid": 7}},
    "finish": {"hook_reason": "exit", "report": REPORT},
    "starter_gone": {},
    "start": {"starter": "10:1"},
    "accept": {},
    "reject": {},
    "withdraw": {"reason": "r"},
    "note_match": {"remembered": {"MATCH_Foo": 1}},
    "retry_with_more": {"changes": {"RequestMemory": 5}, "reason": "", "code": 34, "subcode": 102},
    "refuse_start": {"reason": "r"},
    "fail_inputs": {"reason": "r", "code": 13, "subcode": 2},
    "start_failed": {"reason": "r", "code": 6, "subcode": 2},
}


@pytest.mark.parametrize("function", CALLS)
def test_an_agent_is_told_that_a_job_is_busy(queue: DirectQueue, function: str) -> None:
    queue.submit_many([{}], QUEUED)
    run = queue.started()
    submitter = queue.another(autocommit=False)
    submitter.call("edit", jobs=["1.0"], changes={"Foo": 1})  # 1. keeps the job's row
    with pytest.raises(psycopg.errors.LockNotAvailable):
        queue.call(function, run_id=run.run_id, token=run.token, **CALLS[function])  # 2. does not wait for it
    submitter.connection.rollback()
    queue.call(function, run_id=run.run_id, token=run.token, **CALLS[function])


def test_what_is_done_for_all_passes_over_a_job_that_is_kept(queue: DirectQueue) -> None:
    queue.submit_many([{"PeriodicHold": True}, {"PeriodicHold": True}], QUEUED)
    submitter = queue.another(autocommit=False)
    submitter.call("edit", jobs=["1.0"], changes={"Foo": 1})  # 1. keeps the job's row
    with queue.within(5):
        policy = {"status": 1, "action": "hold", "reason": "r"}
        assert not queue.scalar("apply_policy", cluster=1, proc=0, **policy)  # 2. is left for the next pass
        assert queue.scalar("apply_policy", cluster=1, proc=1, **policy)
        for function in ("maintain_queue", "preempt", "maintain_tables"):
            queue.call(function)
    submitter.connection.rollback()


def test_a_reader_does_not_make_submissions_wait_behind_a_restore(queue: DirectQueue) -> None:
    reader = queue.another(autocommit=False)
    reader.rows("SELECT * FROM fetchwork.events")  # 1. keeps the table of events
    queue.connection.execute(
        "UPDATE fetchwork.heartbeat SET server = 'another', events_server = 'another', running_as = NULL"
    )
    with queue.within(5):
        queue.scalar("reap")  # 2. waits for no reader
        queue.submit()
    assert queue.value("SELECT events_server = server FROM fetchwork.heartbeat")


def test_a_release_asks_the_run_that_an_agent_renews_meanwhile_to_end(queue: DirectQueue) -> None:
    queue.submit_many([{}], QUEUED)
    run = queue.started()
    queue.act("hold", run.job)
    agent, user = queue.another(autocommit=False), queue.another()
    # 1. has the run's row
    agent.connection.execute("UPDATE fetchwork.run SET deadline = clock_timestamp() + lease")
    release = threading.Thread(target=user.act, args=("release", run.job))
    release.start()
    until(lambda: queue.value(WAITS))  # 2. waits for it
    agent.connection.commit()
    release.join(PATIENCE_S)
    assert queue.status(run.job) == 2
    assert queue.value("SELECT end_requested FROM fetchwork.run") == "vacate"
    queue.check()
