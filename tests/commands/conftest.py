"""HTCondor's commands, our own: run in this process, on ads of a folder or on the test's own database."""

import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from fetchwork.condor import commands
from fetchwork.condor.invocation import Invocation
from fetchwork.queue.session import Session
from tests.commands.oracle import Answer


def _no_queue() -> NoReturn:
    raise AssertionError("a command that reads a file asked for the queue")


@pytest.fixture
def session(conninfo: str) -> Iterator[Session]:
    """The commands' session with the test's database."""
    with Session(conninfo) as session:
        yield session


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are printed in UTC, as in the pool roots."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture
def run(utc: None) -> Callable[..., Answer]:
    """Runs a command in a folder, without a queue."""

    def run(*words: str, directory: Path, stdin: bytes = b"", columns: int = -1) -> Answer:
        out, err = io.BytesIO(), io.BytesIO()
        invocation = Invocation(
            words,
            io.BytesIO(stdin),
            out,
            err,
            _no_queue,
            environment={},
            directory=directory,
            user="alice",
            columns=columns,
        )
        status = commands.run(invocation)
        return Answer(status, out.getvalue().decode("latin-1"), err.getvalue().decode("latin-1"))

    return run


@pytest.fixture
def condor(session: Session, utc: None, tmp_path: Path) -> Callable[..., Answer]:
    """Runs a command on the test's own database, as alice."""

    def run(*words: str, stdin: str = "", user: str = "alice") -> Answer:
        out, err = io.BytesIO(), io.BytesIO()
        invocation = Invocation(
            words,
            io.BytesIO(stdin.encode()),
            out,
            err,
            lambda: session,
            environment={"PATH": ""},
            directory=tmp_path,
            user=user,
        )
        status = commands.run(invocation)
        return Answer(status, out.getvalue().decode(), err.getvalue().decode())

    return run
