"""Simulated hosts with real agents on a real PostgreSQL, and the checks at the end.

A ``Pool`` is one database and some hosts. Each host has an agent of its own (a process), a proxy between
that agent and PostgreSQL, and a simulated startd. ``pool.ledger`` has the jobs' real executions;
``pool.faults()`` compares it with the queue's records.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from fetchwork.pool.postgres import PostgresServer
from fetchwork.simulate import BEHAVIOURS, Clock, Host, Ledger, SlotSpec, Timing
from fetchwork.simulate.agents import PROGRAM, AgentProcess
from fetchwork.simulate.family import Actor, connect_as_hooks
from fetchwork.simulate.hookcalls import Watch, connect_to
from tests.faults.proxy import DatabaseProxy
from tests.support.invariants import violations
from tests.support.living import files
from tests.support.waiting import PATIENCE_S

OWNER = "nobody"

#: seconds of a job that runs for as long as its test wants (``Pool.end_jobs``)
UNTIL_TOLD = 1000.0

#: quick, so that a run of the harness takes seconds
TIMING = Timing(
    unclaimed_delay_s=1.0,
    polling_interval_s=1.0,
    update_interval_s=0.2,
    starter_initial_update_interval_s=1.0,
    starter_update_interval_s=2.0,
    hook_start_s=0.002,
    starter_start_s=0.005,
)
#: a hook's time limit for the agent; the real hooks wait longer
DEADLINES_S = {
    "fetch_work": 8.0,
    "reply_fetch": 4.0,
    "prepare_job": 4.0,
    "update_job_info": 4.0,
    "job_exit": 4.0,
    "chain_first": 4.0,
    "chain_next": 4.0,
}
#: no hook gives up by itself: only the agent's answer ends a wait
PATIENT = dict.fromkeys(DEADLINES_S, 2 * PATIENCE_S)
#: HTCondor calls them for each job
HOOKS = ("fetch_work", "reply_fetch", "prepare_job", "update_job_info", "job_exit")
AGENT = {"lease_s": 15}
KEYWORD = {"max_fetch_wait_s": 2, "fetch_delay_s": 1}

#: runs in the agent before its program: the agent believes that its host calls no REPLY_FETCH
NO_REPLIES = """
from fetchwork.config import HostConfig
HostConfig.is_told_replies = lambda self, keyword: False
"""
#: runs in the agent before its program: the agent's wall clock is wrong
_WRONG_CLOCK = """
import time
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + {ahead_s}
time.time_ns = lambda: _time_ns() + int({ahead_s} * 10**9)
"""

#: the database's state, shown when a wait fails
_PICTURE = {
    "jobs": """
        SELECT job_status, not_before IS NOT NULL, count(*), min(last_reason) FROM fetchwork.job GROUP BY 1, 2
    """,
    "live runs": """
        SELECT host_id, slot, state, cluster_id, proc_id, deadline - now(), end_requested FROM fetchwork.run
    """,
    "ended runs": """
        SELECT outcome, left(reason, 60), count(*) FROM fetchwork.run_history GROUP BY 1, 2
    """,
    "hosts": """
        SELECT name, lease_until - now(), bad_starts, black_hole_since, bad_reason FROM fetchwork.host
    """,
    "rests": "SELECT * FROM fetchwork.slot_rest LIMIT 10",
    "demand": """
        SELECT d.*, (
            SELECT count(*) FROM fetchwork.waiting AS w
            WHERE w.autocluster_id = d.autocluster_id AND w.job_prio = d.job_prio
        )
        FROM fetchwork.demand AS d
    """,
}


@dataclass(frozen=True)
class HostOptions:
    """``wrapper`` starts the agent, ``address`` is the host's proxy as the agent reaches it, if it uses the
    proxy.

    ``prelude`` is Python that the agent executes before it begins.
    """

    slots: int = 4
    version: str = "23.9"
    family: bool = False
    watch: Watch | None = None
    clock_ahead_s: float = 0.0
    address: str = "127.0.0.1"
    through_proxy: bool = True
    wrapper: Sequence[str] = ()
    prelude: str = ""
    calls_reply_fetch: bool = True


class SimulatedHost:
    """One host of a pool: proxy, agent, startd."""

    def __init__(self, pool: "Pool", name: str, options: HostOptions) -> None:
        self.pool = pool
        self.name = name
        self.options = options
        self.proxy = DatabaseProxy(pool.server.port, options.address)
        self.agent: AgentProcess
        self.host: Host

    async def start(self) -> None:
        """Start proxy, agent and startd, in that order."""
        options = self.options
        await self.proxy.__aenter__()
        self.agent = AgentProcess(
            self.pool.directory,
            self.name,
            self.proxy.conninfo(self.pool.conninfo) if options.through_proxy else self.pool.conninfo,
            agent={**AGENT, **self.pool.agent},
            keyword={**KEYWORD, **self.pool.keyword},
            program="".join(
                (
                    _WRONG_CLOCK.format(ahead_s=options.clock_ahead_s),
                    "" if options.calls_reply_fetch else NO_REPLIES,
                    options.prelude,
                    PROGRAM,
                )
            ),
            wrapper=options.wrapper,
        )
        await self.agent.start()
        connect = connect_as_hooks if options.family else connect_to
        self.host = Host(
            self.name,
            connect(self.agent.socket),
            [SlotSpec()] * options.slots,
            spool=self.agent.spool,
            behaviour=BEHAVIOURS[options.version],
            timing=self.pool.timing,
            clock=Clock(self.pool.scale, options.clock_ahead_s),
            ledger=self.pool.ledger,
            watch=options.watch,
            deadlines_s=self.pool.deadlines_s,
            family=Actor.startd() if options.family else None,
            calls_reply_fetch=options.calls_reply_fetch,
            chains="chain_s" in self.pool.keyword,
        )
        self.host.start()

    def reports(self) -> list[Path]:
        """Reports that hooks have left for the agent, in its order."""
        return sorted(self.agent.spool.glob("*.report"))

    async def kill_agent(self, restart_s: float = 0.3) -> None:
        """kill -9 of the agent; its master starts another."""
        self.agent.signal(signal.SIGKILL)
        await asyncio.sleep(restart_s)
        await self.agent.start()

    async def lose_power(self) -> None:
        """Let startd, jobs and agent end at once."""
        self.agent.signal(signal.SIGKILL)
        await self.host.vanish()

    async def power_up(self) -> None:
        """Start them again."""
        await self.agent.start()
        self.host.start()

    async def stop(self) -> None:
        """End everything of this host."""
        with contextlib.suppress(AttributeError):
            await self.host.vanish()
            if self.host.family is not None:
                self.host.family.kill()
        with contextlib.suppress(AttributeError):
            self.agent.signal(signal.SIGCONT)
            self.agent.signal(signal.SIGKILL)
        await self.proxy.__aexit__()


class Pool:
    """A database in ``server`` and simulated hosts that fetch from it."""

    def __init__(
        self,
        server: PostgresServer,
        conninfo: str,
        directory: Path,
        *,
        scale: float = 1.0,
        timing: Timing = TIMING,
        agent: dict[str, Any] | None = None,
        keyword: dict[str, Any] | None = None,
        deadlines_s: dict[str, float] | None = None,
    ) -> None:
        self.server = server
        self.conninfo = conninfo
        self.directory = directory
        self.scale = scale
        self.timing = timing
        self.agent = agent or {}
        self.keyword = keyword or {}
        self.deadlines_s = deadlines_s or DEADLINES_S
        self.ledger = Ledger()
        self.hosts: list[SimulatedHost] = []

    async def __aenter__(self) -> "Pool":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(host.stop() for host in self.hosts))

    async def add_host(self, name: str = "", **options: Any) -> SimulatedHost:
        """Start a host with its agent; the options are those of HostOptions."""
        host = SimulatedHost(self, name or f"sim{len(self.hosts) + 1}", HostOptions(**options))
        self.hosts.append(host)
        await host.start()
        return host

    # ---- the database, past every proxy

    @contextlib.contextmanager
    def connection(self) -> Any:
        """A connection of the superuser."""
        with psycopg.connect(self.conninfo, autocommit=True, connect_timeout=int(PATIENCE_S)) as connection:
            yield connection

    def value(self, statement: str, *params: Any) -> Any:
        """The first value of an answer, None without one."""
        with self.connection() as connection:
            row = connection.execute(statement, params).fetchone()
        return row[0] if row else None

    def rows(self, statement: str, *params: Any) -> list[tuple[Any, ...]]:
        """An answer."""
        with self.connection() as connection:
            return connection.execute(statement, params).fetchall()

    def submit(self, seconds: Iterable[float], **attributes: Any) -> None:
        """Submit one job for each number, its length in seconds."""
        ads = [
            {"Cmd": "/bin/true", "Owner": OWNER, "Iwd": "/", "SimulatedSeconds": length, **attributes}
            for length in seconds
        ]
        with self.connection() as connection:
            connection.execute("SELECT fetchwork.submit_many(%s::jsonb[])", [[Jsonb(ad) for ad in ads]])

    def end_jobs(self) -> None:
        """Let every running job end now, as if by itself."""
        for host in self.hosts:
            for slot in host.host.slots:
                if slot.starter is not None:
                    slot.starter.job = replace(slot.starter.job, seconds=0.0)
                    # it checks the length of its job
                    slot.starter._wake.set()

    def set(self, name: str, number: float) -> None:
        """Change a setting of the database."""
        self.value("SELECT fetchwork.set_setting(%s, %s::numeric)::text", name, number)

    def left(self) -> int:
        """Jobs that have not ended."""
        return int(self.value("SELECT count(*) FROM fetchwork.job"))

    def state(self, job: str = "1.0") -> int:
        """The JobStatus; 4 and 3 for a job that has left the queue."""
        return int(
            self.value(
                "SELECT job_status FROM (SELECT cluster_id, proc_id, job_status FROM fetchwork.job UNION ALL"
                " SELECT cluster_id, proc_id, job_status FROM fetchwork.job_history) AS j"
                " WHERE cluster_id || '.' || proc_id = %s",
                job,
            )
        )

    # ---- waiting

    async def until(
        self, what: Callable[[], object], timeout_s: float = PATIENCE_S, *, every_s: float = 0.05
    ) -> float:
        """Wait until ``what()`` is true; return the seconds; an unreachable database counts as not true."""
        began = time.monotonic()
        while True:
            with contextlib.suppress(psycopg.OperationalError):
                if what():
                    return time.monotonic() - began
            if time.monotonic() - began > timeout_s:
                raise AssertionError(f"not so after {timeout_s} s\n{self.report()}")
            await asyncio.sleep(every_s)

    async def until_running(self, count: int = 1) -> float:
        """Wait until this many job processes are alive."""
        return await self.until(lambda: self.ledger.running >= count)

    async def until_done(self, timeout_s: float = 2 * PATIENCE_S) -> float:
        """Wait until every job has left the queue, and every report is taken.

        Jobs that a fault has held are released. A report leaves its spool after the database has it.
        """

        def done() -> bool:
            held = [
                row[0]
                for row in self.rows(
                    "SELECT cluster_id || '.' || proc_id FROM fetchwork.job WHERE job_status = 5"
                )
            ]
            if held:
                self.value("SELECT count(*) FROM fetchwork.release(%s::text[])", held)
            return self.left() == 0 and not any(host.reports() for host in self.hosts)

        return await self.until(done, timeout_s, every_s=0.3)

    # ---- the truth

    def violations(self) -> list[str]:
        """Violated invariants in the database alone."""
        with self.connection() as connection:
            return violations(connection)

    def faults(self) -> list[str]:
        """Violated invariants, and differences between database and real executions; for a test's end."""
        return [*self.violations(), *self._unlike_the_ledger(), *self.left_in_spool()]

    def _unlike_the_ledger(self) -> list[str]:
        found = []
        records: dict[int, list[tuple[Any, ...]]] = {}
        for run_id, *rest in self.rows(
            "SELECT run_id, outcome::text, cluster_id || '.' || proc_id, (report ->> 'ExitCode')::integer,"
            " (late_report ->> 'ExitCode')::integer FROM fetchwork.run_history"
        ):
            records.setdefault(run_id, []).append(tuple(rest))
        for execution in self.ledger.executions:
            kept = records.get(execution.run_id, [])
            who = f"run {execution.run_id} of job {execution.job} on {execution.slot}"
            if len(kept) != 1:
                found.append(f"{who}: {len(kept)} records of a run that was executed")
                continue
            outcome, job, code, late_code = kept[0]
            if job != execution.job:
                found.append(f"{who}: on record as a run of {job}")
            if (
                execution.reported in ("agent", "spool")
                and execution.hook_reason == "exit"
                and execution.exit_code is not None
                and execution.exit_code not in (code, late_code)
            ):
                found.append(
                    f"{who}: exit code {execution.exit_code}, told to {execution.reported}, is not on record"
                    f" ({outcome}, {code}, {late_code})"
                )
        completed = dict(
            self.rows(
                "SELECT cluster_id || '.' || proc_id, exit_code"
                " FROM fetchwork.job_history WHERE job_status = 4"
            )
        )
        executed: dict[str, set[int | None]] = {}
        for execution in self.ledger.executions:
            executed.setdefault(execution.job, set()).add(execution.exit_code)
        for job, code in completed.items():
            if code not in executed.get(job, set()):
                found.append(f"job {job} is Completed with {code}, which none of its executions ended with")
        return found

    def overlaps(self, longer_than_s: float = 0.0) -> list[str]:
        """Executions of one job that were alive at the same time."""
        return [
            f"job {first.job}: runs {first.run_id} ({first.slot}) and {second.run_id} ({second.slot}) both"
            f" alive for {seconds:.2f} s"
            for first, second, seconds in self.ledger.overlaps()
            if seconds > longer_than_s
        ]

    def left_in_spool(self) -> list[str]:
        """Reports that no agent has taken, and files that were moved aside."""
        found = []
        for host in self.hosts:
            for path in files(host.agent.spool):
                found.append(f"spool of {host.name} still has {path.relative_to(host.agent.spool)}")
        return found

    def report(self) -> str:
        """The information that explains a failure."""
        lines = [f"ledger: {dict(self.ledger.counts)}, {self.ledger.running} running"]
        with contextlib.suppress(psycopg.Error):
            for name, statement in _PICTURE.items():
                lines.append(f"{name}: {self.rows(statement)}")
        for host in self.hosts:
            with contextlib.suppress(AttributeError, OSError):
                states = [(slot.name, slot.state, slot.activity) for slot in host.host.slots]
                lines.append(f"{host.name}: agent runs {host.agent.running}, {states}")
                lines += host.agent.log.read_text(errors="replace").splitlines()[-8:]
        return "\n".join(lines)


@contextlib.asynccontextmanager
async def deaf(host: SimulatedHost) -> AsyncIterator[None]:
    """The agent's connections to PostgreSQL stay open, and no data passes."""
    await host.proxy.set_mode("deaf")
    try:
        yield
    finally:
        await host.proxy.set_mode("open")


def descendants(pid: int) -> set[int]:
    """The descendants of a process, while it lives."""
    found: set[int] = set()
    left = [pid]
    while left:
        try:
            children = Path(f"/proc/{left[-1]}/task/{left.pop()}/children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        new = {int(child) for child in children} - found
        found |= new
        left += new
    return found
