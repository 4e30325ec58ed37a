"""accept, reject, start, refuse_start, withdraw: the ends of an offer, and the fence before the job."""

import uuid
from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import Claimed, DirectQueue
from tests.support.there import there


@pytest.fixture
def run(queue: DirectQueue) -> Claimed:
    """An offer that was just made."""
    queue.submit()
    return there(queue.claim())


def test_an_accepted_offer_is_no_running_job(queue: DirectQueue, run: Claimed) -> None:
    assert queue.of(run, "accept") is True
    assert queue.of(run, "accept") is True
    assert queue.status(run.job) == 1
    assert queue.rows("SELECT state, started_at FROM fetchwork.runs") == [("accepted", None)]


def test_a_start_makes_the_job_running_with_an_event(queue: DirectQueue, run: Claimed) -> None:
    queue.of(run, "accept")
    assert queue.start(run, slot="slot1_1@h1") is None
    assert queue.status(run.job) == 2
    assert queue.rows("SELECT RemoteHost, NumJobStarts, RunId FROM fetchwork.jobs") == [
        ("slot1_1@h1", 1, run.run_id)
    ]
    assert queue.events(run.job) == [0, 1]
    assert queue.value("SELECT info FROM fetchwork.events WHERE EventTypeNumber = 1") == {
        "ExecuteHost": "h1",
        "SlotName": "slot1_1@h1",
    }


def test_what_a_static_slot_has_is_told_with_the_start_and_the_end(queue: DirectQueue, run: Claimed) -> None:
    queue.connection.execute(
        'SELECT fetchwork.report_slots(1, \'[{"name": "slot1@h1", "cpus": 2, "memory_mib": 512, "disk_kib": 9000, "fetched_at": 1795225768}]\')'
    )
    assert queue.start(run, slot="slot1@h1") is None
    resources = {"Cpus": 2, "Memory": 512, "Disk": 9000}
    info = queue.value("SELECT info FROM fetchwork.events WHERE EventTypeNumber = 1")
    assert info["ExecuteProps"] == resources
    facts = queue.value("SELECT facts FROM fetchwork.job")
    assert {name: facts[f"{name}Provisioned"] for name in resources} == resources
    queue.finish(run)
    info = queue.value("SELECT info FROM fetchwork.events WHERE EventTypeNumber = 5")
    assert {name: info[name] for name in resources} == resources


def test_a_start_is_the_accept_where_that_got_lost(queue: DirectQueue, run: Claimed) -> None:
    assert queue.start(run) is None
    assert queue.value("SELECT accepted_at IS NOT NULL FROM fetchwork.runs") is True
    # and one that comes after it changes nothing
    assert queue.of(run, "accept") is True
    assert queue.value("SELECT state FROM fetchwork.runs") == "running"


def test_the_same_starter_that_asks_again_hears_the_same(queue: DirectQueue, run: Claimed) -> None:
    assert queue.start(run, "10:1") is None
    assert queue.start(run, "10:1") is None
    assert queue.events(run.job) == [0, 1]


@pytest.mark.parametrize("starter", ["10:2", None])
def test_a_second_starter_of_a_run_is_refused(queue: DirectQueue, run: Claimed, starter: str | None) -> None:
    assert queue.start(run, "10:1") is None
    assert queue.start(run, starter) == f"run {run.run_id} has started already"


def test_a_starter_that_nobody_knows_starts_a_run_once(queue: DirectQueue, run: Claimed) -> None:
    assert queue.start(run, None) is None
    assert queue.start(run, None) == f"run {run.run_id} has started already"


@pytest.mark.parametrize(
    ("act", "reason"),
    [("remove", "via fetchwork rm (by postgres)"), ("hold", "via fetchwork hold (by postgres)")],
)
def test_a_job_removed_or_held_between_claim_and_start_never_starts(
    queue: DirectQueue, run: Claimed, act: str, reason: str
) -> None:
    assert queue.act(act, run.job) == 1
    assert queue.start(run) == f"run {run.run_id} is over: {reason}"
    assert queue.outcome(run) == "withdrawn"
    assert 1 not in queue.events(run.job)


def test_a_job_held_and_released_is_not_started_by_the_old_offer(queue: DirectQueue, run: Claimed) -> None:
    queue.act("hold", run.job)
    queue.act("release", run.job)
    assert queue.start(run) is not None
    again = there(queue.claim("slot2@h1"))
    assert again.job == run.job
    assert queue.start(again) is None


def test_a_superseded_run_is_refused_while_its_successor_runs(queue: DirectQueue, run: Claimed) -> None:
    queue.pass_time(100)
    assert queue.reap() == 1
    assert queue.outcome(run) == "expired"
    later = queue.started("slot2@h1")
    assert later.job == run.job
    assert queue.start(run) == f"run {run.run_id} is over: the startd did not answer the offer"
    assert queue.finish(run) == "late"
    assert queue.status(run.job) == 2


def test_a_run_that_is_to_end_does_not_start_again(queue: DirectQueue, run: Claimed) -> None:
    queue.start(run)
    queue.act("vacate", run.job, reason="make room")
    assert queue.start(run) == f"run {run.run_id} is to end: make room"


FUNCTIONS_OF_A_RUN: dict[str, dict[str, Any]] = {
    "accept": {},
    "reject": {},
    "start": {"starter": "1:1"},
    "refuse_start": {"reason": "x"},
    "withdraw": {"reason": "x"},
    "heartbeat": {"report": {}},
    "finish": {"hook_reason": "exit", "report": {"ExitCode": 0}},
    "starter_gone": {},
}


@pytest.mark.parametrize("function", FUNCTIONS_OF_A_RUN)
def test_nobody_touches_a_run_without_its_token(queue: DirectQueue, run: Claimed, function: str) -> None:
    arguments = FUNCTIONS_OF_A_RUN[function]
    for started in (False, True):
        if started:
            queue.start(run)
        for token in (uuid.uuid4(), None):
            with pytest.raises(psycopg.Error, match=f"the token is not that of run {run.run_id}") as caught:
                queue.call(function, run_id=run.run_id, token=token, **arguments)
            assert caught.value.sqlstate == "FWTOK"
    assert queue.value("SELECT state FROM fetchwork.runs") == "running"
    queue.finish(run)
    if function != "starter_gone":
        with pytest.raises(psycopg.Error, match="the token is not that of run"):
            queue.call(function, run_id=run.run_id, token=uuid.uuid4(), **arguments)
        with pytest.raises(psycopg.Error, match="run 999 is not known") as caught:
            queue.call(function, run_id=999, token=run.token, **arguments)
        assert caught.value.sqlstate == "FWNOT"


def test_a_refused_job_waits_again_and_the_slot_is_not_offered_its_autocluster(
    queue: DirectQueue, run: Claimed
) -> None:
    assert queue.of(run, "reject") is True
    assert queue.of(run, "reject") is False
    assert queue.outcome(run) == "rejected"
    host_id = queue.host()
    assert queue.candidates(host_id, "slot1@h1") == []
    assert len(queue.candidates(host_id, "slot2@h1")) == 1
    queue.submit(RequestCpus=2)
    assert len(queue.candidates(host_id, "slot1@h1")) == 1


def test_the_rest_after_a_refusal_grows_to_its_limit(queue: DirectQueue, run: Claimed) -> None:
    queue.set("max_refusal_rest", 60)
    rests = []
    again: Claimed | None = run
    for _ in range(5):
        assert again is not None
        queue.of(again, "reject")
        rests.append(
            queue.value("SELECT extract(epoch FROM rest_until - now())::float FROM fetchwork.slot_rest")
        )
        queue.pass_time(3600)
        again = queue.claim()
    # some of each limit has passed already
    assert [limit - 10 < rest <= limit for limit, rest in zip((10, 20, 40, 60, 60), rests, strict=True)]
    assert sorted(rests[:4]) == rests[:4]


def test_a_slot_that_was_only_busy_needs_no_rest(queue: DirectQueue, run: Claimed) -> None:
    queue.of(run, "reject", rest=False)
    assert len(queue.candidates(queue.host(), "slot1@h1")) == 1


def test_a_refusal_after_the_start_changes_nothing(queue: DirectQueue, run: Claimed) -> None:
    queue.start(run)
    assert queue.of(run, "reject") is False
    assert queue.of(run, "withdraw", reason="hook gone") is False
    assert queue.of(run, "refuse_start", reason="no Cmd") is False
    assert queue.status(run.job) == 2


def test_a_withdrawn_offer_is_another_slots_at_once(queue: DirectQueue, run: Claimed) -> None:
    assert queue.of(run, "withdraw", reason="the hook had gone") is True
    assert queue.outcome(run) == "withdrawn"
    again = there(queue.claim("slot1@h1"))
    assert again.job == run.job


def test_a_job_that_can_be_printed_nowhere_is_held(queue: DirectQueue, run: Claimed) -> None:
    assert (
        queue.of(run, "withdraw", reason="too large", hold_reason="its ad has 20000 bytes", code=22) is True
    )
    assert queue.rows("SELECT JobStatus, HoldReason, HoldReasonCode FROM fetchwork.jobs") == [
        (5, "its ad has 20000 bytes", 22)
    ]


def test_what_a_match_left_is_in_the_jobs_ad_until_the_next(queue: DirectQueue, run: Claimed) -> None:
    first = {"MATCH_OpSys": "LINUX", "MATCH_EXP_Args": "of LINUX"}
    assert queue.of(run, "note_match", remembered=first) is True
    assert queue.of(run, "withdraw", reason="the hook had gone") is True
    again = there(queue.claim("slot1@h1"))
    assert {name: again.ad[name] for name in first} == first
    assert queue.of(again, "note_match", remembered={"MATCH_EXP_Args": "of other"}) is True
    assert queue.of(run, "note_match", remembered=first) is False
    queue.start(again)
    assert queue.of(again, "note_match", remembered=first) is False
    queue.finish(again)
    left = queue.value("SELECT ad FROM fetchwork.job_history")
    assert {name: left[name] for name in first} == {"MATCH_OpSys": "LINUX", "MATCH_EXP_Args": "of other"}


@pytest.mark.parametrize("name", ["Owner", "MATCH_", "MATCH_a b", "match_x", "Cmd"])
def test_an_agent_writes_nothing_else_into_an_ad(queue: DirectQueue, run: Claimed, name: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        queue.of(run, "note_match", remembered={name: "x"})
    assert caught.value.sqlstate == "FWINV"


def test_files_are_named_as_the_slot_decided(queue: DirectQueue) -> None:
    ad = {
        "Out": "out.$$(OpSys)",
        "Err": "err",
        "TransferOutput": "a.$$(OpSys)",
        "TransferInput": "b.$$(Nope)",
        # another owner, if the report were believed
        "MATCH_EXP_Owner": "bob",
        "MATCH_EXP_Err": "other",
        "MATCH_EXP_Out": "out.LINUX",
        "MATCH_EXP_TransferOutput": "a.LINUX",
        "Owner": "alice",
    }
    assert queue.scalar("transfer_ad", ad=ad) == {
        "Out": "out.LINUX",
        "Err": "err",
        "TransferOutput": "a.LINUX",
        "TransferInput": "b.$$(Nope)",
        "Owner": "alice",
    }


# Could not start


def test_a_job_that_can_not_start_waits_longer_each_time_and_is_held_in_the_end(
    queue: DirectQueue, run: Claimed
) -> None:
    delays = []
    again: Claimed | None = run
    for n in range(3):
        assert again is not None
        assert queue.of(again, "refuse_start", reason="Cmd '/bin/tru' is not there", code=14) is True
        assert queue.outcome(again) == "could_not_start"
        if n < 2:
            delays.append(
                queue.value("SELECT round(extract(epoch FROM not_before - now()))::int FROM fetchwork.job")
            )
            assert queue.claim() is None
            queue.pass_time(10)
            queue.scalar("wake")
            again = queue.claim()
    assert delays == [2, 4]
    assert queue.rows("SELECT JobStatus, HoldReason, HoldReasonCode, NumJobStarts FROM fetchwork.jobs") == [
        (5, "could not start 3 times, last on slot1@h1: Cmd '/bin/tru' is not there", 14, 0)
    ]
    # a release gives the job all its tries again
    queue.act("release", run.job)
    again = there(queue.claim())
    queue.of(again, "refuse_start", reason="no")
    assert queue.status(run.job) == 1


FAILED: dict[str, Any] = {"reason": "reading from file /x: (errno 2) ...", "code": 13, "subcode": 2}


def test_a_job_whose_inputs_do_not_come_is_held_at_once_with_htcondors_code(
    queue: DirectQueue, run: Claimed
) -> None:
    queue.start(run)
    assert queue.of(run, "fail_inputs", **FAILED) is True
    assert queue.outcome(run) == "could_not_start"
    held = "SELECT JobStatus, HoldReason, HoldReasonCode, HoldReasonSubCode, RunId FROM fetchwork.jobs"
    assert queue.rows(held) == [(5, FAILED["reason"], 13, 2, None)]
    assert queue.value("SELECT facts -> 'NumHoldsByReason' FROM fetchwork.job") == {"TransferInputError": 1}
    # the hook asks again because its answer got lost, and JOB_EXIT comes after it
    assert queue.of(run, "fail_inputs", **FAILED) is False
    queue.of(run, "finish", hook_reason="evict", report={})
    assert queue.status(run.job) == 5
    assert queue.events(run.job) == [0, 1, 4, 12]
    queue.act("release", run.job)
    assert queue.claim() is not None


@pytest.mark.parametrize("subcode", [-1001, -1003, -1004])
def test_a_job_whose_inputs_do_not_come_by_the_hosts_fault_is_tried_again_and_at_last_held(
    queue: DirectQueue, run: Claimed, subcode: int
) -> None:
    fault = {**FAILED, "subcode": subcode}
    for tries in (1, 2):
        queue.start(run)
        assert queue.of(run, "fail_inputs", **fault) is True
        assert queue.outcome(run) == "could_not_start"
        # the hook asks again because its answer got lost, and JOB_EXIT comes after it
        assert queue.of(run, "fail_inputs", **fault) is False
        queue.of(run, "finish", hook_reason="evict", report={})
        assert (queue.status(run.job), queue.column("num_not_started", run.job)) == (1, tries)
        queue.pass_time(10)
        queue.scalar("wake")
        claimed = there(queue.claim())
        run = claimed
    queue.start(run)
    assert queue.of(run, "fail_inputs", **fault) is True
    held = queue.rows("SELECT JobStatus, HoldReason, HoldReasonCode, HoldReasonSubCode FROM fetchwork.jobs")
    assert held == [(5, f"could not start 3 times, last on slot1@h1: {FAILED['reason']}", 13, subcode)]
    assert queue.events(run.job) == [0, 1, 4, 1, 4, 1, 4, 12]


@pytest.mark.parametrize("subcode", [2, -1001])
@pytest.mark.parametrize(("request_", "status"), [("remove", None), ("hold", 5), ("vacate", 1)])
def test_inputs_that_do_not_come_change_nothing_about_an_end_that_was_asked_for(
    queue: DirectQueue, run: Claimed, request_: str, status: int | None, subcode: int
) -> None:
    queue.start(run)
    queue.act(request_, run.job)
    assert queue.of(run, "fail_inputs", **{**FAILED, "subcode": subcode}) is True
    found = queue.rows("SELECT JobStatus, HoldReasonCode FROM fetchwork.jobs")
    assert found == ([] if status is None else [(status, 1 if status == 5 else None)])


def test_the_delay_after_a_failed_start_has_a_limit(queue: DirectQueue, run: Claimed) -> None:
    queue.set("max_not_started", 100)
    queue.set("max_retry_delay", 5)
    queue.connection.execute("UPDATE fetchwork.job SET num_not_started = 50")
    queue.of(run, "refuse_start", reason="no")
    assert queue.value("SELECT round(extract(epoch FROM not_before - now()))::int FROM fetchwork.job") == 5


def test_a_good_run_between_makes_the_count_start_anew(queue: DirectQueue, run: Claimed) -> None:
    queue.of(run, "refuse_start", reason="no")
    queue.pass_time(10)
    queue.scalar("wake")
    started = queue.started()
    assert queue.column("num_not_started", run.job) == 1
    queue.finish(started, "evict", JobPid=1)
    assert queue.column("num_not_started", run.job) == 0


# Races between the fence and people; each in both orders


def test_a_start_that_meets_a_removal_waits_and_is_refused(queue: DirectQueue, run: Claimed) -> None:
    person = queue.another(autocommit=False)
    assert person.act("remove", run.job) == 1  # 1. not committed
    with pytest.raises(psycopg.errors.QueryCanceled), queue.within(0.3):
        queue.start(run)  # 2. the fence waits for the answer
    person.connection.commit()  # 3.
    assert queue.start(run) == f"run {run.run_id} is over: via fetchwork rm (by postgres)"


def test_a_removal_that_meets_a_start_waits_and_finds_a_running_job(queue: DirectQueue, run: Claimed) -> None:
    fence = queue.another(autocommit=False)
    assert fence.start(run) is None  # 1. not committed
    with pytest.raises(psycopg.errors.QueryCanceled), queue.within(0.3):
        queue.act("remove", run.job)  # 2.
    fence.connection.commit()  # 3.
    assert queue.act("remove", run.job) == 1
    assert queue.status(run.job) == 3
    assert queue.heartbeat(run)["requested"] == "remove"
    assert queue.finish(run) == "removed"


def test_a_removal_that_meets_a_claim_waits_and_withdraws_its_offer(queue: DirectQueue) -> None:
    job = queue.submit()
    host_id = queue.host()
    claimer = queue.another(autocommit=False)
    run = claimer.claim(host_id=host_id)  # 1. not committed
    assert run is not None
    with pytest.raises(psycopg.errors.QueryCanceled), queue.within(0.3):
        queue.act("remove", job)  # 2.
    claimer.connection.commit()  # 3.
    assert queue.act("remove", job) == 1
    assert queue.outcome(run) == "withdrawn"
    assert queue.status(job) == 3


def test_a_claim_that_meets_a_removal_passes_its_job_over(queue: DirectQueue) -> None:
    first, second = queue.submit_many([{}, {}])
    person = queue.another(autocommit=False)
    person.act("remove", first)  # 1. not committed
    run = queue.claim()  # 2. does not wait
    assert run is not None
    assert run.job == second
    person.connection.rollback()  # 3.
    assert queue.claim("slot2@h1") is not None


def test_fault_that_a_shadow_would_hold_for_holds_the_job_at_once(queue: DirectQueue, run: Claimed) -> None:
    fault = {"reason": "Error from slot1@h1: no", "code": 7, "subcode": 13}
    assert queue.of(run, "start_failed", **fault) is True
    assert queue.outcome(run) == "could_not_start"
    assert queue.rows(
        "SELECT JobStatus, HoldReason, HoldReasonCode, HoldReasonSubCode, NumJobStarts FROM fetchwork.jobs"
    ) == [(5, "Error from slot1@h1: no", 7, 13, 0)]
    assert queue.of(run, "start_failed", **fault) is False


def test_fault_of_a_run_that_passed_the_fence_holds_the_job(queue: DirectQueue) -> None:
    queue.submit()
    started = queue.started()
    assert queue.of(started, "start_failed", reason="no", code=45, subcode=-1000) is True
    assert queue.rows("SELECT JobStatus, HoldReasonCode, HoldReasonSubCode FROM fetchwork.jobs") == [
        (5, 45, -1000)
    ]
    assert queue.events(started.job) == [0, 1, 4, 12]


def test_fault_of_a_job_whose_end_was_asked_for_does_not_hold_it(queue: DirectQueue) -> None:
    queue.submit()
    started = queue.started()
    queue.act("remove", started.job)
    assert queue.of(started, "start_failed", reason="no", code=6, subcode=2) is True
    assert queue.rows("SELECT JobStatus FROM fetchwork.history") == [(3,)]
