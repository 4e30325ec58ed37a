"""HTCondor's commands: ours through the access point and by connection string, and HTCondor's on a schedd.

    make bench-commands
    python tests/benchmarks/bench_commands.py --jobs 1000

One pool has both queues, with as many jobs each: condor_q for one job, the totals and all jobs, and
condor_submit of one job. Each figure is the median of several processes, from their start to their end, the
sides in turns. Ours are the compiled program, run as an ordinary account.

Then many clients poll a queue of many more jobs, each for its own cluster every few seconds, while jobs run
one after the other: the jobs' delay from submission to start, over their delay without pollers, in
alternating bounded phases. It needs root, HTCondor from Debian (tests/condor), and a C compiler.

The last lines are these: condor_q for one job (goal: 30 ms), for all jobs over HTCondor's (goal: 1.5),
condor_submit of one job (goal: 40 ms), `fetchwork q` of one job by way of the access point, as pip installs
it (goal: 30 ms), the CPU of `fetchwork --version` (goal: 60 ms), and the ratio of the delays with and without
pollers (goal: 1.1).
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from fetchwork.condor import directory
from fetchwork.pool import PersonalPool
from fetchwork.queue import Queue
from tests.benchmarks import frame
from tests.support.many_jobs import unlimited

# its own schedd, and no other account that it would have to trust
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

#: seconds for one command of ours: a longer one ends the benchmark
MOST_S = 120
#: the owner of the jobs and commands in our queue
USER = "nobody"
#: this checkout's Python may be readable by root alone
PYTHON = shutil.which("python3", path=os.defpath) or sys.executable
#: a job that the pool's slots run
SHORT = "executable = /bin/true\ntransfer_executable = false\ninitialdir = /tmp\nqueue\n"

# times a command, ours and HTCondor's: in a small process, because starting a program from one as large as
# this takes longer than most commands
TIMES = """
import json, subprocess, sys, time
words, count, text, most_s = json.loads(sys.argv[1])
times = []
for _ in range(count):
    begin = time.perf_counter()
    ended = subprocess.run(words, input=text.encode(), capture_output=True, timeout=most_s)
    times.append(time.perf_counter() - begin)
    if ended.returncode:
        sys.exit(f"{words}: {ended.stderr.decode()}")
print(json.dumps(times))
"""

# polls with each of the commands every so many seconds; answers each line that it reads with the number of
# polls until then and the error, after which that client stops polling
POLLS = """
import json, subprocess, sys, threading, time
commands, every_s, most_s = json.loads(sys.argv[1])
polls, failed = [], []
def poll(number):
    time.sleep(every_s * number / len(commands))
    while True:
        begin = time.monotonic()
        try:
            subprocess.run(
                commands[number], stdin=subprocess.DEVNULL, capture_output=True, timeout=most_s, check=True
            )
        except subprocess.SubprocessError as error:
            failed.append(f"{error} {getattr(error, 'stderr', '')}")
            return
        polls.append(number)
        time.sleep(max(0, every_s - (time.monotonic() - begin)))
for number in range(len(commands)):
    threading.Thread(target=poll, args=(number,), daemon=True).start()
for _ in sys.stdin:
    print(json.dumps([len(polls), failed]), flush=True)
"""


def program(text: str, arguments: list[object], user: str | None = USER) -> dict[str, Any]:
    """Start a small program that starts commands of ours."""
    return {
        "args": [PYTHON, "-I", "-S", "-c", text, json.dumps(arguments)],
        "cwd": "/",
        "user": user,
        "group": user and "nogroup",
        "extra_groups": [] if user else None,
        "text": True,
    }


def ours(words: list[str], environment: dict[str, str], text: str = "", user: str | None = USER) -> float:
    """Seconds that a command of ours takes."""
    how = program(TIMES, [words, 1, text, MOST_S], user)
    ended = subprocess.run(**how, env=environment, capture_output=True)
    if ended.returncode:
        raise RuntimeError(ended.stderr)
    (seconds,) = json.loads(ended.stdout)
    return float(seconds)


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
        python = str(self._pool.machine.venv / "bin/python")
        printed = self.run(python, "-I", "-S", "/tmp/times.py", json.dumps([words, count, "", MOST_S]))
        return statistics.median(json.loads(printed))


def submitted(pool: PersonalPool, theirs: HTCondors, jobs: int) -> None:
    """Submit as many jobs to both queues."""
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


def installed(folder: Path) -> Path:
    """The command that pip installs, and the program that an access point puts beside it."""
    environment = folder / "environment"
    pip = [sys.executable, "-m", "pip", "--quiet"]
    root = Path(__file__).parents[2]
    built = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(root)]
    subprocess.run(built, check=True)
    (wheel,) = folder.glob("fetchwork-*.whl")
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = str(environment / "bin/python")
    # only the beginning of the program runs in this Python, and imports nothing that is installed
    subprocess.run([*pip, "--python", python, "install", "--no-deps", str(wheel)], check=True)
    program = environment / "libexec/fetchwork/condor/fetchwork"
    program.parent.mkdir(parents=True)
    directory.compile_command(program)
    return environment / "bin/fetchwork"


def start_cpu_s() -> float:
    """Seconds of CPU that `fetchwork --version` takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [Path(sys.executable).with_name("fetchwork"), "--version"], check=True, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
            # root alone may be able to read this checkout
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
    q = [str(installed(folder.parent)), "q", "1.0", "-af", "JobStatus"]
    asking = statistics.median(ours(q, by_point) for _ in range(15))
    submit = [str(folder / "condor_submit")]
    text = "executable = /bin/true\nhold = true\nqueue\n"
    submitting = statistics.median(ours(submit, by_point, text) for _ in range(15))
    return [
        f"condor_q one job ms: {figures['one job'] * 1000:.1f}",
        f"condor_q over htcondor: {figures[f'{jobs} jobs over']:.2f}",
        f"condor_submit one job ms: {submitting * 1000:.1f}",
        f"fetchwork q one job ms: {asking * 1000:.1f}",
        f"fetchwork start cpu ms: {statistics.median(start_cpu_s() for _ in range(15)) * 1000:.1f}",
    ]


class Pollers:
    """Clients that ask for their cluster with condor_q, each every ``every_s`` seconds."""

    def __init__(self, command: Path, socket: Path, clusters: list[int], every_s: float) -> None:
        commands = [[str(command), str(cluster), "-af:j", "JobStatus"] for cluster in clusters]
        self._how = program(POLLS, [commands, every_s, MOST_S])
        self._environment = {"PATH": os.defpath, "FETCHWORK_ACCESS_POINT": str(socket)}
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "Pollers":
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(**self._how, env=self._environment, stdin=pipe, stdout=pipe)
        return self

    def __exit__(self, kind: object, *_more: object) -> None:
        assert self._process is not None
        try:
            if kind is None:
                # raises the error of a poll since the last check
                self.polls  # noqa: B018
        finally:
            self._process.communicate()

    @property
    def polls(self) -> int:
        """The number of polls; raises RuntimeError if a client failed and so stopped polling."""
        assert (
            self._process is not None and self._process.stdin is not None and self._process.stdout is not None
        )
        print(file=self._process.stdin, flush=True)
        polls, failed = json.loads(self._process.stdout.readline())
        if failed:
            raise RuntimeError(failed[0])
        return int(polls)


def delays_s(queue: Queue, conninfo: str, number: int, most_s: float) -> list[float]:
    """Seconds from submission to start of single jobs, one after the other, for ``most_s`` at most.

    A job that has not started by then counts with the time that it has waited.
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
    """The ratio of the delays with and without pollers."""
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
    parser = frame.parser(__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--pollers", type=int, default=200)
    parser.add_argument("--polled-jobs", type=int, default=100_000, help="those of the pollers together")
    parser.add_argument("--every-s", type=float, default=5.0, help="seconds from a poll to the next")
    parser.add_argument("--probes", type=int, default=10, help="jobs whose start is waited for, three times")
    parser.add_argument("--most-s", type=float, default=40.0, help="seconds for the probes of one turn")
    options = parser.parse_args()
    with frame.pool(slots=1, config=CONFIG) as pool:
        commands = compiled(pool.directory.parent / "commands")
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
    print("\n".join(lines))


if __name__ == "__main__":
    main()
