"""The hooks as HTCondor runs them: installed, each a process of its own, beside an agent that misbehaves."""

import contextlib
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchwork.deploy import hooks as hookinstall
from fetchwork.hook.wire import Reply, Request, RequestReader, encode_reply
from tests.conftest import WITHOUT_COMPILER
from tests.support.waiting import PATIENCE_S

#: an error that a sanitizer finds makes the hook print much text, which no test takes
SANITIZED = (
    "-g",
    "-O1",
    "-Werror",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
)
ADS = Path(__file__).parent.parent / "data" / "ads"


class Done(subprocess.CompletedProcess[bytes]):
    """A hook that has ended, and its duration."""

    seconds: float


class StandIn:
    """An agent that handles each connection as a test says, and stores the requests."""

    def __init__(self, path: Path, behave: Callable[["StandIn", socket.socket], None]) -> None:
        self.requests: list[Request] = []
        self.over = threading.Event()
        self._behave = behave
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        path.chmod(0o777)
        self._socket.listen(16)
        self._threads: list[threading.Thread] = []
        self._main = threading.Thread(target=self._accept)
        self._main.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,))
            thread.start()
            self._threads.append(thread)

    def _serve(self, connection: socket.socket) -> None:
        # a hook may be gone before the agent is done
        with connection, contextlib.suppress(OSError):
            self._behave(self, connection)

    def read(self, connection: socket.socket) -> Request:
        """Take one request."""
        reader = RequestReader()
        while (request := reader.next_request()) is None:
            data = connection.recv(65536)
            if not data:
                raise ConnectionResetError
            reader.feed(data)
        self.requests.append(request)
        return request

    def stop(self) -> None:
        self.over.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in [self._main, *self._threads]:
            thread.join(PATIENCE_S)


Behave = Callable[[StandIn, socket.socket], None]


def answering(reply: Reply) -> Behave:
    def behave(agent: StandIn, connection: socket.socket) -> None:
        agent.read(connection)
        connection.sendall(encode_reply(reply))

    return behave


class Hooks:
    """An installed directory of hooks."""

    def __init__(self, directory: Path) -> None:
        self.home = directory
        self.directory = directory / "hooks"
        self.socket = directory / "agent.sock"
        self.spool = directory / "spool"
        self._agents: list[StandIn] = []
        self.configure()

    def agent(self, behave: Behave | Reply) -> StandIn:
        """Start an agent that answers or behaves as given."""
        self._agents.append(StandIn(self.socket, answering(behave) if isinstance(behave, Reply) else behave))
        return self._agents[-1]

    def stop_agents(self) -> None:
        for agent in self._agents:
            agent.stop()

    def configure(self, **more: object) -> None:
        """Write hook.conf anew."""
        settings = {"keyword": "FW", "socket": self.socket, "spool": self.spool, **more}
        lines = [f"{key} = {value}" for key, value in settings.items() if value is not None]
        (self.directory / "hook.conf").write_text("\n".join(lines) + "\n")

    def command(self, name: str, *args: str, closed: bool = False) -> list[str]:
        hook = [str(self.directory / name), *args]
        return ["/bin/sh", "-c", 'exec "$0" "$@" >&- 2>&-', *hook] if closed else hook

    def run(self, name: str, *args: str, stdin: bytes = b"", closed: bool = False, **more: Any) -> Done:
        """Run a hook; it prints at most one line on stderr, and never a traceback."""
        start = time.monotonic()
        ended = subprocess.run(
            self.command(name, *args, closed=closed),
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_S,
            cwd=more.pop("cwd", self.home),
            **more,
        )
        done = Done(ended.args, ended.returncode, ended.stdout, ended.stderr)
        done.seconds = time.monotonic() - start
        assert done.stderr.count(b"\n") == (1 if done.stderr else 0), done.stderr
        assert b"Traceback" not in done.stderr
        return done


@pytest.fixture(scope="session", params=["python", "compiled"])
def language(request: pytest.FixtureRequest) -> str:
    """The language of the hooks: the same tests for both."""
    return str(request.param)


@pytest.fixture(scope="session")
def _installed(public_directory: Callable[[], Path], language: str) -> Path:
    home = public_directory()
    compiled = language == "compiled"
    if compiled and shutil.which("cc") is None:
        pytest.skip(WITHOUT_COMPILER)
    options = SANITIZED if compiled else None
    hookinstall.install(
        home / "hooks", keyword="FW", socket="/nowhere", compiled=compiled, compiler_options=options
    )
    return home


@pytest.fixture
def hooks(_installed: Path, public_directory: Callable[[], Path]) -> Iterator[Hooks]:
    home = public_directory()
    shutil.copytree(_installed / "hooks", home / "hooks", symlinks=True)
    (home / "spool").mkdir()
    (home / "spool").chmod(0o3733)
    hooks = Hooks(home)
    yield hooks
    hooks.stop_agents()


@pytest.fixture
def as_nobody() -> dict[str, object]:
    """Arguments to run a process as an account without rights, if the tests run as root."""
    if os.geteuid() != 0:
        return {}
    return {"user": "nobody", "extra_groups": []}
