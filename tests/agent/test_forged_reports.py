"""A report counts only from the run's own account, even if the agent does not know the run (any more)."""

import os
from collections.abc import AsyncIterator

import pytest

from fetchwork.handlers.context import Caller
from fetchwork.handlers.host import accounts
from tests.agent.conftest import EXITED, STARTER, Hooks
from tests.support.waiting import PATIENCE_S

NOBODY, GAMES = 65534, 5
#: the job's own account, and another one of the host
OWN, OTHER = Caller(NOBODY, False, STARTER), Caller(GAMES, False, STARTER)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs jobs that change their account")


@pytest.fixture
async def new_agent(conninfo: str) -> AsyncIterator[Hooks]:
    """The hooks of an agent that knows of no run."""
    hooks = Hooks(conninfo, check_accounts=True)
    yield hooks
    await hooks.close()


@pytest.fixture
async def hooks(conninfo: str) -> AsyncIterator[Hooks]:
    hooks = Hooks(conninfo, check_accounts=True)
    yield hooks
    await hooks.close()


async def test_end_of_a_lost_run_is_believed_from_its_own_account_only(hooks: Hooks) -> None:
    hooks.submit()
    job = await hooks.started_job()
    await hooks.context.session.slot_is_free("slot1@vm", PATIENCE_S)
    run = hooks.runs.get(hooks.context.session, 1)
    assert run is not None
    hooks.runs.ended(hooks.context.session, 1)
    assert hooks.job_of("1.0")["jobstatus"] == 1
    answer = await hooks.exit(job, caller=OTHER, **EXITED, ExitCode=0)
    assert (answer.reply.code, "does not belong to uid 5" in answer.reply.message) == ("denied", True)
    assert hooks.job_of("1.0")["jobstatus"] == 1
    answer = await hooks.exit(job, caller=OWN, **EXITED, ExitCode=0)
    assert (answer.reply.code, answer.outcome) == ("", "completed")
    assert hooks.job_of("1.0")["jobstatus"] == 4


@pytest.mark.parametrize("hook", ["prepare_job", "update_job_info", "job_exit"])
async def test_agent_that_does_not_know_the_run_asks_the_database_whose_it_is(
    hooks: Hooks, new_agent: Hooks, hook: str
) -> None:
    hooks.submit()
    job = await hooks.fetch()
    await hooks.reply("accept", job)
    if hook != "prepare_job":
        await hooks.start(job)
    denied = await new_agent.ask(hook, job, "exit", caller=OTHER)
    assert denied.reply.code == "denied"
    assert "does not belong to uid 5" in denied.reply.message
    assert (await new_agent.ask(hook, job, "exit", caller=OWN)).reply.code == ""


async def test_silent_name_service_is_no_verdict(
    hooks: Hooks, new_agent: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks.submit()
    job = await hooks.started_job()

    def silent(owner: str) -> int | None:
        raise OSError

    monkeypatch.setattr(accounts, "_answers", {})
    monkeypatch.setattr(accounts, "_ask", silent)
    answer = await new_agent.exit(job, caller=OWN, **EXITED, ExitCode=0)
    assert answer.reply.code == "unavailable"


async def test_account_that_is_not_there_has_no_reports(hooks: Hooks, new_agent: Hooks) -> None:
    hooks.submit()
    job = await hooks.started_job()
    hooks.database.query("UPDATE fetchwork.job SET owner = 'no-such-account'")
    assert (await new_agent.exit(job, caller=OWN, **EXITED, ExitCode=0)).reply.code == "denied"


async def test_junk_is_refused_and_not_spooled(no_database: Hooks, hooks: Hooks) -> None:
    junk = b'X = eval("eval(\\"1\\")")\n' * 20_000
    answer = await no_database.ask("job_exit", junk, "exit", caller=OTHER, spool=True)
    assert (answer.reply.code, no_database.spooled) == ("bad_request", [])
    # nor does a report count that has another token than the known run
    hooks.submit()
    job = await hooks.started_job()
    forged = job + b'FetchWorkToken = "00000000-0000-4000-8000-000000000000"\n'
    answer = await hooks.ask("job_exit", forged, "exit", caller=OWN, spool=True)
    assert (answer.reply.code, hooks.spooled) == ("denied", [])
