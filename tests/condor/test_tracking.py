"""Following jobs that real HTCondor runs: the manual's example, and condor_wait on a log made of events."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import fetchwork
from fetchwork.pool import PersonalPool
from fetchwork.queue import Queue

TRACKING = Path(fetchwork.__file__).parent / "following" / "TRACKING.md"


def environment(pool: PersonalPool) -> dict[str, str]:
    return {**os.environ, "FETCHWORK_DSN": pool.conninfo, "USER": "alice", "LOGNAME": "alice"}


def test_the_manual_s_example_runs_on_real_slots(pool: PersonalPool) -> None:
    program = re.findall(r"```python\n(.*?)```", TRACKING.read_text(), re.DOTALL)[0]
    program = program.replace("arguments = 5", "arguments = 1")
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd="/tmp",
        env=environment(pool),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("Job terminated normally with return value 0.\n", "")


def test_condor_wait_follows_a_log_that_is_written_from_events(pool: PersonalPool) -> None:
    """condor_wait waits for the end of a job that is running when it starts to wait."""
    with Queue(pool.conninfo) as queue:
        cluster = queue.submit(
            "executable = /bin/sh\narguments = \"-c 'sleep 1; exit 3'\"\ninitialdir = /tmp\nqueue 2\n",
            owner="alice",
        ).cluster()
    log = pool.directory / f"events-{cluster}.log"
    follow = [
        "userlog",
        str(cluster),
        "--follow",
        "--timeout",
        "60",
        "-o",
        str(log),
        "--state",
        f"{log}.state",
    ]
    with subprocess.Popen([sys.executable, "-m", "fetchwork", *follow], env=environment(pool)) as writer:
        deadline = threading.Event()
        while not log.exists() and not deadline.wait(0.05):
            assert writer.poll() is None
        waited = pool.run_command(["condor_wait", "-status", "-wait", "50", str(log)])
        writer.terminate()
    assert waited.returncode == 0, waited.stderr
    assert waited.stdout.count("submitted") == 2
    assert waited.stdout.count("completed") == 2
    assert "All jobs done." in waited.stdout
    log.unlink()


def test_wait_tells_how_a_real_job_ended(pool: PersonalPool) -> None:
    with Queue(pool.conninfo) as queue:
        cluster = queue.submit("executable = /bin/false\ninitialdir = /tmp\nqueue\n", owner="alice").cluster()
    done = subprocess.run(
        [sys.executable, "-m", "fetchwork", "wait", str(cluster), "--timeout", "60"],
        env=environment(pool),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "1 jobs, 1 failed\n")
