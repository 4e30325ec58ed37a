"""finish: the effects on a run and its job, by the starter's report and by earlier requests."""

from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import EXITED, Claimed, DirectQueue
from tests.support.there import there

KILLED: dict[str, Any] = {
    "JobState": "Exited",
    "JobPid": 77,
    "JobDuration": 5.0,
    "ExitBySignal": True,
    "ExitSignal": 15,
}


@pytest.fixture
def run(queue: DirectQueue) -> Claimed:
    """A run that passed the fence."""
    queue.submit(JobBatchName="b")
    return queue.started()


def test_an_exit_code_is_in_the_history(queue: DirectQueue, run: Claimed) -> None:
    assert queue.finish(run, **EXITED, ExitCode=3, RemoteUserCpu=1.5, RemoteSysCpu=0.5) == "completed"
    assert queue.rows(
        "SELECT JobStatus, ExitBySignal, ExitCode, ExitSignal, RemoteWallClockTime, RemoteUserCpu, RemoteSysCpu, NumJobStarts,"
        " NumJobCompletions, LastRemoteHost, RunId, JobBatchName FROM fetchwork.history"
    ) == [(4, False, 3, None, 5.0, 1.5, 0.5, 1, 1, "slot1@h1", run.run_id, "b")]
    assert queue.events(run.job) == [0, 1, 5]
    assert queue.value("SELECT info FROM fetchwork.events WHERE EventTypeNumber = 5") == {
        "TerminatedNormally": True,
        "ReturnValue": 3,
        "RunSeconds": 5,
        "RunUserCpu": 1.5,
        "RunSysCpu": 0.5,
        "RequestCpus": 1,
        "CpusUsage": 0.4,
    }


def test_a_job_of_a_moment_has_a_cpu_usage(queue: DirectQueue, run: Claimed) -> None:
    queue.finish(run, JobPid=1, ExitCode=0, JobDuration=0.004, RemoteUserCpu=0.0, RemoteSysCpu=0.01)
    assert queue.value("SELECT info -> 'CpusUsage' FROM fetchwork.events WHERE EventTypeNumber = 5") == 1


def test_a_signal_is_in_the_history(queue: DirectQueue, run: Claimed) -> None:
    assert queue.finish(run, **KILLED) == "completed"
    assert queue.rows("SELECT ExitBySignal, ExitCode, ExitSignal FROM fetchwork.history") == [
        (True, None, 15)
    ]
    assert (
        queue.value("SELECT info ->> 'TerminatedBySignal' FROM fetchwork.events WHERE EventTypeNumber = 5")
        == "15"
    )


def test_a_report_that_comes_twice_is_on_record_once(queue: DirectQueue, run: Claimed) -> None:
    assert queue.finish(run) == "completed"
    assert queue.finish(run) == "duplicate"
    assert queue.finish(run, **KILLED) == "duplicate"
    assert queue.rows("SELECT outcome, ExitCode FROM fetchwork.runs") == [("completed", 0)]


def test_reports_of_one_run_that_come_at_once_are_one(queue: DirectQueue, run: Claimed) -> None:
    first = queue.another(autocommit=False)
    assert first.finish(run) == "completed"  # 1. not committed
    with pytest.raises(psycopg.errors.QueryCanceled), queue.within(0.3):
        queue.finish(run)  # 2.
    first.connection.commit()  # 3.
    assert queue.finish(run) == "duplicate"


def test_an_unknown_reason_is_refused(queue: DirectQueue, run: Claimed) -> None:
    with pytest.raises(
        psycopg.Error, match="JOB_EXIT's reason is 'vanish'; allowed: exit, evict, remove, hold"
    ):
        queue.finish(run, "vanish")


def test_an_eviction_is_not_charged_to_the_job(queue: DirectQueue, run: Claimed) -> None:
    assert queue.finish(run, "evict", **KILLED, VacateReason="PREEMPT was true") == "evicted"
    assert queue.rows(
        "SELECT JobStatus, NumEvicted, NumNotStarted, LastReason, RemoteWallClockTime FROM fetchwork.jobs"
    ) == [(1, 1, 0, "PREEMPT was true", 5)]
    assert queue.events(run.job) == [0, 1, 4]
    again = queue.started("slot2@h1")
    assert again.job == run.job
    assert queue.finish(again) == "completed"
    assert queue.value("SELECT count(*) FROM fetchwork.runs WHERE JobId = %s", run.job) == 2


def test_an_exit_without_a_status_is_an_eviction(queue: DirectQueue, run: Claimed) -> None:
    assert queue.finish(run, JobPid=5) == "evicted"


@pytest.mark.parametrize("reason", ["exit", "evict"])
def test_a_run_without_a_process_could_not_start(queue: DirectQueue, run: Claimed, reason: str) -> None:
    assert queue.finish(run, reason, JobUniverse=5) == "could_not_start"
    assert queue.rows("SELECT JobStatus, NumNotStarted FROM fetchwork.jobs") == [(1, 1)]
    assert queue.events(run.job) == [0, 1, 4]
    assert queue.claim("slot2@h1") is None


def test_what_the_agent_found_out_is_the_reason(queue: DirectQueue, run: Claimed) -> None:
    queue.finish(run, "evict", FetchWorkProblem="no account alice")
    assert queue.column("last_reason", run.job) == "no account alice"


def test_an_offer_that_reports_its_end_without_a_start_could_not_start(queue: DirectQueue) -> None:
    job = queue.submit()
    claimed = there(queue.claim())
    assert queue.finish(claimed, "evict", x=1) == "could_not_start"
    assert queue.events(job) == [0]


def test_the_third_time_it_is_held(queue: DirectQueue, run: Claimed) -> None:
    for n in range(3):
        assert queue.finish(run, "evict", x=1) == "could_not_start"
        if n < 2:
            queue.pass_time(100)
            queue.scalar("wake")
            run = queue.started()
    assert queue.value("SELECT HoldReason FROM fetchwork.jobs").startswith(
        "could not start 3 times, last on slot1@h1: the starter could not"
    )
    assert queue.events(run.job) == [0, 1, 4, 1, 4, 1, 4, 12]


# Earlier requests of people


def test_a_job_removed_while_it_ran_is_removed_when_it_has_ended(queue: DirectQueue, run: Claimed) -> None:
    assert queue.act("remove", run.job, reason="typo") == 1
    assert queue.status(run.job) == 3
    assert queue.rows("SELECT count(*) FROM fetchwork.jobs") == [(1,)]
    # a script that waits for ABORTED cleans up behind the job
    assert queue.events(run.job) == [0, 1]
    queue.check()
    assert queue.finish(run, **KILLED) == "removed"
    assert queue.rows("SELECT JobStatus, LastReason FROM fetchwork.history") == [(3, "typo")]
    assert queue.events(run.job) == [0, 1, 4, 9]
    assert queue.value("SELECT info FROM fetchwork.events WHERE EventTypeNumber = 9") == {"Reason": "typo"}
    assert queue.value("SELECT count(*) FROM fetchwork.jobs") == 0


def test_a_job_held_while_it_ran_is_held_when_it_has_ended(queue: DirectQueue, run: Claimed) -> None:
    assert queue.act("hold", run.job, reason="wait") == 1
    assert queue.status(run.job) == 5
    assert queue.events(run.job) == [0, 1]
    queue.check()
    assert queue.finish(run, "evict", **KILLED) == "held"
    assert queue.rows("SELECT JobStatus, HoldReason, RunId FROM fetchwork.jobs") == [(5, "wait", None)]
    assert queue.events(run.job) == [0, 1, 4, 12]
    assert queue.value("SELECT info FROM fetchwork.events WHERE EventTypeNumber = 12") == {
        "HoldReason": "wait",
        "HoldReasonCode": 1,
        "HoldReasonSubCode": 0,
    }
    queue.act("release", run.job)
    assert queue.claim() is not None


@pytest.mark.parametrize(("action", "last"), [("hold", 12), ("remove", 9)])
@pytest.mark.parametrize("lost", [True, False])
def test_events_of_a_run_that_never_reports_have_the_same_order(
    queue: DirectQueue, run: Claimed, action: str, last: int, lost: bool
) -> None:
    """Lost on the way to its end, or ended before it had a process."""
    queue.act(action, run.job)
    if lost:
        assert queue.of(run, "starter_gone") is True
    else:
        assert queue.finish(run, "evict", x=1) == "withdrawn"
    assert queue.events(run.job) == [0, 1, 4, last]
    queue.check()


@pytest.mark.parametrize("action", ["hold", "remove"])
def test_an_offer_that_is_withdrawn_leaves_no_eviction(queue: DirectQueue, action: str) -> None:
    job = queue.submit()
    assert queue.claim() is not None
    queue.act(action, job)
    assert queue.events(job) == [0, 12 if action == "hold" else 9]
    queue.check()


def test_an_eviction_tells_what_the_run_had_used(queue: DirectQueue, run: Claimed) -> None:
    queue.heartbeat(run, ResidentSetSize=3000, DiskUsage=28)
    queue.act("vacate", run.job, reason="make room")
    queue.finish(run, "evict", JobPid=1, ExitCode=0, JobDuration=4.0, RemoteUserCpu=1.0, RemoteSysCpu=1.0)
    assert queue.value("SELECT info FROM fetchwork.events WHERE EventTypeNumber = 4") == {
        "Checkpointed": False,
        "TerminatedAndRequeued": False,
        "TerminatedNormally": False,
        "Reason": "make room",
        "RunSeconds": 4,
        "RunUserCpu": 1,
        "RunSysCpu": 1,
        "RequestCpus": 1,
        "CpusUsage": 0.5,
        "MemoryUsage": 3,
        "DiskUsage": 28,
    }


def test_a_job_that_ends_in_its_second_run_tells_what_it_used_in_all(
    queue: DirectQueue, run: Claimed
) -> None:
    queue.finish(run, "evict", JobPid=1, JobDuration=4.0, RemoteUserCpu=1.0, RemoteSysCpu=2.0)
    queue.finish(queue.started(), **EXITED, ExitCode=0, RemoteUserCpu=10.0, RemoteSysCpu=20.0)
    info = queue.value("SELECT info FROM fetchwork.events WHERE EventTypeNumber = 5")
    assert (info["TotalUserCpu"], info["TotalSysCpu"], info["RunUserCpu"]) == (11, 22, 10)


@pytest.mark.parametrize(("told", "outcome", "status"), [(True, "vacated", 1), (False, "completed", 4)])
def test_a_vacated_job_that_ends_by_itself_is_completed_if_no_hook_had_passed_that_on(
    queue: DirectQueue, run: Claimed, told: bool, outcome: str, status: int
) -> None:
    queue.act("vacate", run.job)
    if told:
        queue.heartbeat(run)
    assert queue.finish(run) == outcome
    assert queue.status(run.job) == status


def test_a_vacated_job_that_htcondor_evicts_meanwhile_is_vacated(queue: DirectQueue, run: Claimed) -> None:
    queue.act("vacate", run.job, reason="make room")
    assert queue.finish(run, "evict", **KILLED) == "vacated"
    assert queue.rows("SELECT JobStatus, NumEvicted, LastReason FROM fetchwork.jobs") == [(1, 0, "make room")]
    assert queue.events(run.job) == [0, 1, 4]


def test_a_vacated_job_that_never_had_a_process_waits_again(queue: DirectQueue, run: Claimed) -> None:
    queue.act("vacate", run.job)
    assert queue.finish(run, "evict", x=1) == "withdrawn"
    assert queue.status(run.job) == 1
    assert queue.events(run.job) == [0, 1, 4]


def test_a_job_released_before_its_run_has_ended_waits_again_afterwards(
    queue: DirectQueue, run: Claimed
) -> None:
    queue.act("hold", run.job)
    queue.act("release", run.job)
    assert queue.status(run.job) == 2
    queue.check()
    assert queue.heartbeat(run)["requested"] == "vacate"
    assert queue.finish(run, **KILLED) == "vacated"
    assert queue.status(run.job) == 1
    assert queue.events(run.job) == [0, 1, 12, 13, 4]


def test_a_removal_beats_an_earlier_hold(queue: DirectQueue, run: Claimed) -> None:
    queue.act("hold", run.job)
    queue.act("remove", run.job)
    assert queue.finish(run, **KILLED) == "removed"
    assert queue.status(run.job) == 3


# Verdicts of the job's policy


@pytest.mark.parametrize(
    ("verdict", "status", "events"),
    [
        (None, 4, [0, 1, 5]),
        ({"action": "complete", "reason": "OnExitRemove is true"}, 4, [0, 1, 5]),
        ({"action": "requeue", "reason": "try again"}, 1, [0, 1, 4]),
        ({"action": "hold", "reason": "bad exit", "code": 3, "subcode": 7}, 5, [0, 1, 12]),
        ({"action": "remove", "reason": "enough"}, 3, [0, 1, 9]),
    ],
)
def test_the_verdict_of_the_policy_decides(
    queue: DirectQueue, run: Claimed, verdict: dict[str, Any] | None, status: int, events: list[int]
) -> None:
    assert queue.finish(run, "exit", verdict) == "completed"
    assert queue.status(run.job) == status
    assert queue.events(run.job) == events


def test_a_held_verdict_has_reason_code_and_subcode(queue: DirectQueue, run: Claimed) -> None:
    queue.finish(run, "exit", {"action": "hold", "reason": "bad exit", "code": 3, "subcode": 7})
    assert queue.rows(
        "SELECT HoldReason, HoldReasonCode, HoldReasonSubCode, NumHolds FROM fetchwork.jobs"
    ) == [("bad exit", 3, 7, 1)]


def test_a_requeued_job_waits_as_long_as_the_verdict_says(queue: DirectQueue, run: Claimed) -> None:
    queue.finish(run, "exit", {"action": "requeue", "delay_s": 60})
    assert queue.claim("slot2@h1") is None
    assert queue.column("num_completions", run.job) == 1
    queue.pass_time(61)
    assert queue.scalar("wake") == 1
    assert queue.claim("slot2@h1") is not None


# Late reports


def test_a_late_report_of_a_lost_run_whose_job_still_waits_is_as_good_as_in_time(
    queue: DirectQueue, run: Claimed
) -> None:
    queue.of(run, "starter_gone")
    assert queue.status(run.job) == 1
    assert queue.finish(run, **EXITED, ExitCode=4) == "completed"
    assert queue.rows("SELECT JobStatus, ExitCode, RunId, NumLost FROM fetchwork.history") == [
        (4, 4, run.run_id, 1)
    ]
    assert queue.rows("SELECT outcome, reason FROM fetchwork.runs") == [
        ("completed", "reported after it had been given up as lost")
    ]
    assert queue.claim("slot2@h1") is None
    assert queue.finish(run) == "duplicate"


@pytest.mark.parametrize("action", ["requeue", "hold", "remove", "complete"])
def test_a_late_report_obeys_the_policy_too(queue: DirectQueue, run: Claimed, action: str) -> None:
    queue.of(run, "starter_gone")
    assert queue.finish(run, "exit", {"action": action}) == "completed"
    assert queue.status(run.job) == {"requeue": 1, "hold": 5, "remove": 3, "complete": 4}[action]


def test_a_late_report_of_a_superseded_run_is_kept_and_changes_nothing_else(
    queue: DirectQueue, run: Claimed
) -> None:
    queue.of(run, "starter_gone")
    later = queue.started("slot2@h1")
    assert queue.finish(run, **EXITED, ExitCode=4) == "late"
    assert (
        queue.value(
            "SELECT ad -> 'LateReport' ->> 'ExitCode' FROM fetchwork.runs WHERE RunId = %s", run.run_id
        )
        == "4"
    )
    assert queue.status(run.job) == 2
    assert queue.finish(later) == "completed"
    assert queue.value("SELECT ExitCode FROM fetchwork.history") == 0


def test_a_late_report_finds_its_job_offered_to_another_slot(queue: DirectQueue, run: Claimed) -> None:
    queue.of(run, "starter_gone")
    offer = there(queue.claim("slot2@h1"))
    assert queue.finish(run) == "late"
    assert queue.start(offer) is None


def test_a_late_report_of_a_job_held_or_removed_meanwhile_changes_nothing(
    queue: DirectQueue, run: Claimed
) -> None:
    queue.of(run, "starter_gone")
    queue.act("hold", run.job)
    assert queue.finish(run) == "late"
    assert queue.status(run.job) == 5


@pytest.mark.parametrize("report", [{**KILLED, "ExitSignal": 9}, {"JobPid": 7}])
def test_a_late_report_of_a_job_that_was_killed_for_being_lost_does_not_complete_it(
    queue: DirectQueue, run: Claimed, report: dict[str, Any]
) -> None:
    queue.of(run, "starter_gone")
    assert queue.finish(run, **report) == "late"
    assert queue.status(run.job) == 1


def test_a_job_that_is_lost_too_often_is_held(queue: DirectQueue, run: Claimed) -> None:
    queue.set("max_lost", 2)
    queue.of(run, "starter_gone")
    assert queue.status(run.job) == 1
    again = queue.started("slot2@h1")
    queue.of(again, "starter_gone", problem="it died")
    assert queue.rows("SELECT JobStatus, HoldReason, HoldReasonCode FROM fetchwork.jobs") == [
        (5, "lost 2 times, last: it died", 26)
    ]
    assert queue.events(run.job) == [0, 1, 4, 1, 4, 12]


def test_the_end_of_the_jobs_output_is_kept_with_the_run(queue: DirectQueue, run: Claimed) -> None:
    queue.finish(run, **EXITED, ExitCode=0, FetchWorkOutput={"Out": "hello"})
    assert queue.value("SELECT ad -> 'Output' FROM fetchwork.runs") == {"Out": "hello"}


def test_a_runs_time_is_charged_to_its_submitter_by_weight(queue: DirectQueue) -> None:
    queue.submit(AccountingGroup="physics.alice")
    started = queue.started(weight=4)
    queue.pass_time(100)
    while_it_runs = queue.value("SELECT WeightedUsage FROM fetchwork.submitters")
    queue.finish(started)
    charged = queue.value("SELECT WeightedUsage FROM fetchwork.submitters")
    # four for each second of the 100 s, and of the test's own time
    took = queue.value("SELECT extract(epoch FROM ended_at - claimed_at) FROM fetchwork.run_history")
    assert 400 <= while_it_runs <= charged <= 4 * took
    for _ in range(2):
        assert queue.rows("SELECT Name, WeightedUsage FROM fetchwork.submitters") == [
            ("physics.alice", pytest.approx(charged, rel=1e-5))
        ]
        queue.scalar("fold")
    assert queue.value("SELECT AccumulatedUsage FROM fetchwork.submitters") == pytest.approx(
        charged, rel=1e-5
    )
