"""HTCondor's commands: ours by way of the access point and by connection string, and HTCondor's on a schedd.

    make bench-commands
    python tests/benchmarks/bench_commands.py --jobs 1000

One pool has both queues, with as many jobs each: condor_q for one job, the totals and all jobs, and
condor_submit of one job. Each figure is the median of several processes, from their start to their end, the
sides in turns. Ours are the compiled program, run as an ordinary account.

Then many clients poll a queue that has many jobs more, each its own cluster every few seconds, while jobs run
one after the other: how long these wait from their submission to their start, over how long they wait when
nobody polls, in turns, each for a bounded time. It needs root, HTCondor from Debian (tests/condor), and
a C compiler.

The last lines are these: condor_q for one job (goal: 30 ms), for all jobs over HTCondor's (goal: 1.5),
condor_submit of one job (goal: 40 ms), and the ratio of the delays with and without pollers (goal: 1.1).
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

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

#: seconds for one command of ours: one that takes longer ends the benchmark
MOST_S = 120
#: whose jobs and commands they are in our queue
USER = "nobody"
#: a job that the pool's slots run
SHORT = "executable = /bin/true\ntransfer_executable = false\ninitialdir = /tmp\nqueue\n"

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


def ours(words: list[str], environment: dict[str, str], text: str = "", user: str | None = USER) -> float:
    """Seconds of a command of ours."""
    begin = time.perf_counter()
    try:
        ended = subprocess.run(
            words,
            input=text,
            env=environment,
            capture_output=True,
            text=True,
            cwd="/",
            user=user,
            group=user and "nogroup",
            extra_groups=[] if user else None,
            timeout=MOST_S,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{words}: no answer within {error.timeout} s") from None
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
        queue.submit(JOBS.format(jobs), owner=USER)
    description = pool.directory / "tmp/jobs.sub"
    description.write_text(JOBS.format(jobs))
    description.chmod(0o644)
    theirs.run("condor_submit", "/tmp/jobs.sub")


def compiled(folder: Path) -> Path:
    """The directory of our commands, compiled, where every account may run them."""
    made = directory.made()
    folder.mkdir()
    directory.compile_command(folder / directory.NAME)
    (folder / f"{directory.NAME}.py").write_bytes((made / f"{directory.NAME}.py").read_bytes())
    for name in ("condor_q", "condor_submit"):
        (folder / name).symlink_to(directory.NAME)
    return folder


def measured(pool: PersonalPool, jobs: int, folder: Path) -> list[str]:
    """The figures of single commands."""
    theirs = HTCondors(pool)
    submitted(pool, theirs, jobs)
    by_point = {"PATH": os.defpath, "FETCHWORK_ACCESS_POINT": str(pool.access_point.socket)}
    by_string = {"PATH": os.defpath, "FETCHWORK_DSN": pool.conninfo}
    in_python = directory.made()
    questions = {
        "one job": (["condor_q", "1.0", "-af", "JobStatus"], 15),
        "totals": (["condor_q", "-allusers", "-totals"], 9),
        f"{jobs} jobs": (["condor_q", "-allusers", "-nobatch"], 5),
    }
    figures: dict[str, float] = {}
    for name, (words, count) in questions.items():
        command, script = [str(folder / words[0]), *words[1:]], [str(in_python / words[0]), *words[1:]]
        sides: dict[str, Callable[[], float]] = {
            "access point": lambda c=command: ours(c, by_point),  # type: ignore[misc]
            # this checkout may be root's alone
            "connection string": lambda c=script: ours(c, by_string, user=None),  # type: ignore[misc]
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
    submit = [str(folder / "condor_submit")]
    text = "executable = /bin/true\nhold = true\nqueue\n"
    submitting = statistics.median(ours(submit, by_point, text) for _ in range(15))
    return [
        f"condor_q one job ms: {figures['one job'] * 1000:.1f}",
        f"condor_q over htcondor: {figures[f'{jobs} jobs over']:.2f}",
        f"condor_submit one job ms: {submitting * 1000:.1f}",
    ]


class Pollers:
    """Clients that ask for their cluster with condor_q, each every ``every_s`` seconds."""

    def __init__(self, command: Path, socket: Path, clusters: list[int], every_s: float) -> None:
        self._command, self._every_s = command, every_s
        self._environment = {"PATH": os.defpath, "FETCHWORK_ACCESS_POINT": str(socket)}
        self._ended = threading.Event()
        self._clusters = clusters
        self._threads: list[threading.Thread] = []
        self._failed: list[Exception] = []
        self.polls = 0

    def __enter__(self) -> "Pollers":
        for number, cluster in enumerate(self._clusters):
            first_s = self._every_s * number / len(self._clusters)
            thread = threading.Thread(target=self._poll, args=(cluster, first_s), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        if self._failed:
            raise self._failed[0]

    def _poll(self, cluster: int, first_s: float) -> None:
        words = [str(self._command), str(cluster), "-af:j", "JobStatus"]
        pause_s = first_s
        while not self._ended.wait(pause_s):
            begin = time.monotonic()
            try:
                ours(words, self._environment)
            except RuntimeError as error:
                # who polls no more makes the figure better
                self._failed.append(error)
                return
            self.polls += 1
            pause_s = max(0.0, self._every_s - (time.monotonic() - begin))


def delays_s(queue: Queue, conninfo: str, number: int, most_s: float) -> list[float]:
    """Seconds from the submission to the start of single jobs, one after the other, for so long at most.

    A job that has not started by then counts with what it has waited.
    """
    found: list[float] = []
    end = time.monotonic() + most_s
    with psycopg.connect(conninfo, autocommit=True) as connection:
        while len(found) < number and (not found or time.monotonic() < end):
            begin = time.monotonic()
            cluster = queue.submit(SHORT, owner="alice").cluster()
            times: list[float] = []

            def started(cluster: int = cluster, times: list[float] = times) -> bool:
                rows = connection.execute(
                    "SELECT extract(epoch FROM event_at)::float8 FROM fetchwork.events"
                    " WHERE clusterid = %s AND eventtypenumber IN (0, 1) ORDER BY eventtypenumber",
                    [cluster],
                )
                times[:] = [at for (at,) in rows]
                return len(times) >= 2

            while not started() and time.monotonic() < max(end, begin + most_s / 2):
                time.sleep(0.1)
            found.append(times[1] - times[0] if len(times) > 1 else time.monotonic() - begin)
    return found


def with_pollers(
    pool: PersonalPool, folder: Path, clients: int, jobs: int, every_s: float, probes: int, most_s: float
) -> str:
    """The figure of the pollers."""
    with Queue(pool.conninfo) as queue:
        each = max(1, jobs // clients)
        clusters = [queue.submit(JOBS.format(each), owner=USER).cluster() for _ in range(clients)]
        quiet: list[float] = []
        polled: list[float] = []
        delays_s(queue, pool.conninfo, 3, most_s)
        for _ in range(3):
            quiet += delays_s(queue, pool.conninfo, probes, most_s)
            with Pollers(folder / "condor_q", pool.access_point.socket, clusters, every_s) as pollers:
                time.sleep(every_s)
                begin, before = time.monotonic(), pollers.polls
                polled += delays_s(queue, pool.conninfo, probes, most_s)
                rate = (pollers.polls - before) / (time.monotonic() - begin)
            shown = f"{statistics.median(quiet) * 1000:.0f} ms, with {clients} pollers"
            shown += f" {statistics.median(polled) * 1000:.0f} ms ({rate:.0f} polls/s)"
            print(f"submit to start: {shown}", flush=True)
    return f"start delay ratio with pollers: {statistics.median(polled) / statistics.median(quiet):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--pollers", type=int, default=200)
    parser.add_argument("--polled-jobs", type=int, default=100_000, help="those of the pollers together")
    parser.add_argument("--every-s", type=float, default=5.0, help="seconds from a poll to the next")
    parser.add_argument("--probes", type=int, default=10, help="jobs whose start is waited for, three times")
    parser.add_argument("--most-s", type=float, default=40.0, help="seconds for the probes of one turn")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fetchwork-bench-") as folder:
        Path(folder).chmod(0o755)
        pool = PersonalPool(Path(folder) / "pool", slots=1, config=CONFIG)
        pool.start()
        try:
            commands = compiled(Path(folder) / "commands")
            lines = measured(pool, options.jobs, commands)
            lines.append(
                with_pollers(
                    pool,
                    commands,
                    options.pollers,
                    options.polled_jobs,
                    options.every_s,
                    options.probes,
                    options.most_s,
                )
            )
        finally:
            pool.stop()
    print("\n".join(lines))


if __name__ == "__main__":
    main()
