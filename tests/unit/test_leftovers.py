"""What a run of the tests has started does not outlive it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.leftovers import MEMORY, VARIABLE, in_memory, left
from tests.waiting import until

# as a run: starts a server that heeds no SIGTERM and goes on its own, has a directory in memory, and is cut
RUN = """
import os, signal, subprocess, sys, tempfile, time
from tests.leftovers import MEMORY, VARIABLE, in_memory, watch_over_this_run
watch_over_this_run()
tempfile.mkdtemp(prefix=in_memory(os.environ[VARIABLE]), dir=MEMORY)
server = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
subprocess.Popen([sys.executable, "-c", server], start_new_session=True, stdin=subprocess.DEVNULL)
print(os.environ[VARIABLE], flush=True)
time.sleep(3600)
"""


def in_memory_of(run: str) -> list[Path]:
    return list(MEMORY.glob(f"{in_memory(run)}*"))


@pytest.mark.skipif(not os.access(MEMORY, os.W_OK), reason=f"no {MEMORY}")
def test_what_a_cut_run_has_started_is_killed_and_what_it_had_in_memory_removed() -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    with subprocess.Popen(
        [sys.executable, "-c", RUN], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as run:
        assert run.stdout is not None
        name = run.stdout.readline().decode().strip()
        # the run itself has it in its own memory only
        until(lambda: len(left(name)) == 2)
        assert len(in_memory_of(name)) == 1
        run.send_signal(signal.SIGKILL)
    until(lambda: not left(name))
    until(lambda: not in_memory_of(name))
