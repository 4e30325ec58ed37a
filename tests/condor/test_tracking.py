"""Tracking jobs that real HTCondor runs: condor_wait on a log made of events."""

import os
import subprocess
import sys

import pytest

import fetchwork
from fetchwork.pool import PersonalPool
from fetchwork.queue import Queue
from tests.support.waiting import PATIENCE_S, until


def environment(pool: PersonalPool) -> dict[str, str]:
    return {**os.environ, "FETCHWORK_DSN": pool.conninfo, "USER": "alice", "LOGNAME": "alice"}


@pytest.mark.newest
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
        str(int(PATIENCE_S)),
        "-o",
        str(log),
        "--state",
        f"{log}.state",
    ]
    with subprocess.Popen([sys.executable, "-m", "fetchwork", *follow], env=environment(pool)) as writer:
        until(lambda: log.exists() or writer.poll() is not None, "the log")
        waited = pool.run_command(["condor_wait", "-status", "-wait", str(int(PATIENCE_S)), str(log)])
        writer.terminate()
    assert waited.returncode == 0, waited.stderr
    assert waited.stdout.count("submitted") == 2
    assert waited.stdout.count("completed") == 2
    assert "All jobs done." in waited.stdout
    log.unlink()


def test_condor_userlog_sums_up_a_log_of_ours(pool: PersonalPool) -> None:
    """Each way in which a run can end; condor_userlog once died of an address without a port."""
    with Queue(pool.conninfo) as queue:
        cluster = queue.submit(
            "executable = /bin/sh\n"
            "arguments = \"-c 'test $(Process) -gt 0 || exit 3; sleep 300'\"\n"
            "initialdir = /tmp\nmax_retries = 1\nqueue 3\n",
            owner="alice",
        ).cluster()
        log = pool.directory / f"userlog-{cluster}.log"
        seen: set[tuple[int, int]] = set()
        vacated = False
        for event in queue.events(job=cluster, stop_after=PATIENCE_S):
            seen.add((event.proc, event.type_number))
            running = {(proc, 1) for proc in (1, 2)} <= seen
            if running and not vacated:
                queue.act(fetchwork.JobAction.Hold, f"{cluster}.1")
                queue.act(fetchwork.JobAction.Remove, f"{cluster}.2")
                vacated = True
            if {(0, 5), (1, 12), (2, 9)} <= seen:
                break
    written = subprocess.run(
        [sys.executable, "-m", "fetchwork", "userlog", str(cluster), "-o", str(log)],
        env=environment(pool),
        capture_output=True,
        text=True,
    )
    assert written.returncode == 0, written.stderr
    assert {(1, 4), (2, 4), (0, 4)} <= seen, "held, removed and tried again: each was evicted"
    told = pool.run_command(["condor_userlog", str(log)])
    log.unlink()
    assert told.returncode == 0, told.stderr
    assert "Host/Job" in told.stdout
    lines = [words for words in map(str.split, told.stdout.splitlines()) if words[:1] == [f"{cluster}.0"]]
    # its two runs, and perhaps a line that sums them up
    assert len([words for words in lines if words[1].startswith(pool.host_name)]) >= 2, told.stdout


def test_wait_tells_how_a_real_job_ended(pool: PersonalPool) -> None:
    with Queue(pool.conninfo) as queue:
        cluster = queue.submit("executable = /bin/false\ninitialdir = /tmp\nqueue\n", owner="alice").cluster()
    done = subprocess.run(
        [sys.executable, "-m", "fetchwork", "wait", str(cluster), "--timeout", str(int(PATIENCE_S))],
        env=environment(pool),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "1 jobs, 1 failed\n")
