"""Ends all that a run of the tests has left, even if the run was cut: its servers, pools and agents would go
on.

Its files in memory are removed too: the machine may not restart soon.

All that a run starts has a variable in its environment that names the run. A watcher process waits for the
end of the run (of its standard input), and then kills every process that still has that variable.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path

VARIABLE = "FETCHWORK_TEST_RUN"
#: a file system in memory
MEMORY = Path("/dev/shm")
#: referenced, because a watcher ends when the pipe to it is closed
_watchers: list[subprocess.Popen[bytes]] = []


def watch_over_this_run() -> None:
    """Have the rest killed when this process has ended. Processes that start from now on count."""
    os.environ[VARIABLE] = uuid.uuid4().hex
    # the watcher is neither ended nor waited for: it reads until this process is gone
    _watchers.append(
        subprocess.Popen(
            [sys.executable, "-P", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
    )


def in_memory(run: str) -> str:
    """The prefix of a run's directories in ``MEMORY``."""
    return f"fetchwork-test-{run}-"


def left(run: str) -> dict[int, str]:
    """The processes that a run has started, without this one: their commands by their pids."""
    variable = f"{VARIABLE}={run}".encode()
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # gone, or another account's
            continue
        if variable in environment and int(process.name) != os.getpid():
            found[int(process.name)] = command[:200]
    return found


def main() -> None:
    """Wait for the end of standard input, then kill the rest of the run named in the environment."""
    sys.stdin.read()
    run = os.environ[VARIABLE]
    # a killed process may have started another in the meantime
    while pids := left(run):
        # the reader of these words may be gone
        with contextlib.suppress(BrokenPipeError):
            print(f"the tests have left processes, which are killed: {pids}", file=sys.stderr)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    for directory in MEMORY.glob(f"{in_memory(run)}*"):
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
