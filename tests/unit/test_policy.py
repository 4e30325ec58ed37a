"""A job's policy expressions."""

from typing import Any

import pytest

from fetchwork.codes import JobStatus
from fetchwork.errors import ClassAdError
from fetchwork.matchmaker import policy

NOW = 1_000_000.0


def periodic(ad: dict[str, Any], status: int = JobStatus.IDLE, report: dict[str, Any] | None = None) -> Any:
    return policy.periodic(policy.read_ad(ad, report), status, NOW)


def test_job_without_policy_is_left_alone() -> None:
    assert periodic({"Cmd": "/bin/true"}) is None


def test_periodic_hold_holds_with_htcondors_words_and_code() -> None:
    verdict = periodic({"PeriodicHold": "/Expr(NumJobStarts > 2)/", "NumJobStarts": 3})
    assert (verdict.action, verdict.code, verdict.subcode) == ("hold", 3, 0)
    assert verdict.reason == "The job attribute PeriodicHold expression 'NumJobStarts > 2' evaluated to TRUE"


def test_periodic_hold_takes_the_jobs_own_reason_and_subcode() -> None:
    verdict = periodic(
        {
            "PeriodicHold": True,
            "PeriodicHoldReason": '/Expr(strcat("used ", 5))/',
            "PeriodicHoldSubCode": 7,
        }
    )
    assert (verdict.reason, verdict.subcode) == ("used 5", 7)


def test_held_job_is_released_but_not_held_again() -> None:
    ad = {"PeriodicHold": True, "PeriodicRelease": "/Expr(HoldReasonCode == 3)/", "HoldReasonCode": 3}
    assert periodic(ad, JobStatus.HELD).action == "release"
    assert periodic(ad, JobStatus.IDLE).action == "hold"


@pytest.mark.parametrize(
    ("status", "action"), [(JobStatus.IDLE, None), (JobStatus.RUNNING, "vacate"), (JobStatus.HELD, None)]
)
def test_only_a_running_job_is_vacated(status: Any, action: str | None) -> None:
    verdict = periodic({"PeriodicVacate": True}, status)
    assert (verdict.action if verdict else None) == action


def test_periodic_remove_sees_what_the_starter_reports() -> None:
    ad = {"PeriodicRemove": "/Expr(ImageSize > 1000)/", "ImageSize": 5}
    assert periodic(ad, JobStatus.RUNNING) is None
    assert periodic(ad, JobStatus.RUNNING, {"ImageSize": 2000}).action == "remove"


@pytest.mark.parametrize("expression", ["/Expr(NoSuch > 1)/", '/Expr(1 + "a")/', "text", None])
def test_periodic_expression_that_is_neither_true_nor_false_does_not_fire(expression: str | None) -> None:
    assert periodic({"PeriodicRemove": expression, "PeriodicHold": expression}) is None


@pytest.mark.parametrize(("name", "code"), [("AllowedExecuteDuration", 47), ("AllowedJobDuration", 46)])
def test_job_beyond_its_allowed_duration_is_held(name: str, code: int) -> None:
    ad = {name: 100, "JobCurrentStartExecutingDate": int(NOW) - 101}
    verdict = periodic(ad, JobStatus.RUNNING)
    assert (verdict.action, verdict.code) == ("hold", code)
    assert "0+00:01:40" in verdict.reason
    assert periodic(ad, JobStatus.SUSPENDED).action == "hold"
    assert periodic(ad, JobStatus.IDLE) is None
    assert periodic({**ad, "JobCurrentStartExecutingDate": int(NOW) - 99}, JobStatus.RUNNING) is None


def test_a_checkpoint_begins_the_allowed_execute_duration_anew() -> None:
    ran = {"JobCurrentStartExecutingDate": int(NOW) - 1000, "LastCkptTime": int(NOW) - 99}
    assert periodic({"AllowedExecuteDuration": 100, **ran}, JobStatus.RUNNING) is None
    assert periodic({"AllowedJobDuration": 100, **ran}, JobStatus.RUNNING).action == "hold"
    of_an_earlier_run = {**ran, "LastCkptTime": int(NOW) - 2000}
    assert periodic({"AllowedExecuteDuration": 100, **of_an_earlier_run}, JobStatus.RUNNING).action == "hold"


def test_timer_remove_removes_after_its_time() -> None:
    assert periodic({"TimerRemove": int(NOW) - 1}).action == "remove"
    assert periodic({"TimerRemove": int(NOW) + 1}) is None
    assert periodic({"TimerRemove": -1}) is None


def test_job_without_on_exit_policy_is_complete() -> None:
    assert policy.on_exit({}, {"ExitCode": 1}) is None


def test_on_exit_remove_false_runs_the_job_again() -> None:
    verdict = policy.on_exit({"OnExitRemove": "/Expr(ExitCode == 0)/"}, {"ExitCode": 1})
    assert (verdict.action, verdict.delay_s) == ("requeue", 0.0)
    assert policy.on_exit({"OnExitRemove": "/Expr(ExitCode == 0)/"}, {"ExitCode": 0}) is None


def test_max_retries_as_htcondors_submit_writes_them_give_one_run_more_than_retries() -> None:
    ad = {
        "JobMaxRetries": 2,
        "OnExitRemove": "/Expr(NumJobCompletions > JobMaxRetries || ExitCode == 0)/",
    }
    actions = []
    for completions in range(3):
        verdict = policy.on_exit({**ad, "NumJobCompletions": completions}, {"ExitCode": 1})
        actions.append(verdict.action if verdict else "complete")
    assert actions == ["requeue", "requeue", "complete"]


def test_retry_delay_doubles_up_to_its_limit() -> None:
    ad = {"OnExitRemove": False, "FetchWorkRetryDelay": 10, "FetchWorkMaxRetryDelay": 60}
    delays = [
        policy.on_exit({**ad, "NumJobCompletions": done}, {"ExitCode": 1}).delay_s for done in (0, 1, 2, 3)
    ]
    assert delays == [10.0, 20.0, 40.0, 60.0]


def test_on_exit_hold_comes_before_on_exit_remove() -> None:
    ad = {
        "OnExitHold": "/Expr(ExitBySignal && ExitSignal == 11)/",
        "OnExitHoldSubCode": 4,
        "OnExitRemove": True,
    }
    verdict = policy.on_exit(ad, {"ExitBySignal": True, "ExitSignal": 11})
    assert (verdict.action, verdict.code, verdict.subcode) == ("hold", 3, 4)
    assert policy.on_exit(ad, {"ExitBySignal": False, "ExitCode": 11}) is None


@pytest.mark.parametrize(("name", "action"), [("PeriodicHold", "hold"), ("PeriodicRemove", "remove")])
def test_periodic_policy_comes_before_that_of_the_exit(name: str, action: str) -> None:
    """As in the shadow (UserPolicy::AnalyzePolicy, PERIODIC_THEN_EXIT)."""
    ad = {name: "/Expr(NumJobStarts >= 1)/", "NumJobStarts": 1, "OnExitHold": True, "OnExitHoldSubCode": 7}
    verdict = policy.on_exit(ad, {"ExitCode": 0})
    assert verdict is not None
    assert (verdict.action, verdict.subcode) == (action, 0)


def test_a_job_that_has_ended_is_not_vacated() -> None:
    assert policy.on_exit({"PeriodicVacate": True}, {"ExitCode": 0}) is None


def test_on_exit_remove_that_is_undefined_holds_the_job() -> None:
    verdict = policy.on_exit({"OnExitRemove": "/Expr(NoSuch == 1)/"}, {"ExitCode": 0})
    assert (verdict.action, verdict.code) == ("hold", 5)
    assert verdict.reason.endswith("evaluated to UNDEFINED")


def test_wall_clock_time_includes_the_run_that_ended() -> None:
    ad = {"OnExitHold": "/Expr(RemoteWallClockTime >= 15)/", "RemoteWallClockTime": 10.0}
    assert policy.on_exit(ad, {"ExitCode": 0, "JobDuration": 5.5}).action == "hold"
    assert policy.on_exit(ad, {"ExitCode": 0, "JobDuration": 4.0}) is None


def test_policy_that_would_be_evaluated_for_ever_is_refused() -> None:
    bomb = {f"a{n}": f"/Expr(a{n + 1} + a{n + 1})/" for n in range(60)}
    with pytest.raises(ClassAdError):
        periodic({**bomb, "PeriodicHold": "/Expr(a0 > 1)/"})


def test_attribute_that_cannot_be_read_spoils_only_itself() -> None:
    assert periodic({"Broken": "/Expr(1 +)/", "PeriodicHold": True}).action == "hold"


@pytest.mark.parametrize(
    ("expression", "stays"),
    [
        ("/Expr(true)/", True),
        ("/Expr(JobStatus == 4 && StageOutFinish =?= undefined)/", True),
        ("/Expr(JobStatus == 4 && time() - CompletionDate < 60)/", False),
        ("/Expr(StageOutFinish == 0)/", False),
        ('/Expr(1 + "a")/', False),
    ],
)
def test_a_completed_job_stays_in_the_queue_while_its_leave_in_queue_is_true(
    expression: str, stays: bool
) -> None:
    ad = {"LeaveJobInQueue": expression, "CompletionDate": 5, "PeriodicHold": True, "PeriodicRemove": True}
    verdict = periodic(ad, JobStatus.COMPLETED)
    assert (verdict is None) is stays
    assert stays or verdict.action == "leave"
    # before its end the expression has no meaning
    assert periodic({"LeaveJobInQueue": "/Expr(false)/"}, JobStatus.IDLE) is None
