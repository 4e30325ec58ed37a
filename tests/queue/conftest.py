"""The Python API and the commands on a database of the test's own; tests play slots by calling the schema."""

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from fetchwork import cli, queue
from fetchwork.queue.session import Session
from tests.support.direct_queue import DirectQueue


@pytest.fixture
def session(conninfo: str) -> Iterator[Session]:
    """The commands' session with the test's database."""
    with Session(conninfo) as session:
        yield session


class Queue(queue.Queue):
    """The Python API on the test's own database."""

    #: plays hosts and slots there
    direct: DirectQueue


@pytest.fixture(name="queue")
def queue_of_test(conninfo: str, slots: DirectQueue) -> Iterator[Queue]:
    queue = Queue(conninfo)
    queue.direct = slots
    with queue:
        yield queue


class Told(NamedTuple):
    """A command's output, and its exit status."""

    status: int
    out: str
    err: str


Run = Callable[..., Told]


@pytest.fixture
def fetchwork(conninfo: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line on the test's own database."""
    monkeypatch.setenv("FETCHWORK_DSN", conninfo)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str) -> Told:
        capsys.readouterr()
        status = cli.run(list(words))
        return Told(status, *capsys.readouterr())

    return run


@pytest.fixture
def dumb_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No colours, no movement."""
    monkeypatch.setenv("TERM", "dumb")
    os.environ.pop("FORCE_COLOR", None)
