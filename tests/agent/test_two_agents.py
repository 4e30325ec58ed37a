"""Two agents of one host name: one has the host, the other waits; a dead agent is no obstacle."""

import asyncio
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from fetchwork.agent import identity
from fetchwork.agent.client import AgentStatus
from fetchwork.simulate.agents import AgentProcess
from tests.agent.conftest import Jobs, MakeAgent
from tests.support.by_name import call
from tests.support.waiting import PATIENCE_S, until_async

AgentIn = Callable[[str], AgentProcess]


@pytest.fixture
def agent_in(make_agent: MakeAgent) -> AgentIn:
    """Makes an agent of host ep1 whose state is in a directory of this name."""
    return lambda directory: make_agent("ep1", directory=directory, agent={"lease_s": 300})


async def state(agent: AgentProcess, wanted: str) -> AgentStatus:
    """The agent's status as soon as its database is in this state."""
    async with asyncio.timeout(PATIENCE_S):
        while (status := await agent.status())["databases"]["main"]["state"] != wanted:
            await asyncio.sleep(0.05)
    return status


async def test_second_agent_is_refused_and_says_so_until_the_first_has_gone(
    agent_in: AgentIn, jobs: Jobs
) -> None:
    first, second = agent_in("a"), agent_in("b")
    await first.start()
    await state(first, "up")
    await second.start()
    problem = (await state(second, "taken"))["databases"]["main"]["problem"]
    assert problem is not None
    for part in ("host ep1 has another agent", f"pid {first.pid}, spool", f"pid {second.pid}, spool", "boot"):
        assert part in problem
    await until_async(lambda: "host_taken" in second.log.read_text(), "its line")
    assert second.log.read_text().count("host_taken") == 1
    assert first.log.read_text().count("host_taken") == 0
    # the refused agent neither renews nor ends the lease
    held = jobs.database.query("SELECT agent_id, lease_until FROM fetchwork.host")
    second.signal(signal.SIGTERM)
    await second.stop()
    assert jobs.database.query("SELECT agent_id, lease_until IS NULL AS over FROM fetchwork.host") == [
        {"agent_id": held[0]["agent_id"], "over": False}
    ]
    third = agent_in("c")
    await third.start()
    await state(third, "taken")
    await first.stop()
    await state(third, "up")


async def test_agent_that_was_killed_is_followed_at_once(agent_in: AgentIn) -> None:
    first = agent_in("a")
    await first.start()
    await state(first, "up")
    first.signal(signal.SIGKILL)
    await first.start()
    await state(first, "up")
    assert "host_taken" not in first.log.read_text()


async def test_clone_with_a_copied_state_directory_does_not_follow(agent_in: AgentIn) -> None:
    first = agent_in("a")
    await first.start()
    await state(first, "up")
    first.signal(signal.SIGKILL)
    clone = agent_in("b")
    shutil.copy2(identity.identity_file(first.spool), identity.identity_file(clone.spool))
    await clone.start()
    await state(clone, "taken")


def test_agent_whose_host_was_taken_meanwhile_is_refused_its_beat(jobs: Jobs) -> None:
    agents = [f"{number}" * 32 for number in (1, 2)]

    def hello(number: int, **more: object) -> int:
        rows = call(
            jobs.database,
            "hello",
            host="ep1",
            agent_version="1",
            agent_id=agents[number],
            location="here",
            **more,
        )
        return int(rows[0]["host_id"])

    host_id = hello(0)
    with pytest.raises(Exception, match=r"host ep1 has another agent: 1{8}-.*here.*this one is 2{8}-"):
        hello(1)
    hello(1, replaces=["1" * 8 + "-1111-1111-1111-" + "1" * 12])
    with pytest.raises(Exception, match=r"another agent: 2{8}-"):
        jobs.call("beat", host_id=host_id, alive=[], tokens=[], agent_id=agents[0])
    jobs.call("beat", host_id=host_id, alive=[], tokens=[], agent_id=agents[1])
    jobs.database.query("UPDATE fetchwork.host SET lease_until = now() - interval '1 s'")
    hello(0)


def test_only_who_gets_the_lock_of_the_same_file_on_the_same_boot_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "LOCK_S", 0.0)
    spool, ids = tmp_path / "spool", [f"{number * 8}-0000-4000-8000-{number * 12}" for number in "123456"]
    first = identity.assume(spool, ids[0])
    assert first.replaces == []
    # a process's lock excludes other processes, not itself
    child = os.fork()
    if not child:
        os._exit(0 if identity.assume(spool, ids[1]).lock is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    first.close()
    second = identity.assume(spool, ids[2])
    second.close()
    third = identity.assume(spool, ids[3])
    third.close()
    assert (second.replaces, third.replaces) == ([ids[0]], [ids[0], ids[2]])
    monkeypatch.setattr(identity, "boot_id", lambda: "another")
    assert identity.assume(spool, ids[4]).replaces == []
    identity.identity_file(spool).write_text("[1, {}")
    assert identity.assume(spool, ids[5]).replaces == []


def test_file_that_cannot_be_had_is_done_without(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    identity.identity_file(spool).symlink_to("/etc/passwd")
    mine = identity.assume(spool, "1")
    assert (mine.lock, mine.replaces) == (None, [])
