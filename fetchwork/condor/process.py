"""A command of HTCondor's name as a process of its own: what the executables of ``directory`` run."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession


def _connect() -> AnySession:
    from fetchwork.queue.remote import opened

    return opened(None)


def main() -> NoReturn:
    """Run the command that this process was started as, and end."""
    from fetchwork.condor import commands, invocation

    run = invocation.of_process([os.path.basename(sys.argv[0]), *sys.argv[1:]], _connect)  # noqa: PTH119
    try:
        status = commands.run(run)
    except KeyboardInterrupt:
        status = 130
    for stream in (run.stdout, run.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            # its reader has what it wants
            pass
        except OSError:
            status = status or 1
    run.close()
    # Python's own way out looks through all modules, which costs a short command more than its work
    os._exit(status)
