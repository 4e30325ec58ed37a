"""A command of HTCondor's name as a process of its own: what the executables of ``directory`` run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from fetchwork.condor.invocation import Invocation
    from fetchwork.queue.remote import AnySession


def connect() -> AnySession:
    """The session that the environment asks for."""
    from fetchwork.queue.remote import opened

    return opened(None)


def main() -> NoReturn:
    """Run the command that this process was started as, and end."""
    from fetchwork.condor import commands, invocation

    if sys.argv[0].endswith(".py"):
        # the compiled program passes the name by which it was called
        del sys.argv[0]
    key = os.environ.pop(invocation.KEY_VARIABLE, None)
    words = [os.path.basename(sys.argv[0]), *sys.argv[1:]]  # noqa: PTH119
    run = invocation.of_process(words, connect, key=key)
    status = finish(run, commands.run)
    run.close()
    # Python's own exit tears down all modules, which costs a short command more than its work
    os._exit(status)


def finish(run: Invocation, command: Callable[[Invocation], int]) -> int:
    """Run a command, flush its output, and return its exit status."""
    try:
        status = command(run)
    except KeyboardInterrupt:
        status = 130
    for stream in (run.stdout, run.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            # the reader closed its end on purpose
            pass
        except OSError:
            status = status or 1
    return status
