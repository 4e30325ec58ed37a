"""heartbeat and beat: an update's writes and renewals, and the order to end a job."""

from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import EXITED, DirectQueue


def deadline_in(queue: DirectQueue) -> float:
    """Seconds until the single run counts as lost."""
    return float(queue.value("SELECT extract(epoch FROM deadline - clock_timestamp()) FROM fetchwork.run"))


def test_an_update_writes_usage_and_renews_the_run(queue: DirectQueue) -> None:
    job = queue.submit()
    run = queue.started(lease_s=600)
    queue.pass_time(500)
    assert queue.heartbeat(run, ImageSize=100)["action"] is None
    assert 590 < deadline_in(queue) <= 600
    assert queue.rows("SELECT jobpid, ad ->> 'ImageSize' FROM fetchwork.runs") == [(77, "100")]
    assert queue.status(job) == 2


def test_the_first_update_of_a_starter_that_has_not_passed_the_fence_does_not_renew_its_offer(
    queue: DirectQueue,
) -> None:
    queue.submit()
    run = queue.claim(offer_s=60, lease_s=600)
    assert run is not None
    assert (
        queue.call("heartbeat", run_id=run.run_id, token=run.token, report={"JobUniverse": 5})[0]["action"]
        is None
    )
    assert deadline_in(queue) <= 60
    assert queue.value("SELECT ad FROM fetchwork.runs") is None


def test_suspension_is_seen_both_ways_and_once(queue: DirectQueue) -> None:
    job = queue.submit()
    run = queue.started()
    for state, status in [("Suspended", 7), ("Suspended", 7), ("Running", 2), ("Running", 2)]:
        queue.heartbeat(run, JobState=state, NumPids=3)
        assert queue.status(job) == status
        queue.check()
    assert queue.events(job) == [0, 1, 10, 11]
    assert queue.value("SELECT info FROM fetchwork.events WHERE EventTypeNumber = 10") == {"NumberOfPIDs": 3}
    # an update without a state, the first of all, ends no suspension
    queue.heartbeat(run, JobState="Suspended")
    queue.call("heartbeat", run_id=run.run_id, token=run.token, report={})
    assert queue.status(job) == 7


def test_a_suspended_job_may_end(queue: DirectQueue) -> None:
    job = queue.submit()
    run = queue.started()
    queue.heartbeat(run, JobState="Suspended")
    assert queue.finish(run) == "completed"
    assert queue.status(job) == 4


def test_an_image_that_grows_by_a_tenth_is_an_event(queue: DirectQueue) -> None:
    job = queue.submit()
    run = queue.started()
    for size in (100, 105, 120, 120, 90):
        queue.heartbeat(
            run,
            ImageSize=size,
            ResidentSetSize=size // 2,
            MemoryUsage="/Expr((ResidentSetSize + 1023) / 1024)/",
        )
    assert queue.rows(
        "SELECT info ->> 'Size' FROM fetchwork.events WHERE EventTypeNumber = 6 ORDER BY EventId"
    ) == [("100",), ("120",)]
    assert queue.events(job) == [0, 1, 6, 6]


def test_an_update_after_the_end_leaves_the_run_ended(queue: DirectQueue) -> None:
    job = queue.submit()
    run = queue.started()
    queue.finish(run)
    assert queue.heartbeat(run)["action"] == "late"
    assert queue.status(job) == 4


def test_a_run_that_was_given_up_hears_that_it_is_gone(queue: DirectQueue) -> None:
    queue.submit()
    run = queue.started()
    queue.of(run, "starter_gone")
    told = queue.heartbeat(run)
    assert (told["action"], told["reason"]) == ("gone", "the starter ended without a report")


@pytest.mark.parametrize(
    ("act", "requested", "signal"),
    [("remove", "remove", "SIGUSR1"), ("hold", "hold", "SIGUSR2"), ("vacate", "vacate", "SIGINT")],
)
def test_a_job_that_has_to_end_is_told_with_its_own_signal_and_time(
    queue: DirectQueue, act: str, requested: str, signal: str
) -> None:
    job = queue.submit(KillSig="SIGINT", RemoveKillSig="SIGUSR1", HoldKillSig="SIGUSR2", JobMaxVacateTime=30)
    run = queue.started()
    assert queue.act(act, job, reason="so it is") == 1
    assert queue.heartbeat(run) == {
        "action": "end",
        "reason": "so it is",
        "requested": requested,
        "signalled_s": None,
        "kill_sig": signal,
        "max_vacate_s": 30,
    }
    queue.pass_time(31)
    told = queue.heartbeat(run)
    assert told["action"] == "end"
    assert 31 <= told["signalled_s"] < 40


def test_an_update_that_came_before_there_was_a_process_does_not_count_as_told(queue: DirectQueue) -> None:
    job = queue.submit()
    run = queue.started()
    queue.act("vacate", job)
    assert queue.call("heartbeat", run_id=run.run_id, token=run.token, report={})[0]["action"] == "end"
    assert queue.heartbeat(run)["signalled_s"] is None
    queue.pass_time(5)
    # nor does an update that was overtaken
    queue.call("heartbeat", run_id=run.run_id, token=run.token, report={})
    assert queue.heartbeat(run)["signalled_s"] >= 5


@pytest.mark.parametrize("report", [None, "[]", "7", '"x"'])
def test_a_report_that_is_no_object_is_refused(queue: DirectQueue, report: str | None) -> None:
    queue.submit()
    run = queue.started()
    for statement in (
        "SELECT fetchwork.heartbeat(%s, %s, %s)",
        "SELECT fetchwork.finish(%s, %s, 'exit', %s)",
    ):
        with pytest.raises(psycopg.Error, match=r"a report is .*; allowed: a JSON object") as caught:
            queue.value(statement, run.run_id, run.token, report)
        assert caught.value.sqlstate == "FWINV"


WILD: list[dict[str, Any]] = [
    {"JobPid": "x", "ImageSize": "y", "NumPids": [], "JobState": 5},
    {
        "JobPid": 10**400,
        "ImageSize": 10**400,
        "NumPids": -(10**30),
        "JobState": "Suspended",
        "JobStartDate": 1e300,
    },
    {"JobPid": 1.5, "ImageSize": {"a": 1}, "MemoryUsage": "/Expr(x)/", "JobStartDate": "z"},
    {"JobPid": None, "ImageSize": None, "JobState": None},
]


@pytest.mark.parametrize("report", WILD)
def test_no_value_in_a_report_breaks_what_others_read(queue: DirectQueue, report: dict[str, Any]) -> None:
    queue.submit()
    run = queue.started()
    queue.heartbeat(run, **report)
    queue.heartbeat(run, **report)
    assert len(queue.call("host_runs", host_id=queue.host())) == 1
    assert len(queue.rows("SELECT * FROM fetchwork.runs")) == 1
    ended = {
        "ExitCode": "x",
        "ExitSignal": 10**30,
        "ExitBySignal": "maybe",
        "JobDuration": 10**400,
        "RemoteUserCpu": "many",
    }
    assert queue.finish(run, **{**EXITED, **report, **ended}) in ("evicted", "could_not_start")
    assert len(queue.rows("SELECT * FROM fetchwork.runs")) == 1


def test_no_token_and_no_claim_id_of_a_report_is_kept(queue: DirectQueue) -> None:
    queue.submit_many([{}, {}])
    run = queue.started()
    secrets = {
        "FetchWorkToken": str(run.token),
        "fetchworktoken": "t",
        "ClaimId": "<1.2.3.4>#5#secret",
        "Capability": "c",
    }
    queue.heartbeat(run, **secrets)
    queue.of(run, "starter_gone")
    queue.finish(run, **EXITED, ExitCode=1, ExitSignal=9, **secrets)  # type: ignore[arg-type]
    other = queue.started()
    queue.finish(other, **EXITED, ExitCode=0, **secrets)  # type: ignore[arg-type]
    kept = str(queue.rows("SELECT usage, report, late_report, output FROM fetchwork.run_history"))
    assert "ExitCode" in kept
    for secret in (str(run.token), "secret", "Capability", "oken"):
        assert secret not in kept


# beat: an agent's report about all its runs


def test_an_agent_renews_its_lease_and_the_runs_it_sees(queue: DirectQueue) -> None:
    queue.submit_many([{}, {}])
    seen = queue.started("slot1@h1", lease_s=900)
    unseen = queue.started("slot2@h1", lease_s=900)
    queue.pass_time(600)
    assert queue.beat(queue.host(), seen) == []
    left = dict(
        queue.rows(
            "SELECT run_id, round(extract(epoch FROM deadline - clock_timestamp()))::int FROM fetchwork.run"
        )
    )
    assert left[seen.run_id] in range(890, 901)
    assert left[unseen.run_id] in range(290, 301)
    assert queue.value("SELECT alive FROM fetchwork.hosts") is True


def test_an_agent_hears_which_of_its_runs_have_to_end(queue: DirectQueue) -> None:
    jobs = queue.submit_many([{}, {}, {}])
    gone, asked, fine = (queue.started(f"slot{n}@h1") for n in range(3))
    queue.of(gone, "starter_gone")
    queue.act("hold", jobs[1])
    told = queue.beat(queue.host(), gone, asked, fine)
    assert {row["run_id"]: row["action"] for row in told} == {gone.run_id: "gone", asked.run_id: "end"}


def test_an_agent_renews_no_run_of_another_host(queue: DirectQueue) -> None:
    queue.submit()
    run = queue.started("slot1@h1", lease_s=900)
    queue.pass_time(600)
    assert queue.beat(queue.host("h2"), run) == [{"run_id": run.run_id, "action": "gone"}]
    assert deadline_in(queue) <= 300


def test_a_run_that_someone_is_busy_with_does_not_hold_up_its_hosts_beat(queue: DirectQueue) -> None:
    queue.submit()
    run = queue.started(lease_s=900)
    queue.pass_time(600)
    busy = queue.another(autocommit=False)
    busy.heartbeat(run)
    assert queue.beat(queue.host(), run) == []
    busy.connection.rollback()
