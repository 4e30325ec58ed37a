"""A pool to break, and jobs that notice by themselves whether they ever ran twice at once."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from fetchwork.pool import PersonalPool
from fetchwork.process import Process
from tests.support.invariants import violations
from tests.support.living import files
from tests.support.waiting import PATIENCE_S

OWNER = "alice"
HOME = "/home/alice"

# The lock is held for as long as the job's first process lives, orphaned or not. A try that was killed has a
# start and no end.
_SCRIPT = """\
job=$1 seconds=$2 later=$3 code=$4
exec 9>>lock.$job
flock -n 9 || echo "overlap $$" >> stamps.$job
tried=$(grep -c start stamps.$job 2>/dev/null)
echo "start $$ $(date +%s.%N)" >> stamps.$job
[ "${tried:-0}" -gt 0 ] && seconds=$later
if [ "$seconds" = go ]; then
    while [ ! -e go.$job ]; do sleep 0.05 9>&-; done
else
    sleep "$seconds" 9>&-
fi
echo "end $$ $(date +%s.%N)" >> stamps.$job
exit $code
"""

#: shown when a wait fails
_PICTURE = """
SELECT 'job', cluster_id, job_status::text, last_reason FROM fetchwork.job
UNION ALL SELECT 'run', cluster_id, state::text, slot FROM fetchwork.run
UNION ALL SELECT 'ended', cluster_id, outcome::text, reason FROM fetchwork.run_history
"""


@dataclass(frozen=True)
class Job:
    """A job by the name of its files."""

    name: str
    cluster: int
    code: int


class WorstDay:
    """The faults of one pool, and the checks at the end."""

    def __init__(self, pool: PersonalPool) -> None:
        self.pool = pool
        self.home = pool.directory / "home/alice"
        self.spool = pool.directory / "run/spool"
        script = self.home / "job.sh"
        script.write_text(_SCRIPT)
        script.chmod(0o755)
        self._jobs: list[Job] = []

    # ---- the queue

    @contextlib.contextmanager
    def connection(self) -> Iterator[psycopg.Connection]:
        """An administrator's connection."""
        with psycopg.connect(
            self.pool.conninfo, autocommit=True, connect_timeout=int(PATIENCE_S)
        ) as connection:
            yield connection

    def rows(self, statement: str, *params: object) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        with self.connection() as connection:
            return connection.execute(statement, params).fetchall()

    def value(self, statement: str, *params: object) -> Any:
        """The first value of a statement, None without a row."""
        return next(iter(self.rows(statement, *params)), (None,))[0]

    def submit(self, seconds: float | str = "go", *, later: float | str = 0.2, code: int = 0) -> Job:
        """Submit a job of this length; "go": until ``let_go``; a later try takes ``later``."""
        name = f"{len(self._jobs) + 1}"
        words = f"job.sh {name} {seconds} {later} {code}"
        job = self.value(
            "SELECT fetchwork.submit(cmd => '/bin/sh', arguments => %s, owner => %s, iwd => %s)",
            words,
            OWNER,
            HOME,
        )
        self._jobs.append(Job(name, int(job.partition(".")[0]), code))
        return self._jobs[-1]

    def let_go(self, job: Job) -> None:
        """Let a job end."""
        (self.home / f"go.{job.name}").touch()

    def stamps(self, job: Job, what: str) -> list[str]:
        """A job's records: its starts, its ends, its overlaps."""
        path = self.home / f"stamps.{job.name}"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(what)]

    def status(self, job: Job) -> int:
        """JobStatus."""
        return int(
            self.value(
                "SELECT job_status FROM (SELECT cluster_id, job_status FROM fetchwork.job UNION ALL"
                " SELECT cluster_id, job_status FROM fetchwork.job_history) AS j WHERE cluster_id = %s",
                job.cluster,
            )
        )

    def until_running(self, job: Job, *, pid_known: bool = True) -> None:
        """Wait until a job's script runs, and an update has reported its JobPid."""
        self.until(lambda: self.stamps(job, "start"))
        if pid_known:
            self.until(
                lambda: self.value(
                    "SELECT 1 FROM fetchwork.run WHERE cluster_id = %s AND usage ? 'JobStartDate'",
                    job.cluster,
                )
            )

    def until(self, what: Callable[[], object], timeout_s: float = PATIENCE_S) -> float:
        """Wait until ``what()`` is true; return the seconds that it took."""
        began = time.monotonic()
        while not what():
            if time.monotonic() - began > timeout_s:
                raise AssertionError(f"not so after {timeout_s} s\n{self._picture()}")
            time.sleep(0.03)
        return time.monotonic() - began

    def _picture(self) -> str:
        lines = [str(row) for row in self.rows(_PICTURE)]
        lines += [f"in the spool: {path}" for path in files(self.spool)]
        if self.agent_log.exists():
            lines += self.agent_log.read_text().splitlines()[-60:]
        return "\n".join(lines)

    # ---- the pool

    @property
    def agent_log(self) -> Path:
        """The agent's log."""
        return self.pool.condor.log / "FetchworkAgentLog"

    def logged(self, event: str, since: int = 0) -> list[str]:
        """The agent's log lines about an event, from a position in the log."""
        lines = self.agent_log.read_text()[since:].splitlines() if self.agent_log.exists() else []
        return [line for line in lines if f" {event} " in f"{line} "]

    @property
    def log_end(self) -> int:
        """The current end of the agent's log."""
        return len(self.agent_log.read_text()) if self.agent_log.exists() else 0

    @property
    def agent(self) -> Process | None:
        """The process that serves the hooks."""
        pid = self.pool.processes().get("agent")
        return Process.find(pid) if pid else None

    def family(self, *names: str) -> list[Process]:
        """The pool's processes of these names, without the master itself."""
        recorded = self.pool.condor._recorded()
        assert recorded
        # the kernel stores 15 characters of a name
        cut = {name[:15] for name in names}
        return [each for each in self.pool.machine.family(recorded) if each.name in cut]

    def kill(self, name: str) -> float:
        """kill -9 of the one process of that name; return the time."""
        (process,) = self.family(name)
        process.signal(signal.SIGKILL)
        return time.time()

    def kill_master(self) -> None:
        """kill -9 of condor_master alone."""
        master = self.pool.condor.master
        assert master
        master.signal(signal.SIGKILL)
        assert master.wait(PATIENCE_S)

    def kill_all_of_condor(self, *others: Process) -> None:
        """kill -9 of every daemon at once, and of other processes."""
        master = self.pool.condor.master
        assert master
        names = ("startd", "starter", "procd", "collector", "shared_port")
        victims = [master, *self.family(*(f"condor_{name}" for name in names)), *others]
        for each in victims:
            each.signal(signal.SIGKILL)
        self.until(lambda: not any(each.alive for each in victims))

    def keep_agent_dead(self, until: Callable[[], object]) -> None:
        """kill -9 of the agent, and of each successor that the master starts, until a condition is true."""

        def so() -> bool:
            if until():
                return True
            if agent := self.agent:
                agent.signal(signal.SIGKILL)
            return False

        self.until(so)

    def start_master(self) -> None:
        """Start HTCondor again, as an administrator would; orphans stay."""
        self.pool.condor.start(sweep=False)

    @property
    def start_log(self) -> str:
        """The startd's log."""
        return (self.pool.condor.log / "StartLog").read_text(errors="replace")

    @property
    def spooled(self) -> list[Path]:
        """Reports that no agent has taken yet."""
        return list(self.spool.glob("*.report"))

    # ---- the end

    def settle(self) -> None:
        """Wait for the end of all jobs, and check everything."""
        for job in self._jobs:
            self.let_go(job)
        self.until(lambda: self.value("SELECT count(*) FROM fetchwork.job") == 0)
        with self.connection() as connection:
            assert violations(connection) == []
        assert self.value("SELECT count(*) FROM fetchwork.run") == 0
        ends = dict(
            self.rows(
                "SELECT cluster_id, array_agg((job_status, exit_code)::text)"
                " FROM fetchwork.job_history GROUP BY cluster_id"
            )
        )
        assert ends == {job.cluster: [f"(4,{job.code})"] for job in self._jobs}
        for job in self._jobs:
            assert self.stamps(job, "overlap") == []
        # a report leaves the spool after the database has it
        self.until(lambda: not list(files(self.spool)))

    def lost(self, job: Job) -> tuple[float, str]:
        """The time and the reason of the job's only lost run."""
        ((at, reason),) = self.rows(
            "SELECT extract(epoch FROM ended_at)::float8, reason FROM fetchwork.run_history"
            " WHERE cluster_id = %s AND outcome = 'lost'",
            job.cluster,
        )
        return at, reason

    def outcomes(self, job: Job) -> list[str]:
        """The outcomes of the job's runs, in order."""
        ended = self.rows(
            "SELECT outcome::text FROM fetchwork.run_history WHERE cluster_id = %s ORDER BY run_id",
            job.cluster,
        )
        return [outcome for (outcome,) in ended]

    def claimed_at(self, job: Job) -> float:
        """The time of a job's first claim."""
        return float(
            self.value(
                "SELECT min(extract(epoch FROM claimed_at)) FROM"
                " (SELECT cluster_id, claimed_at FROM fetchwork.run UNION ALL"
                " SELECT cluster_id, claimed_at FROM fetchwork.run_history) AS r WHERE cluster_id = %s",
                job.cluster,
            )
        )

    def tries(self, job: Job) -> int:
        """The number of starts of a job that has ended."""
        return int(
            self.value("SELECT num_starts FROM fetchwork.job_history WHERE cluster_id = %s", job.cluster)
        )
