"""Short jobs on one real startd, a second, and their CPU time: fetched, by the schedd, and at best.

    make bench-startd [ARGS="--suite sid"]

One startd with 8 static slots and HTCondor's defaults, in one pool with a schedd whose negotiator runs every
2 seconds. As many /bin/true run in turn: fetched through an agent and compiled hooks; fetched with hooks that
do nothing, which is HTCondor's own upper limit for fetched work; by the schedd; and ten times as many fetched
in chains. The rate is that of the startd's own log, from the first job's start to the last one's end, and for
chains that of the runs in the database. The CPU is that of all processes of the pool, PostgreSQL, schedd and
shadows included, from before the first job to after the last one.

Goals: `startd rate over ceiling` 0.95, `startd cpu over schedd` 1.2, `chained rate over schedd` 10, `chained
cpu ms a job` 4. Each is the median of the rounds.
"""

import os
import re
import shutil
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from fetchwork.agent.client import status
from fetchwork.db.database import Database
from fetchwork.hook.wire import HOOKS
from fetchwork.pool import PersonalPool
from fetchwork.queue import Queue
from tests.benchmarks import frame
from tests.condor.compiled_hooks import compile_hooks, hook_directory

SLOTS = 8
CONFIG = """
DAEMON_LIST = $(DAEMON_LIST) SCHEDD NEGOTIATOR
ALLOW_WRITE = $(ALLOW_WRITE), bob@$(UID_DOMAIN)
NEGOTIATOR_INTERVAL = 2
NEGOTIATOR_CYCLE_DELAY = 1
NEGOTIATOR_MIN_INTERVAL = 1
SCHEDD_INTERVAL = 2
STARTD_DEBUG = D_SUB_SECOND
MAX_STARTD_LOG = 1000000000
"""
# not only fetched jobs: a schedd's jobs must not call our hooks
HOST = {
    "slots": {"fetched_only": False, "update_interval_s": 60, "initial_update_interval_s": 8},
    "keyword": {"FETCHWORK": {"chain_s": 0}},
}
#: jobs in chains for each other job
CHAINED = 10
#: seconds of a chain at most
CHAIN_S = 60
JOB = """
executable = /bin/true
initialdir = /tmp
queue {count}
"""
AD = """\
Cmd = "/bin/true"
Iwd = "/tmp"
JobLeaseDuration = 2147483647
JobUniverse = 5
OsUser = "alice"
Owner = "alice"
RequestCpus = 1
User = "alice@{domain}"
"""
PATIENCE_S = 120
TICKS = os.sysconf("SC_CLK_TCK")
_ACTIVITY = re.compile(
    r"^(\S+ \S+) .*Changing (?:activity|state and activity): (?:\w+/)?(\w+) -> (?:\w+/)?(\w+)$", re.M
)


class Done(NamedTuple):
    """Of this many jobs: the rate a second, and milliseconds of CPU a job."""

    rate: float
    cpu_ms: float
    by_program: dict[str, float]


class Bench:
    """The pool, its startd's log, and the processes whose CPU is counted."""

    def __init__(self, pool: PersonalPool, python_hooks: bool) -> None:
        self.pool = pool
        self.log = pool.condor.log / "StartLog"
        self.hooks = hook_directory(pool)
        self.kinds = {"ours": self.hooks.parent / "ours", "nothing": self.hooks.parent / "nothing"}
        if not python_hooks:
            compile_hooks(self.hooks)
        for directory in self.kinds.values():
            shutil.copytree(self.hooks, directory, symlinks=True)
        _make_noop(self.kinds["nothing"])
        os.mkfifo(self.hooks / "tokens")
        (self.hooks / "tokens").chmod(0o666)
        # kept open, so that its content stays
        self.tokens = os.open(self.hooks / "tokens", os.O_RDWR | os.O_NONBLOCK)
        (self.hooks / "job.ad").write_text(AD.format(domain=pool.host_name))

    def use(self, kind: str) -> None:
        """Install the hooks of one kind where HTCondor calls them."""
        for name in HOOKS:
            new = self.hooks / f".{name}"
            shutil.copy2(self.kinds[kind] / name, new)
            new.rename(self.hooks / name)

    def run_chains(self, submit: Callable[[int], None], jobs: int, ready: Callable[[], bool]) -> Done:
        """As ``run``, for jobs in chains."""
        wait(lambda: ready() and self._idle(), "the slots are not free")
        database = Database(self.pool.conninfo)
        done = "SELECT count(*) FROM fetchwork.history"
        had = database.query(done)[0]["count"]
        before = self.cpu()
        begin = database.query("SELECT clock_timestamp() AS at")[0]["at"]
        submit(jobs)
        wait(lambda: database.query(done)[0]["count"] >= had + jobs, f"{jobs} jobs have not ended")
        wait(self._idle, "the slots do not get free")
        spent = self.cpu()
        spent.subtract(before)
        (took,) = database.query(
            "SELECT extract(epoch FROM max(ended_at) - min(started_at))::float8 AS s, "
            "count(DISTINCT coalesce(chain, runid))"
            " AS chains FROM fetchwork.runs WHERE started_at >= %s",
            [begin],
        )
        cpu_ms = {name: ticks / TICKS * 1000 / jobs for name, ticks in spent.most_common()}
        print(f"{jobs} jobs in {took['chains']} chains", flush=True)
        return Done(
            jobs / took["s"],
            sum(cpu_ms.values()),
            {name: each for name, each in cpu_ms.items() if each >= 0.05},
        )

    def run(self, submit: Callable[[int], None], jobs: int, ready: Callable[[], bool]) -> Done:
        """Run jobs on slots that are all free, and measure them."""
        wait(lambda: ready() and self._idle(), "the slots are not free")
        begin = self.log.stat().st_size
        before = self.cpu()
        submit(jobs)
        wait(lambda: len(self._ends(begin)) >= jobs, f"{jobs} jobs have not ended")
        starts, ends = self._starts(begin), self._ends(begin)
        wait(self._idle, "the slots do not get free")
        spent = self.cpu()
        spent.subtract(before)
        cpu_ms = {name: ticks / TICKS * 1000 / jobs for name, ticks in spent.most_common()}
        return Done(
            len(ends) / (ends[-1] - starts[0]),
            sum(cpu_ms.values()),
            {name: each for name, each in cpu_ms.items() if each >= 0.5},
        )

    def _idle(self) -> bool:
        told = self.pool.run_command(["condor_status", "-direct", self._startd, "-af", "State"])
        return Counter(told.stdout.split()) == {"Unclaimed": SLOTS}

    @property
    def _startd(self) -> str:
        return self.pool.host_name

    def _changes(self, begin: int) -> list[tuple[float, str, str]]:
        with self.log.open() as log:
            log.seek(begin)
            found = _ACTIVITY.findall(log.read())
        return [
            (datetime.strptime(at, "%m/%d/%y %H:%M:%S.%f").timestamp(), old, new) for at, old, new in found
        ]

    def _starts(self, begin: int) -> list[float]:
        return [at for at, _, new in self._changes(begin) if new == "Busy"]

    def _ends(self, begin: int) -> list[float]:
        return [at for at, old, _ in self._changes(begin) if old == "Busy"]

    def cpu(self) -> Counter[str]:
        """The CPU of the pool's processes and of those that have ended, in clock ticks by program."""
        roots = {pid for pid in self.pool.processes().values() if pid is not None}
        ticks: Counter[str] = Counter()
        for pid in _family(roots):
            try:
                text = Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                continue
            name = text[text.index("(") + 1 : text.rindex(")")]
            fields = text[text.rindex(")") + 2 :].split()
            own, children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
            ticks[name] += own
            ticks[f"children of {name}"] += children
        return ticks


def _family(roots: set[int]) -> set[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(text[text.rindex(")") + 2 :].split()[1])
    family = set(roots)
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return family


def wait(true: Callable[[], bool], problem: str, patience_s: float = PATIENCE_S) -> None:
    """Wait until a condition is true; end the benchmark if it takes too long."""
    end = time.monotonic() + patience_s
    while not true():
        if time.monotonic() > end:
            raise SystemExit(f"{problem} after {patience_s:.0f} s")
        time.sleep(0.2)


def _make_noop(directory: Path) -> None:
    built = directory / "noop"
    source = Path(__file__).with_name("noop_hook.c")
    subprocess.run(["cc", "-O2", "-static", "-o", built, source], check=True)
    for name in HOOKS:
        shutil.copy2(built, directory / name)


def measure(bench: Bench, queue: Queue, rounds: int, jobs: int, *, chained: bool) -> dict[str, list[Done]]:
    pool = bench.pool
    socket = pool.directory / "run/agent.sock"
    script = pool.directory / "tmp/true.sub"

    def fetched(count: int) -> None:
        queue.submit(JOB.format(count=count), owner="alice")

    def tokens(count: int) -> None:
        os.write(bench.tokens, b"x" * count)

    def by_schedd(count: int) -> None:
        # as a fetched job: no file is copied
        script.write_text("should_transfer_files = NO" + JOB.format(count=count))
        script.chmod(0o644)
        told = pool.run_command(["condor_submit", "-terse", "/tmp/true.sub"], user="bob")
        if told.returncode:
            raise SystemExit(f"condor_submit: {told.stderr.strip()}")

    def waiting() -> bool:
        return bool(status(socket)["waiting_fetches"] == SLOTS)

    def nobody_waits() -> bool:
        return bool(status(socket)["waiting_fetches"] == 0)

    done: dict[str, list[Done]] = {"fetchwork": [], "nothing": [], "schedd": [], "chained": []}
    for _ in range(rounds):
        for name, kind, submit, ready in (
            ("fetchwork", "ours", fetched, waiting),
            ("nothing", "nothing", tokens, nobody_waits),
            ("schedd", "ours", by_schedd, waiting),
        ):
            bench.use(kind)
            each = bench.run(submit, jobs, ready)
            done[name].append(each)
            print(f"{name:10} {each.rate:6.1f} jobs/s {each.cpu_ms:6.0f} ms of CPU a job", flush=True)
        if chained:
            bench.use("ours")
            frame.let_chain(pool, CHAIN_S)
            each = bench.run_chains(fetched, CHAINED * jobs, waiting)
            frame.let_chain(pool, 0)
            done["chained"].append(each)
            print(f"chained    {each.rate:6.1f} jobs/s {each.cpu_ms:6.1f} ms of CPU a job", flush=True)
    return done


def main() -> None:
    parser = frame.parser(__doc__)
    parser.add_argument("--suite", help="the Debian suite whose HTCondor is measured")
    parser.add_argument("--jobs", type=int, default=300, help="jobs of a side in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--logs", type=Path, help="a new directory to leave HTCondor's and the agent's logs in"
    )
    parser.add_argument("--python-hooks", action="store_true", help="with the hooks in Python")
    arguments = parser.parse_args()
    a_pool = frame.pool(slots=SLOTS, config=CONFIG, host=HOST, suite=arguments.suite)
    with a_pool as pool, Queue(pool.conninfo) as queue:
        print(f"HTCondor {'.'.join(map(str, pool.condor.version() or ()))}, {os.cpu_count()} CPUs")
        done = measure(
            Bench(pool, arguments.python_hooks),
            queue,
            arguments.rounds,
            arguments.jobs,
            # chains need the compiled runner
            chained=not arguments.python_hooks,
        )
        if arguments.logs:
            shutil.copytree(pool.condor.log, arguments.logs)
    done = {name: each for name, each in done.items() if each}
    for name, each in done.items():
        shares = each[-1].by_program
        print(f"{name}: " + ", ".join(f"{program} {ms:.1f}" for program, ms in shares.items()) + " ms a job")
    rate = {name: statistics.median(each.rate for each in of_one) for name, of_one in done.items()}
    cpu = {name: statistics.median(each.cpu_ms for each in of_one) for name, of_one in done.items()}
    print(f"startd cpu over ceiling: {cpu['fetchwork'] / cpu['nothing']:.2f}")
    print(f"startd rate over ceiling: {rate['fetchwork'] / rate['nothing']:.2f}")
    print(f"startd rate over schedd: {rate['fetchwork'] / rate['schedd']:.2f}")
    print(f"startd cpu over schedd: {cpu['fetchwork'] / cpu['schedd']:.2f}")
    if "chained" in done:
        print(f"chained cpu ms a job: {cpu['chained']:.2f}")
        print(f"chained rate over schedd: {rate['chained'] / rate['schedd']:.1f}")


if __name__ == "__main__":
    main()
