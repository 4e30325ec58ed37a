"""If no process can be started, or a zygote has just ended, agent and access point leave nothing open."""

import os
import socket
import subprocess
from typing import Any

import pytest

from fetchwork.accesspoint.children import Account, Children
from fetchwork.matchmaker.processes import MatchmakerUnavailable, Processes

ME = Account("me", 1000, 1000, ())


class Zygote:
    """A zygote that takes no message any more."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        pass

    def poll(self) -> None:
        """It lives."""

    def kill(self) -> None:
        """It is about to end."""

    def wait(self) -> int:
        """It ends."""
        return 0


def refuse(*arguments: Any, **more: Any) -> None:
    raise BlockingIOError(11, "Resource temporarily unavailable")


def open_now() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(params=["no process", "just gone"])
def _unlucky(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "no process":
        monkeypatch.setattr(subprocess, "Popen", refuse)
    else:
        monkeypatch.setattr(subprocess, "Popen", Zygote)
        monkeypatch.setattr(socket, "send_fds", refuse)


@pytest.mark.usefixtures("_unlucky")
async def test_an_agent_leaves_nothing_open() -> None:
    before, processes = open_now(), Processes()
    for _ in range(3):
        with pytest.raises(MatchmakerUnavailable):
            await processes.ask({"op": "none"})
        assert open_now() == before


@pytest.mark.usefixtures("_unlucky")
async def test_an_access_point_leaves_nothing_open() -> None:
    before, children = open_now(), Children(1000)
    here, there = socket.socketpair()
    with here, there:
        for _ in range(3):
            with pytest.raises(BlockingIOError):
                await children.command(ME, there)
            with pytest.raises(BlockingIOError):
                children.supervisor(ME)
    await children.stop()
    assert open_now() == before
