"""The hooks of a run: REPLY_FETCH, PREPARE_JOB, UPDATE_JOB_INFO, JOB_EXIT."""

import signal
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from fetchwork.agent.leader import Leader
from fetchwork.agent.root.signalrights import SignalRights
from fetchwork.agent.runs.givingup import GivingUp
from fetchwork.codes import JobStatus
from fetchwork.db.calls import credentials, files, runs
from fetchwork.errors import WrongToken
from fetchwork.handlers import overuse, retrying
from fetchwork.handlers.context import Caller
from fetchwork.handlers.requests.reply import refusal
from fetchwork.handlers.requests.update import signal_number
from fetchwork.matchmaker.messages import Job, Judgement
from fetchwork.process import Process
from tests.agent.conftest import EXITED, RUNNING, Hooks, attributes_of, slot_ad, with_attributes
from tests.support.waiting import PATIENCE_S


async def test_job_runs_from_fetch_to_exit(hooks: Hooks) -> None:
    job = hooks.submit()
    ad = await hooks.started_job()
    assert hooks.job_of(job)["jobstatus"] == 2
    await hooks.update(ad, **RUNNING, ImageSize=1000)
    answer = await hooks.exit(ad, **EXITED, ExitCode=3)
    assert answer.outcome == "completed"
    assert (hooks.job_of(job)["jobstatus"], hooks.job_of(job)["exitcode"]) == (4, 3)


async def test_start_without_a_reply_is_the_accept_too(hooks: Hooks) -> None:
    job = hooks.submit()
    assert (await hooks.start(await hooks.fetch())).reply.exit == 0
    assert hooks.job_of(job)["jobstatus"] == 2


async def test_same_starter_that_asks_again_hears_the_same(hooks: Hooks) -> None:
    hooks.submit()
    ad = await hooks.started_job()
    assert (await hooks.start(ad)).reply.exit == 0


async def test_job_is_not_held_for_what_its_last_run_used(hooks: Hooks) -> None:
    job = hooks.submit()
    first = await hooks.started_job()
    (run,) = hooks.runs
    # the run ends during the request, and the job runs again
    await hooks.exit(first, "evict", **EXITED)
    await hooks.started_job()
    settled = await retrying.settle_overuse(run, overuse.over_memory(128, 200.0), PATIENCE_S)
    assert not settled.ends
    assert hooks.job_of(job)["jobstatus"] == 2
    (run,) = hooks.runs
    assert (await retrying.settle_overuse(run, overuse.over_memory(128, 200.0), PATIENCE_S)).ends
    assert hooks.job_of(job)["jobstatus"] == 5


async def test_job_is_not_held_by_the_policy_for_what_its_last_run_told(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = hooks.submit(ad={"PeriodicHold": "/Expr(ImageSize > 100000)/"})
    first = await hooks.started_job()
    judge = hooks.context.session.matchmaker.judge

    async def slow(jobs: list[Job]) -> list[Judgement]:
        await hooks.exit(first, "evict", **EXITED)
        await hooks.started_job()
        return await judge(jobs)

    monkeypatch.setattr(hooks.context.session.matchmaker, "judge", slow)
    await hooks.update(first, **RUNNING, ImageSize=200000)
    assert hooks.job_of(job)["jobstatus"] == 2


async def test_second_starter_of_a_run_is_refused_and_its_exit_changes_nothing(hooks: Hooks) -> None:
    job = hooks.submit()
    ad = await hooks.started_job()
    answer = await hooks.start(ad, starter=Process(99, 9))
    assert answer.reply.exit == 1
    told = attributes_of(answer.reply.body)
    assert told["HookStatusCode"] == 350
    assert "has started already" in told["HookStatusMessage"]
    assert (await hooks.exit(ad, "evict", starter=Process(99, 9))).outcome == "not_the_starter"
    assert hooks.job_of(job)["jobstatus"] == 2


async def test_job_removed_between_claim_and_start_does_not_start(hooks: Hooks) -> None:
    job = hooks.submit()
    ad = await hooks.fetch()
    hooks.call("remove", jobs=[job])
    assert (await hooks.start(ad)).reply.exit == 1
    assert hooks.job_of(job)["jobstatus"] == 3


async def test_failed_check_holds_the_job_as_htcondor_does(hooks: Hooks) -> None:
    job = hooks.submit()
    ad = await hooks.fetch()
    problem = "Cannot access initial working directory /no/such: No such file or directory"
    answer = await hooks.start(ad, check=problem)
    assert answer.reply.exit == 1
    # the starter also reports the run's end
    await hooks.exit(ad, "evict")
    held = hooks.job_of(job)
    assert (held["jobstatus"], held["holdreasoncode"], held["holdreasonsubcode"]) == (5, 14, 2)
    assert held["holdreason"] == problem


async def test_failed_check_of_which_htcondor_says_nothing_holds_the_job_in_the_end(hooks: Hooks) -> None:
    job = hooks.submit()
    for _ in range(3):
        ad = await hooks.fetch()
        assert (await hooks.start(ad, check="Environment has an unbalanced single quote")).reply.exit == 1
        await hooks.exit(ad, "evict")
        hooks.wait_longer()
    assert (hooks.job_of(job)["jobstatus"], hooks.job_of(job)["holdreasoncode"]) == (5, 6)
    assert "Environment has an unbalanced single quote" in hooks.job_of(job)["holdreason"]


async def test_rejected_offer_rests_on_the_slot_and_waits_for_others(hooks: Hooks) -> None:
    hooks.submit()
    ad = await hooks.fetch()
    assert (await hooks.reply("reject", ad)).outcome == "rejected"
    assert not await hooks.fetch()
    assert await hooks.fetch(slot_ad(Name="slot2@vm"))


async def test_slot_that_was_only_overtaken_is_offered_the_job_again(hooks: Hooks) -> None:
    hooks.submit()
    ad = await hooks.fetch()
    await hooks.reply("reject", ad, slot_ad("25.14.1-fetch_work-static-claimed-busy"))
    assert await hooks.fetch()


@pytest.mark.parametrize(
    ("case", "request_cpus", "rests"),
    [
        ("static-unclaimed", 1, True),
        ("static-claimed-idle", 1, True),
        ("static-claimed-busy", 1, False),
        ("static-drained", 1, False),
        ("static-preempting-vacating", 1, False),
        ("static-claimed-by-schedd", 1, False),
        ("pslot-with-dslots", 3, True),
        ("pslot-with-dslots", 4, False),
    ],
)
def test_rest_follows_from_what_the_slot_ad_shows(case: str, request_cpus: int, rests: bool) -> None:
    slot = attributes_of(slot_ad(f"23.9.6-fetch_work-{case}"))
    job = attributes_of(b"RequestCpus = %d\n" % request_cpus)
    assert refusal(job, slot)[1] is rests


async def test_update_before_the_start_signals_nothing(hooks: Hooks) -> None:
    hooks.submit()
    answer = await hooks.update(await hooks.fetch())
    assert (answer.reply.signal, answer.outcome) == (0, "alive")


async def test_removed_job_gets_its_own_signal_then_sigkill(hooks: Hooks) -> None:
    job = hooks.submit(ad={"KillSig": "SIGUSR1", "JobMaxVacateTime": 30})
    ad = await hooks.started_job()
    await hooks.update(ad, **RUNNING)
    hooks.call("remove", jobs=[job])
    answer = await hooks.update(ad, **RUNNING)
    assert (answer.reply.signal, answer.reply.pid) == (signal.SIGUSR1, 4242)
    hooks.database.query("UPDATE fetchwork.run SET signalled_at = now() - interval '31 s'")
    assert (await hooks.update(ad, **RUNNING)).reply.signal == signal.SIGKILL
    await hooks.exit(ad, **EXITED | {"ExitBySignal": True}, ExitSignal=9)
    assert hooks.job_of(job)["jobstatus"] == 3


async def test_job_without_a_vacate_time_gets_ten_minutes(hooks: Hooks) -> None:
    job = hooks.submit()
    ad = await hooks.started_job()
    hooks.call("hold", jobs=[job])
    assert (await hooks.update(ad, **RUNNING)).reply.signal == signal.SIGTERM
    hooks.database.query("UPDATE fetchwork.run SET signalled_at = now() - interval '599 s'")
    assert (await hooks.update(ad, **RUNNING)).reply.signal == signal.SIGTERM
    hooks.database.query("UPDATE fetchwork.run SET signalled_at = now() - interval '600 s'")
    assert (await hooks.update(ad, **RUNNING)).reply.signal == signal.SIGKILL


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SIGUSR1", 10),
        ("usr1", 10),
        ("10", 10),
        (None, 15),
        ("", 15),
        ("nonsense", 15),
        ("0", 15),
        ("999", 15),
    ],
)
def test_kill_signal_by_name_or_number(text: str | None, number: int) -> None:
    assert signal_number(text) == number


async def test_job_of_a_run_that_was_given_up_is_killed_and_its_end_does_not_count(hooks: Hooks) -> None:
    job = hooks.submit()
    ad = await hooks.started_job()
    token = attributes_of(ad)["FetchWorkToken"]
    hooks.call("starter_gone", run_id=1, token=token)
    answer = await hooks.update(ad, **RUNNING)
    assert (answer.reply.signal, answer.reply.pid) == (signal.SIGKILL, 4242)
    await hooks.exit(ad, **EXITED | {"ExitBySignal": True}, ExitSignal=9)
    assert hooks.job_of(job)["jobstatus"] == 1


async def test_policy_decides_about_a_job_whose_run_was_given_up_too(hooks: Hooks) -> None:
    job = hooks.submit(ad={"OnExitHold": "/Expr(ExitCode == 3 && JobStatus == 2)/"})
    ad = await hooks.started_job()
    hooks.give_up()
    answer = await hooks.exit(ad, **EXITED, ExitCode=3)
    assert (answer.outcome, answer.details["policy"]) == ("completed", "hold")
    assert hooks.job_of(job)["jobstatus"] == 5
    # once
    assert (await hooks.exit(ad, **EXITED, ExitCode=3)).outcome == "duplicate"
    assert (hooks.job_of(job)["jobstatus"], hooks.job_of(job)["numholds"]) == (5, 1)


async def test_retries_of_a_job_whose_run_was_given_up_count(hooks: Hooks) -> None:
    job = hooks.submit(ad={"OnExitRemove": "/Expr(NumJobCompletions > 1 || ExitCode =?= 0)/"})
    for status in (1, 4):
        ad = await hooks.started_job()
        hooks.give_up()
        assert (await hooks.exit(ad, **EXITED, ExitCode=1)).outcome == "completed"
        assert hooks.job_of(job)["jobstatus"] == status


async def test_policy_of_a_run_that_was_given_up_says_nothing_about_the_next(hooks: Hooks) -> None:
    job = hooks.submit(ad={"OnExitHold": "/Expr(ExitCode == 3)/"})
    first = await hooks.started_job()
    hooks.give_up()
    second = await hooks.started_job()
    assert (await hooks.exit(first, **EXITED, ExitCode=3)).outcome == "late"
    assert hooks.job_of(job)["jobstatus"] == 2
    assert (await hooks.exit(second, **EXITED, ExitCode=0)).outcome == "completed"
    assert hooks.job_of(job)["jobstatus"] == 4


@pytest.mark.parametrize(("act", "status"), [("hold", 5), ("remove", 3)])
async def test_policy_of_a_run_that_was_given_up_says_nothing_once_somebody_did(
    hooks: Hooks, act: str, status: int
) -> None:
    job = hooks.submit(ad={"OnExitRemove": "/Expr(ExitCode =?= 0)/"})
    ad = await hooks.started_job()
    hooks.give_up()
    hooks.database.query(f"SELECT fetchwork.{act}(ARRAY[%s])", [job])
    assert (await hooks.exit(ad, **EXITED, ExitCode=1)).outcome == "late"
    assert hooks.job_of(job)["jobstatus"] == status


async def test_no_other_token_shows_the_job_of_a_run_that_was_given_up(hooks: Hooks) -> None:
    hooks.submit()
    token = attributes_of(await hooks.started_job())["FetchWorkToken"]
    hooks.give_up()
    assert hooks.call("run_policy", run_id=1, token=str(uuid.uuid4())) == [{"run_policy": None}]
    (row,) = hooks.call("run_policy", run_id=1, token=token)
    assert row["run_policy"]["JobStatus"] == 2


async def test_update_after_the_end_changes_nothing(hooks: Hooks) -> None:
    job = hooks.submit()
    ad = await hooks.started_job()
    await hooks.exit(ad, **EXITED, ExitCode=0)
    answer = await hooks.update(ad, **RUNNING)
    assert (answer.reply.signal, answer.outcome) == (0, "late")
    assert hooks.job_of(job)["jobstatus"] == 4


async def test_periodic_remove_ends_a_running_job_at_its_update(hooks: Hooks) -> None:
    job = hooks.submit(ad={"PeriodicRemove": "/Expr(ImageSize > 100000)/"})
    ad = await hooks.started_job()
    assert (await hooks.update(ad, **RUNNING, ImageSize=1000)).reply.signal == 0
    assert (await hooks.update(ad, **RUNNING, ImageSize=200000)).reply.signal == signal.SIGTERM
    await hooks.exit(ad, **EXITED | {"ExitBySignal": True}, ExitSignal=15)
    assert hooks.job_of(job)["jobstatus"] == 3


async def test_on_exit_remove_false_runs_the_job_again(hooks: Hooks) -> None:
    job = hooks.submit(ad={"OnExitRemove": "/Expr(ExitCode =?= 0)/"})
    ad = await hooks.started_job()
    answer = await hooks.exit(ad, **EXITED, ExitCode=1)
    assert answer.details["policy"] == "requeue"
    assert hooks.job_of(job)["jobstatus"] == 1
    ad = await hooks.started_job()
    await hooks.exit(ad, **EXITED, ExitCode=0)
    assert (hooks.job_of(job)["jobstatus"], hooks.job_of(job)["numjobstarts"]) == (4, 2)


async def test_a_job_that_ended_leaves_the_queue_when_its_leave_in_queue_is_not_true(hooks: Hooks) -> None:
    in_queue = "SELECT jobid, jobstatus FROM fetchwork.jobs"
    expression = "/Expr(JobStatus == 4 && ExitCode == 3 && time() - CompletionDate < Stays)/"
    hooks.submit(ad={"LeaveJobInQueue": expression, "Stays": 1000})
    # an attribute that would have kept the job after another exit
    hooks.submit(ad={"LeaveJobInQueue": expression, "Stays": 1000})
    for code in (3, 0):
        answer = await hooks.exit(await hooks.started_job(), **EXITED, ExitCode=code)
        assert answer.outcome == "completed"
    assert [row["jobstatus"] for row in hooks.database.query(in_queue)] == [4, 4]
    assert await hooks.policy_pass() == 1
    (left,) = hooks.database.query(in_queue)
    hooks.database.query(
        'SELECT fetchwork.edit(ARRAY[%s], \'{"LeaveJobInQueue": "/Expr(Stays < 5)/"}\')', [left["jobid"]]
    )
    assert await hooks.policy_pass() == 1
    assert await hooks.policy_pass() == 0
    rows = hooks.database.query("SELECT jobstatus, exitcode FROM fetchwork.history ORDER BY clusterid")
    assert [(row["jobstatus"], row["exitcode"]) for row in rows] == [(4, 3), (4, 0)]


async def test_an_agent_judges_in_place_of_a_leader_that_may_not(hooks: Hooks) -> None:
    job = hooks.submit(ad={"PeriodicHold": "/Expr(true)/"})
    await hooks.context.session.hello(PATIENCE_S)
    # another agent leads, and takes no such task
    other = "SELECT leads FROM fetchwork.lead(gen_random_uuid(), 60)"
    assert hooks.database.query(other) == [{"leads": True}]
    lead = Leader(hooks.context.session)
    await lead.keep_in_order()
    assert not lead.leads
    await lead.do_tasks()
    assert hooks.job_of(job)["jobstatus"] == 5


async def test_policy_that_cannot_be_evaluated_holds_the_job_and_keeps_its_report(hooks: Hooks) -> None:
    bomb = {f"A{n}": f"/Expr(A{n + 1} + A{n + 1})/" for n in range(40)}
    job = hooks.submit(ad={**bomb, "OnExitHold": "/Expr(A0 > 1)/"})
    ad = await hooks.started_job()
    await hooks.exit(ad, **EXITED, ExitCode=5)
    assert hooks.job_of(job)["jobstatus"] == 5
    report = hooks.database.query("SELECT report FROM fetchwork.run_history")[0]["report"]
    assert report["ExitCode"] == 5


async def test_evicted_job_waits_again(hooks: Hooks) -> None:
    job = hooks.submit()
    ad = await hooks.started_job()
    answer = await hooks.exit(ad, "evict", **EXITED, ExitCode=9, VacateReason="vacated")
    assert answer.outcome == "evicted"
    assert (hooks.job_of(job)["jobstatus"], hooks.job_of(job)["numevicted"]) == (1, 1)


async def test_report_holds_only_known_attributes_of_their_types(hooks: Hooks) -> None:
    hooks.submit()
    ad = await hooks.started_job()
    wrong = {"RemoteUserCpu": "much", "ImageSize": True, "NumPids": 2**40, "Surprise": 1}
    body = with_attributes(ad, **{**EXITED, **wrong}, ExitCode=0)
    await hooks.ask("job_exit", body + b"ResidentSetSize = 1 + 1\n", "exit")
    report = hooks.database.query("SELECT report FROM fetchwork.run_history")[0]["report"]
    assert report == {**EXITED, "ExitCode": 0}


#: calls of the database that a run's token allows, and their answers to a wrong token
OPENED: list[tuple[Callable[..., Any], dict[str, Any], Any]] = [
    (files.run_files, {}, None),
    (files.read_chunk, {"content_id": 1, "n": 0}, None),
    (files.begin_content, {"owner": None, "sha256": "0" * 64, "size": 1}, None),
    (files.put_whole_contents, {"owner": None, "datas": [b"x"]}, False),
    (files.output_url, {"url": "s3://bucket/x"}, None),
    (runs.run_policy, {}, None),
    (runs.refuse_start, {"reason": "x", "code": 1}, False),
    (runs.fail_inputs, {"reason": "x", "code": 13, "subcode": 1}, False),
    (runs.withdraw, {"reason": "x"}, False),
    (runs.ship_output, {"stdout_at": 0, "stdout": b"x"}, False),
    (credentials.run_credentials, {}, []),
]


@pytest.mark.parametrize("of_the_next", [False, True], ids=["own run", "next run"])
async def test_a_token_that_outlives_its_run_opens_nothing(hooks: Hooks, of_the_next: bool) -> None:
    job = hooks.submit()
    before = await hooks.started_job()
    await hooks.exit(before, "evict", **RUNNING)
    ad = await hooks.started_job()
    old, now = attributes_of(before), attributes_of(ad)
    assert (old["FetchWorkRunId"], old["FetchWorkToken"]) != (now["FetchWorkRunId"], now["FetchWorkToken"])
    key = {"run_id": now["FetchWorkRunId"] if of_the_next else old["FetchWorkRunId"]}
    key["token"] = old["FetchWorkToken"]
    database = hooks.context.session.database
    for function, arguments, nothing in OPENED:
        try:
            answer = await database.run(function(**key, **arguments), timeout_s=PATIENCE_S)
        except WrongToken:
            assert of_the_next
        else:
            assert answer == nothing, function.__name__
    forged = with_attributes(before, FetchWorkRunId=key["run_id"])
    start = await hooks.start(forged)
    assert start.reply.exit != 0 or start.reply.code == "denied"
    assert (await hooks.exit(forged, **EXITED, ExitCode=7)).outcome in ("denied", "duplicate", "late")
    assert hooks.job_of(job)["jobstatus"] == 2
    assert (await hooks.exit(ad, **EXITED, ExitCode=3)).outcome == "completed"
    assert hooks.job_of(job)["exitcode"] == 3


@pytest.mark.parametrize("act", ["hold", "remove"])
async def test_a_job_that_is_ended_while_it_waits_for_its_time_is_withdrawn_without_a_warning(
    hooks: Hooks, caplog: pytest.LogCaptureFixture, act: str
) -> None:
    job = hooks.submit()
    ad = await hooks.started_job()
    hooks.call(act, jobs=[job])
    run = hooks.runs.get(hooks.context.session, int(attributes_of(ad)["FetchWorkRunId"]))
    assert run is not None
    # as Updates sets it after it has told the starter to end
    assert run.become("recalled")

    async def replay() -> None:
        pass

    caplog.clear()
    with caplog.at_level("INFO"):
        await GivingUp(hooks.runs, replay, SignalRights()).after_grace(run, 0.0)
    told = [(record.levelname, record.getMessage().split()[0]) for record in caplog.records]
    assert ("INFO", "run_withdrawn") in told
    assert "run_given_up" not in [name for _, name in told]
    (row,) = hooks.database.query("SELECT outcome FROM fetchwork.run_history")
    assert row["outcome"] == "withdrawn"


async def test_report_sent_twice_counts_once(hooks: Hooks) -> None:
    job = hooks.submit()
    ad = await hooks.started_job()
    await hooks.exit(ad, **EXITED, ExitCode=0)
    answer = await hooks.exit(ad, **EXITED, ExitCode=0)
    assert answer.outcome == "duplicate"
    assert hooks.job_of(job)["numjobcompletions"] == 1


async def test_report_without_a_database_goes_to_the_spool_as_it_came(no_database: Hooks) -> None:
    hooks = no_database
    ad = b'FetchWorkRunId = 7\nFetchWorkToken = "edc2d9bf-cff4-4e01-a708-e7f96af06707"\nExitCode = 0\n'
    answer = await hooks.ask("job_exit", ad, "exit", slot="slot1", seconds=1.0, spool=True)
    assert (answer.reply.code, answer.outcome) == ("", "spooled")
    assert [(report.body, report.arg, report.slot) for report in hooks.spooled] == [(ad, "exit", "slot1")]
    assert (await hooks.ask("job_exit", ad, "exit", seconds=1.0)).reply.code == "unavailable"


@pytest.mark.parametrize("hook", ["prepare_job", "update_job_info", "job_exit"])
async def test_other_account_gets_nothing_done_even_with_the_token(hooks: Hooks, hook: str) -> None:
    job = hooks.submit()
    ad = await hooks.started_job()
    next(iter(hooks.runs)).owner_uid = 65534
    body = with_attributes(ad, **EXITED, ExitCode=0)
    answer = await hooks.ask(hook, body, "exit", caller=Caller(1000, trusted=False))
    assert answer.reply.code == "denied"
    own = await hooks.ask("update_job_info", body, caller=Caller(65534, trusted=False))
    assert own.reply.code == ""
    assert hooks.job_of(job)["jobstatus"] == 2


async def test_job_with_another_token_than_its_number_s_run_is_to_end(hooks: Hooks) -> None:
    """After a restore of the database; the hook runs and signals with the rights of the job's user."""
    job = hooks.submit()
    ad = await hooks.started_job()
    token = attributes_of(ad)["FetchWorkToken"]
    old = with_attributes(ad, FetchWorkToken="00000000-0000-0000-0000-000000000000", JobPid=4711)
    answer = await hooks.ask("update_job_info", old)
    assert (answer.outcome, answer.reply.signal, answer.reply.pid) == ("gone", 9, 4711)
    assert token not in str(answer.log_fields())
    assert hooks.job_of(job)["jobstatus"] == 2


@pytest.mark.parametrize("hook", ["prepare_job", "job_exit"])
async def test_wrong_token_is_denied_and_the_true_one_not_told(hooks: Hooks, hook: str) -> None:
    job = hooks.submit()
    ad = await hooks.started_job()
    token = attributes_of(ad)["FetchWorkToken"]
    forged = with_attributes(ad, FetchWorkToken="00000000-0000-0000-0000-000000000000", ExitCode=0)
    answer = await hooks.ask(hook, forged, "exit")
    assert answer.reply.code == "denied"
    assert token not in answer.reply.message
    assert hooks.job_of(job)["jobstatus"] == 2


@pytest.mark.parametrize(
    "ad",
    [
        b"",
        b"Cmd = 1\n",
        b'FetchWorkRunId = "7"\nFetchWorkToken = "x"\n',
        b'FetchWorkRunId = 7\nFetchWorkToken = "x"\n',
    ],
)
@pytest.mark.parametrize("hook", ["prepare_job", "update_job_info", "job_exit"])
async def test_ad_that_is_not_of_a_run_is_a_bad_request(no_database: Hooks, hook: str, ad: bytes) -> None:
    assert (await no_database.ask(hook, ad, "exit")).reply.code == "bad_request"


async def test_unknown_request_and_unknown_arguments_are_told_so(hooks: Hooks) -> None:
    hooks.submit()
    assert (await hooks.ask("dance")).reply.code == "unknown_request"
    ad = await hooks.fetch()
    assert (await hooks.reply("maybe", ad)).reply.code == "bad_request"
    assert (await hooks.exit(ad, "explode")).reply.code == "bad_request"


async def test_job_that_python_cannot_read_keeps_no_other_from_its_policy(hooks: Hooks) -> None:
    jobs = [hooks.submit(ad={"PeriodicRemove": "/Expr(QDate > 0)/"}) for _ in range(2)]
    # the number has more digits than Python reads, so the whole ad cannot be read
    hooks.database.query(
        "UPDATE fetchwork.job SET ad = ad || %s::jsonb WHERE cluster_id = 1", ['{"Odd": ' + "9" * 5000 + "}"]
    )
    assert await hooks.policy_pass() == 1
    unread, removed = (hooks.job_of(job) for job in jobs)
    assert removed["jobstatus"] == JobStatus.REMOVED
    # the first slot that is offered the job makes it held
    assert unread["jobstatus"] == JobStatus.IDLE
    assert await hooks.fetch() == b""
    assert "of thousands of digits" in hooks.job_of(jobs[0])["holdreason"]
