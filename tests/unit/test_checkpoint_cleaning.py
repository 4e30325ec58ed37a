"""Owners share an access point's deletion of checkpoints, even if one owner's has many files."""

import asyncio
import contextlib
import resource
import signal
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest

from fetchwork.accesspoint import checkpoints, child
from fetchwork.accesspoint.checkpoints import FILES, Checkpoints
from fetchwork.accesspoint.children import Account, Children
from fetchwork.db.calls.call import Call
from fetchwork.db.calls.files import LeftCheckpoint
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import FetchworkError
from fetchwork.ipc import frames
from fetchwork.sandbox import hostsettings
from tests.support.waiting import until_async


class _Database:
    """Each owner has one checkpoint."""

    def __init__(self, names: dict[str, list[str]]) -> None:
        self.looks = 0
        self.left = {
            owner: LeftCheckpoint(1, 0, f"store://{owner}/", owner, of) for owner, of in names.items()
        }

    async def run(self, call: Call[Any], acting_for: str | None = None) -> object:
        if call.function == "checkpoint_owners":
            self.looks += 1
            return list(self.left)
        if call.function == "left_checkpoints":
            owner = str(call.arguments["of_owner"])
            assert int(str(call.arguments["most_rows"])) < 100
            return [self.left[owner]] if owner in self.left and not call.arguments["but_for"] else []
        return self.left.pop(str(acting_for), None) is not None


class _Children:
    """Lets each request wait until the test lets it go on."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.deleted: list[str] = []
        #: files of a request within its time
        self.most = FILES
        self.go_on = asyncio.Event()

    async def ask(self, account: Account, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        assert len(request["names"]) <= FILES
        self.asked.append(request["owner"])
        await self.go_on.wait()
        # all of them take a while, which shows the first ones
        await asyncio.sleep(0.01)
        deleted = request["names"][: self.most]
        self.deleted += deleted
        return {"deleted": len(deleted)}


async def _account(name: str) -> Account:
    return Account(name, 1000, 1000, ())


async def _acts() -> bool:
    return True


@contextlib.asynccontextmanager
async def cleaning(
    database: _Database, children: _Children, account: Callable[[str], Awaitable[Account]] = _account
) -> AsyncGenerator[None]:
    """The part of an access point that deletes checkpoints, at work."""
    part = Checkpoints(cast("AsyncDatabase", database), cast("Children", children), "point", account, _acts)
    task = asyncio.ensure_future(part.keep())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def let_delete(mapfile: Path, timeout_s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a plug-in delete, with ``timeout_s`` for a file."""
    mapfile.write_text("* store:// /bin/true\n")
    monkeypatch.setattr(hostsettings, "ask", lambda *names: [str(mapfile), "", str(timeout_s)])


async def test_nobody_waits_for_all_files_of_another_s_checkpoint(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_delete(tmp_path / "map", 1, monkeypatch)
    monkeypatch.setattr(checkpoints, "LOOK_S", 0.01)
    names = [f"f{n}" for n in range(200 * FILES)]
    large = {f"large{n}": names for n in range(checkpoints.MOST)}
    database, children = _Database(large), _Children()
    async with cleaning(database, children):
        await until_async(lambda: len(children.asked) == checkpoints.MOST, "those with many files")
        database.left["small"] = LeftCheckpoint(2, 0, "store://small/", "small", ["x"])
        children.go_on.set()
        await until_async(lambda: "small" not in database.left, "the other one's")
        assert set(database.left) == set(large)
        await until_async(lambda: not database.left, "all others")
        assert children.asked.index("small") < len(children.asked) / 2


async def test_what_there_was_no_time_for_is_deleted_by_the_next_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_delete(tmp_path / "map", 400, monkeypatch)
    names = [f"f{n}" for n in range(FILES + 5)]
    database, children = _Database({"owner": names}), _Children()
    children.most = 1
    children.go_on.set()
    async with cleaning(database, children):
        await until_async(lambda: not database.left, "all files")
        assert children.deleted == names


@pytest.mark.parametrize(("timeout_s", "deleted"), [(20, 3), (child.CLEAN_S, 1), (10 * child.CLEAN_S, 1)])
def test_no_file_is_begun_for_whose_deletion_there_may_be_no_time(
    tmp_path: Path, timeout_s: int, deleted: int
) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(f'#!/bin/sh\necho "$4" >> {tmp_path}/log\n')
    plugin.chmod(0o755)
    request = {
        **{"command": [str(plugin)], "timeout_s": timeout_s, "env": {}, "names": ["a", "b", "c"]},
        **{"cluster": 1, "proc": 0, "base": "store:///x/", "owner": "nobody"},
    }
    (link, other) = socket.socketpair()
    with link, other:
        link.sendall(frames.encode({"do": "clean", **request}))
        link.shutdown(socket.SHUT_WR)
        # in this process, so the alarm must not end the test
        with patch.object(signal, "alarm"), patch.object(resource, "setrlimit"):
            child.serve(other)
        assert frames.Reader(link).receive() == {"deleted": deleted}
    assert (tmp_path / "log").read_text().split() == ["a", "b", "c"][:deleted]


async def test_an_owner_of_whom_nothing_can_be_deleted_is_complained_of_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checkpoints, "LOOK_S", 0.001)
    database = _Database({"gone": ["x"]})

    async def account(name: str) -> Account:
        raise FetchworkError(f"no account '{name}' on this machine")

    async with cleaning(database, _Children(), account):
        await until_async(lambda: database.looks > 20, "some looks")
        assert caplog.text.count("checkpoints_not_deleted owner=gone") == 1
