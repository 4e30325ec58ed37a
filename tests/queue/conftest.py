"""The Python API and the commands on a database of the test's own; tests play slots by calling the schema."""

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import psycopg
import pytest

from fetchwork import cli
from fetchwork.pool.postgres import PostgresServer
from fetchwork.queue import Queue
from tests.support.direct_queue import DirectQueue
from tests.support.kept import kept_database


@pytest.fixture
def conninfo(postgres: PostgresServer) -> str:
    """As in tests/conftest.py, for a database restored for each test: no process here outlives a test."""
    return kept_database(postgres)


@pytest.fixture
def queue(conninfo: str) -> Iterator[Queue]:
    """The Python API on the test's own database."""
    with Queue(conninfo) as queue:
        yield queue


@pytest.fixture
def slots(connection: psycopg.Connection) -> DirectQueue:
    """Plays hosts and slots on the same database."""
    return DirectQueue(connection)


class Told(NamedTuple):
    """A command's output, and its exit status."""

    status: int
    out: str
    err: str


@pytest.fixture
def fetchwork(
    conninfo: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Told]:
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
