"""One run of a command: its words, its streams, who runs it where, and the queue that it works on."""

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

    from fetchwork.queue.remote import AnySession

#: by which the compiled command names a submission that may have been made already
KEY_VARIABLE = "FETCHWORK_SUBMISSION_KEY"

#: seconds to wait for a queue that is away, where condor_dagman asks: for it every refusal is for ever. They
#: are less than the 180 s after which DAGMan gives a command up
PATIENCE_S = 150.0
_PAUSE_S = 1.0

T = TypeVar("T")


@dataclass
class Invocation:
    """What a command is called with. In an access point these are the client's, not the process's own."""

    #: the command's name, and its words
    argv: Sequence[str]
    stdin: BinaryIO
    stdout: BinaryIO
    stderr: BinaryIO
    #: makes the session with the queue's database, when it is first needed
    connect: Callable[[], AnySession]
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    #: what relative paths are relative to
    directory: str | Path = field(default_factory=os.getcwd)
    #: the account that asks
    user: str = ""
    #: by which its submission is known, if somebody gave it a name
    key: str | None = None
    #: called before what must not be done twice: from then on the command is not begun anew
    once: Callable[[], None] = lambda: None
    #: columns of the terminal; -1: the output goes elsewhere
    columns: int = -1
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
        """Print text on stderr, behind what stdout has so far."""
        self.stdout.flush()
        self.stderr.write(text.encode("utf-8", "surrogateescape"))
        self.stderr.flush()

    def words(self) -> list[str]:
        """The words behind the command's name, in octets."""
        return [octets(word) for word in self.argv[1:]]

    def path(self, name: str) -> Path:
        """The path that a word names."""
        # on use: a command that polls has no need of it
        from pathlib import Path

        return Path(self.directory, name)

    def close(self) -> None:
        """Close the session, if there is one."""
        if self._session is not None:
            self._session.close()


def patiently(environment: Mapping[str, str], ask: Callable[[], T]) -> T:
    """What ``ask`` returns; in a DAG it is asked again while nobody answers. So it must do no harm twice."""
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


def of_process(
    argv: Sequence[str],
    connect: Callable[[], AnySession],
    *,
    user: str | None = None,
    key: str | None = None,
    stream: type[io.FileIO] = io.FileIO,
) -> Invocation:
    """The invocation that this process is; ``stream`` is what its standard streams are at the bottom."""
    if user is None:
        user = _user()
    columns = -1
    if os.isatty(1):
        try:
            columns = os.get_terminal_size(1).columns
        except OSError:
            columns = 80
    return Invocation(
        argv,
        io.BufferedReader(stream(0, "rb", closefd=False)),
        io.BufferedWriter(stream(1, "wb", closefd=False), 65536),
        io.BufferedWriter(stream(2, "wb", closefd=False)),
        connect,
        user=user,
        key=key,
        columns=columns,
    )


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
