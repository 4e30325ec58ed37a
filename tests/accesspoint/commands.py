"""HTCondor's commands, run as an account through an access point."""

import io
import os
from pathlib import Path

from fetchwork.condor import commands
from fetchwork.condor.invocation import Invocation
from fetchwork.queue.remote import RemoteSession
from tests.accesspoint.point import AccessPoint, as_account

SLEEP = "executable = /bin/sleep\narguments = $(Process)\nqueue {}\n"


def condor(point: AccessPoint, account: str, *words: str, stdin: str = "") -> tuple[int, str, str]:
    """Run a command as an account; return its exit status and its output."""

    def run() -> list[object]:
        os.chdir("/")
        out, err = io.BytesIO(), io.BytesIO()
        invocation = Invocation(
            words,
            io.BytesIO(stdin.encode()),
            out,
            err,
            lambda: RemoteSession(str(point.socket)),
            environment={"PATH": ""},
            directory=Path("/"),
            user=account,
        )
        status = commands.run(invocation)
        return [status, out.getvalue().decode(), err.getvalue().decode()]

    status, out, err = as_account(account, run)
    return status, out, err
