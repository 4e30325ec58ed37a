"""HTCondor's commands: ours by way of the access point and by connection string, and HTCondor's on a schedd.

    make bench-commands
    python tests/benchmarks/bench_commands.py --jobs 1000

One pool has both queues, with as many jobs each: condor_q for one job, the totals and all jobs, and
condor_submit of one job. Each figure is the median of several processes, from their start to their end, the
sides in turns. It needs root, and HTCondor from Debian (tests/condor).
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from fetchwork.condor import directory
from fetchwork.pool import PersonalPool
from fetchwork.queue import Queue
from tests.many_jobs import unlimited

# its own schedd, and nobody whom it would have to trust
CONFIG = """
DAEMON_LIST = $(DAEMON_LIST) SCHEDD
ALLOW_WRITE = *
SEC_DEFAULT_AUTHENTICATION_METHODS = FS, CLAIMTOBE
SEC_CLIENT_AUTHENTICATION_METHODS = FS, CLAIMTOBE
MAX_JOBS_PER_OWNER = 1000000
MAX_JOBS_PER_SUBMISSION = 1000000
"""
JOBS = """
executable = /bin/sleep
arguments = $(Process)
request_memory = 10
initialdir = /tmp
hold = true
queue {}
"""

# an access point knows root, which owns no jobs, as whom it says
AS_ALICE = """
import sys
sys.path[0:0] = {path!r}
from fetchwork.condor import commands, invocation
from fetchwork.queue.remote import RemoteSession
run = invocation.of_process(sys.argv[1:], lambda: RemoteSession({socket!r}, "alice"))
commands.run(run)
run.stdout.flush()
"""

# times commands inside the pool root, where HTCondor's are
TIMES = """
import json, subprocess, sys, time
words, count = json.loads(sys.argv[1]), int(sys.argv[2])
times = []
for _ in range(count):
    begin = time.perf_counter()
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True)
    times.append(time.perf_counter() - begin)
    assert ended.returncode == 0, ended.stderr
print(json.dumps(times))
"""


def ours(words: list[str], environment: dict[str, str], text: str = "") -> float:
    """Seconds of a command of ours."""
    begin = time.perf_counter()
    ended = subprocess.run(words, input=text, env=environment, capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(f"{words}: {ended.stderr}")
    return time.perf_counter() - begin


class HTCondors:
    """HTCondor's commands in the pool."""

    def __init__(self, pool: PersonalPool) -> None:
        self._pool = pool
        program = pool.directory / "tmp/times.py"
        program.write_text(TIMES)
        program.chmod(0o644)

    def run(self, *words: str, text: str | None = None) -> str:
        ended = self._pool.run_command(list(words), user="alice", input=text)
        if ended.returncode:
            raise RuntimeError(f"{words}: {ended.stderr}")
        return str(ended.stdout)

    def seconds(self, *words: str, count: int) -> float:
        import json

        python = str(self._pool.machine.venv / "bin/python")
        printed = self.run(python, "/tmp/times.py", json.dumps(list(words)), str(count))
        return statistics.median(json.loads(printed))


def submitted(pool: PersonalPool, theirs: HTCondors, jobs: int) -> None:
    """As many jobs in both queues."""
    unlimited(pool.conninfo)
    with Queue(pool.conninfo) as queue:
        queue.submit(JOBS.format(jobs), owner="alice")
    description = pool.directory / "tmp/jobs.sub"
    description.write_text(JOBS.format(jobs))
    description.chmod(0o644)
    theirs.run("condor_submit", "/tmp/jobs.sub")


def measured(pool: PersonalPool, jobs: int) -> None:
    theirs = HTCondors(pool)
    submitted(pool, theirs, jobs)
    folder = directory.made()
    socket = str(pool.access_point.socket)
    by_point = {"PATH": os.defpath, "FETCHWORK_ACCESS_POINT": socket}
    by_string = {"PATH": os.defpath, "FETCHWORK_DSN": pool.conninfo}
    questions = {
        "one job": (["condor_q", "1.0", "-af", "JobStatus"], 15),
        "totals": (["condor_q", "-allusers", "-totals"], 9),
        f"{jobs} jobs": (["condor_q", "-allusers", "-nobatch"], 5),
    }
    figures: dict[str, float] = {}
    for name, (words, count) in questions.items():
        command = [str(folder / words[0]), *words[1:]]
        sides: dict[str, Callable[[], float]] = {
            "access point": lambda c=command: ours(c, by_point),  # type: ignore[misc]
            "connection string": lambda c=command: ours(c, by_string),  # type: ignore[misc]
            "HTCondor": lambda w=words: theirs.seconds(*w, count=1),  # type: ignore[misc]
        }
        times: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(count):
            for side, run in sides.items():
                times[side].append(run())
        medians = {side: statistics.median(found) for side, found in times.items()}
        shown = ", ".join(f"{side} {seconds * 1000:.0f} ms" for side, seconds in medians.items())
        print(f"condor_q {name}: {shown}", flush=True)
        figures[name] = medians["access point"]
        figures[f"{name} over"] = medians["access point"] / medians["HTCondor"]
    program = AS_ALICE.format(path=directory.packages(), socket=socket)
    submit = [sys.executable, "-IS", "-c", program, "condor_submit"]
    text = "executable = /bin/true\nhold = true\nqueue\n"
    submitting = statistics.median(ours(submit, by_point, text) for _ in range(15))
    print(f"condor_q one job ms: {figures['one job'] * 1000:.1f}")
    print(f"condor_q over htcondor: {figures[f'{jobs} jobs over']:.2f}")
    print(f"condor_submit one job ms: {submitting * 1000:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fetchwork-bench-") as folder:
        Path(folder).chmod(0o755)
        pool = PersonalPool(Path(folder) / "pool", slots=1, config=CONFIG)
        pool.start()
        try:
            measured(pool, options.jobs)
        finally:
            pool.stop()


if __name__ == "__main__":
    main()
