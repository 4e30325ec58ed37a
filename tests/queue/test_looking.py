"""What a look through a long history says while it finds nothing."""

import pytest

from fetchwork.classad.bindings import JobAction
from fetchwork.cli import looking, output
from fetchwork.queue import Queue
from fetchwork.queue.paging import Position
from fetchwork.queue.synchronous import session_of


def ids(queue: Queue) -> list[int]:
    session = session_of(queue)
    found = session.items("view", name="history", constraint='Args == "x"', projection=["ClusterId"])
    return [ad["ClusterId"] for ad in looking.looking(session, found)]


@pytest.fixture
def ended(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> int:
    """One job of history, far back behind others; it is looked at in small pieces."""
    for name, value in {"CHEAP": -1.0, "PAGE": 4, "SMALLEST": 4, "LARGEST": 7}.items():
        monkeypatch.setattr(Position, name, value)
    monkeypatch.setattr(looking, "AFTER_S", 0.0)
    wanted = queue.submit({"Cmd": "/bin/true", "Args": "x", "Owner": "alice"}).cluster()
    other = queue.submit("executable = /bin/true\n", count=40, owner="alice").cluster()
    queue.act(JobAction.Remove, str(wanted))
    queue.act(JobAction.Remove, str(other))
    return wanted


def test_a_terminal_is_told_how_much_was_looked_at(
    queue: Queue, ended: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    assert ids(queue) == [ended]
    said = capsys.readouterr().err
    assert "looked at 4 jobs" in said
    assert said.count("looked at") > 4
    # nothing of it stays
    assert said.endswith("\r\x1b[K")


def test_a_program_is_told_nothing(queue: Queue, ended: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert ids(queue) == [ended]
    assert capsys.readouterr().err == ""
