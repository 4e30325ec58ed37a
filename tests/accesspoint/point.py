"""An access point as a process, and clients of several accounts."""

import json
import os
import pwd
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fetchwork.client.link import Link
from fetchwork.process import Process
from tests.support.direct_queue import DirectQueue
from tests.support.waiting import PATIENCE_S, until

#: a command waits this long for another command of its account before it goes on in Python: on a busy machine
#: the usual two seconds may pass during commands that have little to do
PROGRAM = """
import sys
from fetchwork.accesspoint import commanding
from fetchwork.cli import main
commanding.PATIENCE_S = {}
sys.exit(main())
"""


class AccessPoint:
    """An access point's process, in a directory that any account may enter."""

    #: plays hosts and slots on the same database, where a test needs them
    slots: DirectQueue

    def __init__(
        self, directory: Path, conninfo: str, *options: str, uid: int = 0, patience_s: float = PATIENCE_S
    ) -> None:
        self.directory = directory
        self.socket = directory / "point.sock"
        self.conninfo = conninfo
        self.options = options
        self.uid = uid
        self.program = PROGRAM.format(patience_s)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "AccessPoint":
        """Start it, and wait until it answers."""
        command = [sys.executable, "-c", self.program, "access-point", "--socket", str(self.socket)]
        command += ["--state", str(self.directory / "state"), "--name", "point", *self.options]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stderr=log,
                env={**os.environ, "FETCHWORK_DSN": self.conninfo},
                user=self.uid or None,
                cwd="/",
            )
        until(self.answers, "the access point")
        return self

    def answers(self) -> bool:
        """Whether it answers."""
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        try:
            with Link(str(self.socket), patience_s=0) as link:
                return bool(link.ask("status"))
        except Exception:
            return False

    def ask(self, op: str, **arguments: Any) -> Any:
        """One request of this process's account."""
        with Link(str(self.socket)) as link:
            return link.ask(op, **arguments)

    def items(self, op: str, **arguments: Any) -> list[Any]:
        """The items of one request."""
        with Link(str(self.socket)) as link:
            return [item for page in link.pages(op, **arguments) for item in page]

    def submit(self, account: str, text: str, *, key: str = "", **more: Any) -> Any:
        """Submit as an account, once for each key; without one, again."""
        asked = request(text, key=key or os.urandom(8).hex(), **more)
        return as_account(account, lambda: self.ask("submit", **asked))

    def log(self) -> str:
        """The access point's log."""
        return (self.directory / "log").read_text()

    def status(self) -> dict[str, Any]:
        state: dict[str, Any] = self.ask("status")
        return state

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def kill_children(self, account: str) -> None:
        """kill -9 all that the zygote has forked for an account."""
        assert self.process is not None
        point = Process.find(self.process.pid)
        assert point is not None
        uid = pwd.getpwnam(account).pw_uid
        for child in [one for zygote in point.children() for one in zygote.children()]:
            if Path(f"/proc/{child.pid}").stat().st_uid == uid:
                os.kill(child.pid, signal.SIGKILL)

    def stop(self) -> int:
        """Send SIGTERM; return the exit status."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(timeout=PATIENCE_S)


def as_account(name: str, function: Callable[[], Any]) -> Any:
    """Run a function in a child with an account's rights; return its JSON, or raise its error's text."""
    account = pwd.getpwnam(name)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            os.setgroups([])
            os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
            os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)
            try:
                told = {"value": function()}
            except Exception as error:
                told = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
            with os.fdopen(writer, "w") as out:
                out.write(json.dumps(told))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        told = json.loads(answer.read() or '{"error": "nothing was said"}')
    os.waitpid(pid, 0)
    if "error" in told:
        raise RefusedError(told["error"])
    return told["value"]


class RefusedError(Exception):
    """The access point refused; the message that the person sees."""


SUBMIT = "executable = /bin/true\nlog = {log}\nqueue {n}\n"


def request(text: str, *, key: str, cwd: str = "/", count: int = 0, env: dict[str, str] | None = None) -> Any:
    """A request to submit."""
    return {
        "key": key,
        "description": text,
        "cwd": cwd,
        "env": env or {"PATH": "/usr/bin:/bin"},
        "umask": 0o022,
        "count": count,
        "itemdata": None,
        "queue": None,
        "extra": {},
    }
