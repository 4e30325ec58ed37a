"""The progress messages of a search through a long history that finds nothing."""

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fetchwork.accesspoint.answers import frames
from fetchwork.accesspoint.server import Channel, Server
from fetchwork.classad.bindings import JobAction
from fetchwork.cli import output, progress
from fetchwork.db.pool import AsyncDatabase
from fetchwork.queue import Queue
from fetchwork.queue.databases import NamedDatabase
from fetchwork.queue.everywhere import Everywhere
from fetchwork.queue.reading.paging import Position
from fetchwork.queue.remote import AnySession, RemoteSession
from fetchwork.queue.session import AsyncSession
from tests.support.sessions import session_of


def ids(session: AnySession) -> list[int]:
    found = session.items("view", name="history", constraint='Args == "x"', projection=["ClusterId"])
    return [ad["ClusterId"] for ad in progress.looking(session, found)]


@pytest.fixture
def ended(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> int:
    """One job of history, far back behind others; history is read in small pieces."""
    for name, value in {"CHEAP": -1.0, "PAGE": 4, "SMALLEST": 4, "LARGEST": 7}.items():
        monkeypatch.setattr(Position, name, value)
    monkeypatch.setattr(progress, "AFTER_S", 0.0)
    wanted = queue.submit({"Cmd": "/bin/true", "Args": "x", "Owner": "alice"}).cluster()
    other = queue.submit("executable = /bin/true\n", count=40, owner="alice").cluster()
    queue.act(JobAction.Remove, str(wanted))
    queue.act(JobAction.Remove, str(other))
    return wanted


def test_a_terminal_is_told_how_much_was_looked_at(
    queue: Queue, ended: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    assert ids(session_of(queue)) == [ended]
    said = capsys.readouterr().err
    assert "looked at 4 jobs" in said
    assert said.count("looked at") > 4
    # nothing of the message stays
    assert said.endswith("\r\x1b[K")


@pytest.fixture
def point(conninfo: str, tmp_path: Path) -> Iterator[str]:
    """The socket of an access point in this process, which reads pieces as small as its fixtures set."""
    path = tmp_path / "point.sock"
    loop = asyncio.new_event_loop()
    session = AsyncSession(AsyncDatabase(conninfo))

    async def dispatch(request: dict[str, object], channel: Channel) -> None:
        async for frame in frames(session, str(request.pop("op")), request):
            await channel.send(frame)

    server = Server(path, dispatch)
    loop.run_until_complete(server.start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield str(path)
    asyncio.run_coroutine_threadsafe(server.stop(0.1), loop).result()
    asyncio.run_coroutine_threadsafe(session.database.close(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_by_way_of_an_access_point_a_terminal_is_told_the_same(
    queue: Queue,
    point: str,
    ended: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    assert ids(session_of(queue)) == [ended]
    alone = capsys.readouterr().err
    with RemoteSession(point) as session:
        assert ids(session) == [ended]
    remote = capsys.readouterr().err
    assert remote.count("looked at") > 4
    # the number of jobs that are read at a time depends on the time that they take
    for said in (alone, remote):
        assert re.fullmatch(r"(\r\x1b\[Klooked at \d+ jobs)+\r\x1b\[K", said)
        numbers = [int(number) for number in re.findall(r"\d+(?= jobs)", said)]
        assert numbers == sorted(set(numbers))


def test_of_several_databases_it_is_told_how_much_in_all(
    conninfo: str, ended: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    with Everywhere([NamedDatabase("one", conninfo), NamedDatabase("two", conninfo)]) as session:
        assert ids(session) == [ended, ended]
    said = [int(number) for number in re.findall(r"looked at (\d+) jobs", capsys.readouterr().err)]
    assert said == sorted(said) and said[-1] > 70


def test_a_program_is_told_nothing(queue: Queue, ended: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert ids(session_of(queue)) == [ended]
    assert capsys.readouterr().err == ""
