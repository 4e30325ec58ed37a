"""The delay of a job's start on an idle slot, of the next short job, and of a removed job's end.

    make bench-start

One startd with two slots: slot 1 fetches through an agent, slot 2 is matched by a negotiator to jobs of a
schedd, all with HTCondor's own defaults. Jobs of both sides run in turn, one at a time on an otherwise idle
pool; then each side works off jobs of one second in a row, and fetchwork such a row once more in a chain
(``chain_s``). The hooks are compiled, as on a host that has a compiler. Jobs write down the time when their
process begins and ends. A schedd's first job in a while waits for a negotiation cycle, hence ``--rest``.
Last, running jobs are removed: from the command (condor_rm; Queue.act) to the end of the process.

The last lines are medians of fetchwork, behind those of the schedd. Goals: 150 ms between two jobs, 2 s
from a removal to the end of the process.
"""

import random
import statistics
import time
from collections.abc import Callable
from typing import TypeVar

from fetchwork.agent.client import status
from fetchwork.classad.bindings import JobAction
from fetchwork.pool import PersonalPool
from fetchwork.process import Process, processes
from fetchwork.queue import Queue
from tests.benchmarks import frame
from tests.condor.compiled_hooks import compile_hooks, hook_directory

T = TypeVar("T")

CONFIG = """
DAEMON_LIST = $(DAEMON_LIST) SCHEDD NEGOTIATOR
ALLOW_WRITE = $(ALLOW_WRITE), bob@$(UID_DOMAIN)
START = TARGET.Owner =?= undefined || TARGET.Owner == ifThenElse(SlotID == 1, "alice", "bob")
"""
# not only fetched jobs: a schedd's jobs must not call our hooks
HOST = {"slots": {"fetched_only": False}, "keyword": {"FETCHWORK": {"chain_s": 0}}}
DESCRIPTION = """
executable = /bin/sh
arguments = "-c 'date +%s.%N >> {file}; sleep {seconds}; date +%s.%N >> {file}'"
initialdir = /tmp
queue {count}
"""
PATIENCE_S = 120
#: seconds of a chain at most
CHAIN_S = 300

SLEEPER = """
executable = /bin/sleep
arguments = {seconds}
initialdir = /tmp
queue
"""
Submit = Callable[[str], None]
#: removes all jobs of a side
Remove = Callable[[], object]


class Side:
    """One way to a slot; its jobs write into one file in the pool's /tmp."""

    def __init__(self, name: str, pool: PersonalPool, submit: Submit, remove: Remove) -> None:
        self.name = name
        self.delays: list[float] = []
        self.gaps: list[float] = []
        self.chained_gaps: list[float] = []
        self.ends: list[float] = []
        self._remove = remove
        self._file = pool.directory / "tmp" / f"{name}.times"
        self._submit = submit

    def run(self, count: int, seconds: int) -> tuple[float, list[float]]:
        """The time of submission, and the times at which the jobs began and ended, in turn."""
        self._file.write_text("")
        self._file.chmod(0o666)
        submitted = time.time()
        self._submit(DESCRIPTION.format(file=f"/tmp/{self._file.name}", seconds=seconds, count=count))
        end = time.monotonic() + PATIENCE_S
        while len(stamps := self._file.read_text().split()) < 2 * count:
            if time.monotonic() > end:
                raise SystemExit(f"{self.name}: {len(stamps) // 2} of {count} jobs ended in {PATIENCE_S} s")
            time.sleep(0.02)
        return submitted, [float(stamp) for stamp in stamps]

    def single(self) -> None:
        """Measure the time from the submission of one job to its start."""
        submitted, (begun, _) = self.run(1, 0)
        self.delays.append(begun - submitted)

    def removal(self) -> None:
        """Measure the time from the removal of a running job to the end of its process."""
        marker = f"86{random.randrange(10**6, 10**7)}"
        self._submit(SLEEPER.format(seconds=marker))
        process = until(lambda: _sleeper(marker), f"{self.name}: a job to remove")
        # as a job that has run for a while: not before the first update
        time.sleep(2.0)
        removed = time.monotonic()
        self._remove()
        until(lambda: not process.alive, f"{self.name}: the end of a removed job")
        self.ends.append(time.monotonic() - removed)

    def chain(self, count: int) -> list[float]:
        """Measure the times between the end of a job and the start of the next."""
        _, stamps = self.run(count, 1)
        inner = stamps[1:-1]
        return [later - earlier for earlier, later in zip(inner[::2], inner[1::2], strict=True)]


def by_schedd(pool: PersonalPool) -> Submit:
    """Submits bob's jobs by condor_submit."""
    path = pool.directory / "tmp" / "job.sub"

    def submit(description: str) -> None:
        path.write_text(description)
        path.chmod(0o644)
        told = pool.run_command(["condor_submit", "-terse", "/tmp/job.sub"], user="bob")
        if told.returncode:
            raise SystemExit(f"condor_submit: {told.stderr.strip()}")

    return submit


def _sleeper(seconds: str) -> Process | None:
    return next((one for one in processes() if one.command == ["/bin/sleep", seconds]), None)


def until(what: Callable[[], T], describe: str) -> T:
    """Wait for a value, and return it."""
    end = time.monotonic() + PATIENCE_S
    while not (found := what()):
        if time.monotonic() > end:
            raise SystemExit(f"{describe}: not in {PATIENCE_S} s")
        time.sleep(0.02)
    return found


def told(times: list[float]) -> str:
    return (
        f"median {statistics.median(times) * 1000:7.0f} ms ({min(times) * 1000:.0f}-{max(times) * 1000:.0f})"
    )


def main() -> None:
    parser = frame.parser(__doc__)
    parser.add_argument("--singles", type=int, default=10, help="jobs on an idle pool")
    parser.add_argument("--chain", type=int, default=10, help="jobs of one second in a row")
    parser.add_argument("--removals", type=int, default=5, help="running jobs that are removed")
    parser.add_argument("--rest", type=float, default=3.0, help="seconds of idleness before each single job")
    parser.add_argument("--python-hooks", action="store_true", help="with the hooks in Python, and no chain")
    arguments = parser.parse_args()
    with frame.pool(slots=2, config=CONFIG, host=HOST) as pool, Queue(pool.conninfo) as queue:
        if not arguments.python_hooks:
            compile_hooks(hook_directory(pool))
        sides = [
            Side(
                "fetchwork",
                pool,
                lambda description: queue.submit(description, owner="alice") and None,  # type: ignore[arg-type]
                lambda: queue.act(JobAction.Remove, "true"),
            ),
            Side(
                "schedd",
                pool,
                by_schedd(pool),
                lambda: pool.run_command(["condor_rm", "-all"], user="bob").check_returncode(),
            ),
        ]
        ours, theirs = sides
        end = time.monotonic() + PATIENCE_S
        while status(pool.directory / "run/agent.sock")["waiting_fetches"] == 0:
            if time.monotonic() > end:
                raise SystemExit(f"no slot fetched in {PATIENCE_S} s")
            time.sleep(0.1)
        for _ in range(arguments.singles):
            for side in sides:
                time.sleep(arguments.rest)
                side.single()
        for side in sides:
            side.gaps = side.chain(arguments.chain)
        if not arguments.python_hooks:
            frame.let_chain(pool, CHAIN_S)
            ours.chained_gaps = ours.chain(arguments.chain)
            frame.let_chain(pool, 0)
        for _ in range(arguments.removals):
            for side in sides:
                side.removal()
    for side in sides:
        print(f"{side.name:<10} submit to start {told(side.delays)}   between jobs {told(side.gaps)}")
        print(f"{side.name:<10} rm to gone      {told(side.ends)}")
    for what, mine, other in (
        ("submit to start", ours.delays, theirs.delays),
        ("between jobs", ours.gaps, theirs.gaps),
        ("rm to gone", ours.ends, theirs.ends),
    ):
        print(f"{what}: schedd / fetchwork = {statistics.median(other) / statistics.median(mine):.1f}")
    for side in (theirs, ours):
        of = "" if side is ours else "schedd's "
        print(f"{of}submit to start ms: {statistics.median(side.delays) * 1000:.0f}")
        print(f"{of}between jobs ms: {statistics.median(side.gaps) * 1000:.0f}")
        if side.chained_gaps:
            print(f"{of}between jobs of a chain ms: {statistics.median(side.chained_gaps) * 1000:.0f}")
        print(f"{of}rm to gone s: {statistics.median(side.ends):.2f}")


if __name__ == "__main__":
    main()
