"""The agent when the condor_master that started it is gone."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fetchwork import config
from fetchwork.agent import main
from fetchwork.agent.signals import Signal
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.hook.wire import Request
from fetchwork.ipc.peer import Peer
from tests.agent.conftest import Jobs, slot_ad


class Gone:
    """A master that was killed."""

    gone = True


@pytest.fixture
async def agent(conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[main.Agent]:
    monkeypatch.setattr(main, "LAST_HOOKS_S", 0.0)
    tables = {
        "database": {"main": {"conninfo": conninfo}},
        "agent": {"user": "", "socket": str(tmp_path / "sock"), "spool": str(tmp_path / "spool")},
        "keyword": {"FW": {}},
        "host": {"name": "vm"},
    }
    agent = main.Agent(config.from_dict(tables))
    agent._master = Gone()  # type: ignore[assignment]
    yield agent
    for session in agent.sessions:
        await session.close()


async def test_starts_nothing_that_would_be_an_orphan(agent: main.Agent, jobs: Jobs) -> None:
    jobs.submit()
    request = Request("fetch_work", slot_ad(), keyword="FW")
    who = Peer(1, 0, 0)
    answer = await agent.dispatch(request, who, time.monotonic() + 5, Signal())
    assert (answer.reply.code, answer.reply.body, answer.outcome) == ("", b"", "no_master")
    assert agent.status()["master_gone"] is True


async def test_ends_when_nothing_of_its_runs_is_left(agent: main.Agent) -> None:
    context = next(iter(agent.contexts.values()))
    run = LiveRun(1, "token", context, "slot1@vm", "1.0", "nobody", state="running")
    agent.runs.offered(run)
    for _ in range(3):
        await agent._look()
        assert not agent._stopping.is_set()
    agent.runs.ended(context.session, 1)
    await agent._look()
    assert agent._stopping.is_set()
