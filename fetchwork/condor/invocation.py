"""One run of a command: its words, streams, account, directory and queue."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from fetchwork.condor.arguments import octets
from fetchwork.errors import AccessPointUnavailable, DatabaseUnavailable

if TYPE_CHECKING:
    from pathlib import Path

    from fetchwork.condor.printing.renderers import PrintAs
    from fetchwork.errors import FetchworkError
    from fetchwork.queue.remote import AnySession

#: the variable with the compiled command's idempotency key of a submission
KEY_VARIABLE = "FETCHWORK_SUBMISSION_KEY"

#: seconds to wait for an absent queue on behalf of condor_dagman, for which every refusal is final. They
#: are less than the 180 s after which DAGMan gives a command up
PATIENCE_S = 150.0
_PAUSE_S = 1.0

T = TypeVar("T")


@dataclass
class Invocation:
    """The arguments and streams of a command; in an access point those of the client."""

    #: the command's name, and its words
    argv: Sequence[str]
    stdin: BinaryIO
    stdout: BinaryIO
    stderr: BinaryIO
    #: makes the session with the queue's database, when it is first needed
    connect: Callable[[], AnySession]
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    #: the directory of relative paths
    directory: str | Path = field(default_factory=os.getcwd)
    #: the account that asks
    user: str = ""
    #: the idempotency key of its submission, if it has one
    key: str | None = None
    #: called before a step that must not be repeated: from then on the command is not retried
    once: Callable[[], None] = lambda: None
    #: columns of the terminal; -1 if stdout is no terminal
    columns: int = -1
    #: further functions of print formats, or others of the same names
    renderers: Mapping[str, PrintAs] = field(default_factory=dict)
    _session: AnySession | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        """The command's name without folders."""
        return self.argv[0].rpartition("/")[2]

    @property
    def session(self) -> AnySession:
        """The session with the queue's database."""
        if self._session is None:
            self._session = self.connect()
        return self._session

    def write(self, text: str) -> None:
        """Print octets on stdout."""
        self.stdout.write(text.encode("latin-1"))

    def say(self, text: str) -> None:
        """Print text on stdout."""
        self.stdout.write(text.encode("utf-8", "surrogateescape"))

    def complain(self, text: str) -> None:
        """Print text on stderr, after flushing stdout."""
        self.stdout.flush()
        self.stderr.write(text.encode("utf-8", "surrogateescape"))
        self.stderr.flush()

    def failed(self, text: str, problem: FetchworkError) -> int:
        """Print an error of the queue in HTCondor's words; returns the exit status."""
        self.complain(text)
        return 1

    def words(self) -> list[str]:
        """The words behind the command's name, in octets."""
        return [octets(word) for word in self.argv[1:]]

    def path(self, name: str) -> Path:
        """The path that a word names."""
        # imported on use: a command that polls does not need it
        from pathlib import Path

        return Path(self.directory, name)

    def close(self) -> None:
        """Close the session, if there is one."""
        if self._session is not None:
            self._session.close()


def patiently(environment: Mapping[str, str], ask: Callable[[], T]) -> T:
    """Return the result of ``ask``, which must be idempotent: in a DAG it is retried if the queue is away."""
    # a command outside of a DAG imports neither
    import time

    from fetchwork.dag import dagrun

    end = time.monotonic() + (PATIENCE_S if dagrun.VARIABLE in environment else 0.0)
    while True:
        try:
            return ask()
        except (AccessPointUnavailable, DatabaseUnavailable):
            if time.monotonic() >= end:
                raise
            time.sleep(_PAUSE_S)


def _stream(descriptor: int, mode: str) -> io.FileIO:
    return io.FileIO(descriptor, mode, closefd=False)


def of_process(
    argv: Sequence[str],
    connect: Callable[[], AnySession],
    *,
    user: str | None = None,
    key: str | None = None,
    stream: Callable[[int, str], io.FileIO] = _stream,
) -> Invocation:
    """Return the invocation of this process; ``stream`` makes a raw standard stream."""
    if user is None:
        user = user_name()
    columns = -1
    if os.isatty(1):
        try:
            columns = os.get_terminal_size(1).columns
        except OSError:
            columns = 80
    return Invocation(
        argv,
        io.BufferedReader(stream(0, "rb")),
        io.BufferedWriter(stream(1, "wb"), 65536),
        io.BufferedWriter(stream(2, "wb")),
        connect,
        user=user,
        key=key,
        columns=columns,
    )


def user_name() -> str:
    """The name of this process's account."""
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def host_name() -> str:
    """The name of this host."""
    import socket

    return socket.gethostname()
