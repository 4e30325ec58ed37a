"""What a run of the tests has started does not outlive it."""

import os
import signal
import subprocess
import sys

from tests.leftovers import VARIABLE, left
from tests.waiting import until

# as a run: starts a server that heeds no SIGTERM and goes on its own, and is cut
RUN = """
import os, signal, subprocess, sys, time
from tests.leftovers import VARIABLE, watch_over_this_run
watch_over_this_run()
server = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
subprocess.Popen([sys.executable, "-c", server], start_new_session=True, stdin=subprocess.DEVNULL)
print(os.environ[VARIABLE], flush=True)
time.sleep(3600)
"""


def test_what_a_cut_run_has_started_is_killed() -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    with subprocess.Popen(
        [sys.executable, "-c", RUN], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as run:
        assert run.stdout is not None
        name = run.stdout.readline().decode().strip()
        # the run itself has it in its own memory only
        until(lambda: len(left(name)) == 2)
        run.send_signal(signal.SIGKILL)
    until(lambda: not left(name))
