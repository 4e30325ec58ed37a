"""A run of some hundred jobs while faults happen, all chosen by one number.

The number decides hosts, versions of HTCondor, jobs, and which faults come when. The machine's load changes
the course a little from run to run; the plan stays the same.
"""

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from fetchwork.pool.postgres import PostgresServer
from fetchwork.simulate.hookcalls import PHASES, HookKilled, Step
from tests.faults.harness import Pool, SimulatedHost
from tests.faults.proxy import Trap

#: calls that an agent makes for the hooks, at which it dies
FUNCTIONS = (
    "read_demand",
    "claim_many",
    "report_runs/start",
    "report_runs/update",
    "report_runs/exit",
    "beat",
    "lead",
)
HOOKS = ("fetch_work", "reply_fetch", "prepare_job", "update_job_info", "job_exit")
#: the same in a run with chains: ends and starts travel by one call, and a runner asks for it
CHAIN_FUNCTIONS = (*FUNCTIONS, "next_runs", "next_runs", "next_runs")
CHAIN_HOOKS = (*HOOKS, "chain_first", "chain_next", "chain_next", "chain_next")
#: a trap's time limit for its call
_PATIENCE_S = 3.0


@dataclass
class Result:
    """A run's plan and its findings."""

    seed: int
    jobs: int
    seconds: float
    plan: list[str]
    counts: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


class SeededRun:
    """One run; ``play`` plays it."""

    def __init__(
        self, server: PostgresServer, pool: Pool, seed: int, jobs: int, faults: int, *, chains: bool = False
    ) -> None:
        self.chains = chains
        self.functions = CHAIN_FUNCTIONS if chains else FUNCTIONS
        self.hooks = CHAIN_HOOKS if chains else HOOKS
        self.pool = pool
        self.server = server
        self.seed = seed
        self.jobs = jobs
        self.number_of_faults = faults
        # for the plan alone, so that no other use of random numbers changes it
        self.random = random.Random(f"plan {seed}")
        self.plan: list[str] = []
        self.found: list[str] = []
        self._armed: list[tuple[str, str, str]] = []

    async def play(self) -> Result:
        """Submit, break, heal, wait, compare."""
        began = time.monotonic()
        await self.set_up()
        checks = asyncio.create_task(self._check_now_and_then())
        try:
            for _ in range(self.number_of_faults):
                await asyncio.sleep(self.random.uniform(0.1, 0.6))
                await self.next_fault()
            await self.heal()
            await self.pool.until_done()
            await self.pool.until(lambda: self.pool.ledger.running == 0)
            await self.pool.until(lambda: not self.pool.left_in_spool())
        except AssertionError as error:
            self.found.append(str(error))
        finally:
            checks.cancel()
            await asyncio.gather(checks, return_exceptions=True)
        self.found += [*self.pool.faults(), *self.pool.overlaps()]
        return Result(
            self.seed,
            self.jobs,
            time.monotonic() - began,
            self.plan,
            dict(self.pool.ledger.counts),
            self.found,
        )

    async def set_up(self) -> None:
        """Submit the jobs and start the hosts."""
        chosen = self.random
        self.pool.set("host_lease", 15)
        # no failure here is a job's own, so none may be held or back off for long
        for name, number in {
            "max_lost": 1000,
            "max_not_started": 1000,
            "retry_delay": 0.1,
            "refusal_rest": 0.1,
        }.items():
            self.pool.set(name, number)
        self.pool.set("max_retry_delay", 0.5)
        self.pool.set("black_hole_runs", 1000)
        self.submit()
        for number in range(chosen.randint(2, 3)):
            version = chosen.choice(["23.9", "23.9", "25.14"])
            # an agent that remembers its runs in a file must see the ends of starters
            family = chosen.random() < 0.3 or self.chains
            await self.pool.add_host(
                slots=chosen.randint(5, 8),
                version=version,
                family=family,
                calls_reply_fetch=chosen.random() < 0.5,
                watch=self._watch,
                prelude=self.prelude(f"sim{number + 1}"),
            )
            self.plan.append(f"sim{number + 1}: {version}, {'real' if family else 'virtual'} processes")

    def prelude(self, host: str) -> str:
        """Python that a host's agent executes before it begins."""
        return ""

    def submit(self) -> None:
        """Submit the jobs of the run."""
        chosen = self.random
        lengths = [chosen.uniform(0.01, 0.25) for _ in range(self.jobs)]
        kinds = 4
        for kind in range(kinds):
            self.pool.submit(
                lengths[kind::kinds],
                RequestMemory=64 + kind,
                SimulatedExitCode=kind,
                JobPrio=chosen.randint(0, 2),
            )

    # ---- faults

    async def next_fault(self) -> None:
        """Let the next fault of the plan happen."""
        chosen = self.random
        host = chosen.choice(self.pool.hosts)
        kind: Callable[[SimulatedHost], Awaitable[str]] = chosen.choice(
            [
                self._postgres_stops,
                self._postgres_crashes,
                self._read_only,
                self._no_connections,
                self._network,
                self._network,
                self._agent_at_a_call,
                self._agent_at_a_call,
                self._agent_at_a_call,
                self._lost_message,
                self._lost_message,
                self._postgres_at_a_call,
                self._at_a_hook,
                self._at_a_hook,
                self._at_a_hook,
                self._startd,
                self._power,
                self._people,
                *([self._runner, self._runner] if self.chains else []),
            ]
        )
        self.plan.append(f"{host.name}: " + await kind(host))

    async def _postgres_stops(self, _: SimulatedHost) -> str:
        mode = self.random.choice(["fast", "immediate"])
        pause = self.random.uniform(0.1, 1.5)
        await asyncio.to_thread(self.server.stop, mode)  # type: ignore[arg-type]
        await asyncio.sleep(pause)
        await asyncio.to_thread(self.server.start)
        return f"postgres stopped ({mode}) for {pause:.1f} s"

    async def _postgres_crashes(self, _: SimulatedHost) -> str:
        await asyncio.to_thread(self.server.crash)
        await asyncio.to_thread(self.server.start)
        return "postgres killed"

    async def _read_only(self, _: SimulatedHost) -> str:
        pause = self.random.uniform(0.3, 1.0)
        with self.pool.connection() as connection:
            connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            connection.execute("SELECT pg_reload_conf()")
            await asyncio.sleep(pause)
            connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
            connection.execute("SELECT pg_reload_conf()")
        return f"read-only for {pause:.1f} s"

    async def _no_connections(self, _: SimulatedHost) -> str:
        pause = self.random.uniform(0.3, 1.0)
        with self.pool.connection() as connection:
            held = await asyncio.to_thread(self._take_connections)
            connection.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE application_name LIKE 'fetchwork%'"
            )
            await asyncio.sleep(pause)
        for each in held:
            each.close()
        return f"no connections for {pause:.1f} s"

    def _take_connections(self) -> list[psycopg.Connection]:
        held: list[Any] = []
        with contextlib.suppress(psycopg.OperationalError):
            while len(held) < 200:
                held.append(psycopg.connect(self.pool.conninfo))
        return held

    async def _network(self, host: SimulatedHost) -> str:
        mode = self.random.choice(["slow", "deaf", "cut"])
        pause = self.random.uniform(0.2, 2.0)
        await host.proxy.set_mode(mode, 0.05)  # type: ignore[arg-type]
        await asyncio.sleep(pause)
        await host.proxy.set_mode("open")
        return f"network {mode} for {pause:.1f} s"

    async def _agent_at_a_call(self, host: SimulatedHost) -> str:
        function, side = self.random.choice(self.functions), self.random.choice(["before", "after"])
        stops = self.random.random() < 0.4
        pause = self.random.uniform(0.2, 1.5)

        async def action() -> None:
            host.agent.signal(signal_of(stops))

        what = f"agent {'stopped' if stops else 'killed'} {side} {function}"
        trap = host.proxy.trap(function, side, action, cuts=not stops)  # type: ignore[arg-type]
        if not await _sprung(host, trap):
            return what + ", which was not called"
        await asyncio.sleep(pause)
        if stops:
            host.agent.signal(signal_of(stops, on=False))
        else:
            await host.agent.start()
        return what

    async def _lost_message(self, host: SimulatedHost) -> str:
        function, side = self.random.choice(self.functions), self.random.choice(["before", "after"])

        async def action() -> None:
            pass

        sprung = await _sprung(host, host.proxy.trap(function, side, action))  # type: ignore[arg-type]
        return f"connection lost {side} {function}" + ("" if sprung else ", which was not called")

    async def _postgres_at_a_call(self, host: SimulatedHost) -> str:
        function, side = self.random.choice(self.functions), self.random.choice(["before", "after"])

        async def action() -> None:
            await asyncio.to_thread(self.server.crash)

        sprung = await _sprung(host, host.proxy.trap(function, side, action))  # type: ignore[arg-type]
        await asyncio.to_thread(self.server.start)
        return f"postgres killed {side} {function}" + ("" if sprung else ", which was not called")

    async def _at_a_hook(self, host: SimulatedHost) -> str:
        hook, phase = self.random.choice(self.hooks), self.random.choice(PHASES)
        victim = self.random.choice(["hook", "hook", "starter"])
        self._armed.append((hook, phase, victim))
        return f"{victim} killed at {hook} {phase}"

    def _watch(self, step: Step) -> None:
        for armed in self._armed:
            hook, phase, victim = armed
            if (step.hook, step.phase) == (hook, phase):
                self._armed.remove(armed)
                if victim == "starter":
                    step.slot.kill_starter()
                raise HookKilled

    async def _runner(self, host: SimulatedHost) -> str:
        for slot in host.host.busy()[:3]:
            if slot.starter is not None:
                slot.starter.kill_runner()
        return "three runners killed"

    async def _startd(self, host: SimulatedHost) -> str:
        await host.host.crash_startd(restart_s=0.5)
        return "startd killed"

    async def _power(self, host: SimulatedHost) -> str:
        pause = self.random.uniform(0.2, 1.5)
        await host.lose_power()
        await asyncio.sleep(pause)
        await host.power_up()
        return f"no power for {pause:.1f} s"

    async def _people(self, _: SimulatedHost) -> str:
        verb = self.random.choice(["hold", "vacate", "remove"])
        share = self.random.uniform(0.0, 1.0)
        with self.pool.connection() as connection:
            jobs = [
                row[0]
                for row in connection.execute(
                    "SELECT cluster_id || '.' || proc_id FROM fetchwork.job ORDER BY cluster_id, proc_id"
                )
            ]
            some = jobs[int(share * len(jobs)) :][:10]
            connection.execute(f"SELECT count(*) FROM fetchwork.{verb}(%s::text[])", [some])
        return f"{verb} {len(some)} jobs"

    # ---- the rest

    async def heal(self) -> None:
        """Let everything work again."""
        await asyncio.to_thread(self.server.start)
        for host in self.pool.hosts:
            host.proxy.traps.clear()
            await host.proxy.set_mode("open")
        self._armed.clear()

    async def _check_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(2.0)
            with contextlib.suppress(psycopg.OperationalError):
                wrong = await asyncio.to_thread(self.pool.violations)
                self.found += [f"meanwhile: {line}" for line in wrong[:5]]


def signal_of(stops: bool, on: bool = True) -> signal.Signals:
    """SIGSTOP and SIGCONT, or SIGKILL."""
    if not stops:
        return signal.SIGKILL
    return signal.SIGSTOP if on else signal.SIGCONT


async def _sprung(host: SimulatedHost, trap: Trap) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_S):
            await trap.sprung.wait()
            return True
    with contextlib.suppress(ValueError):
        host.proxy.traps.remove(trap)
        return False
    # it is springing, or its connection broke before the answer
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_S):
            await trap.sprung.wait()
    return trap.sprung.is_set()


async def play(
    server: PostgresServer,
    conninfo: str,
    directory: Path,
    seed: int,
    jobs: int,
    faults: int,
    *,
    chains: bool = False,
) -> Result:
    """Play one run in a database of its own; ``chains``: its jobs may run in chains."""
    # delays that are no part of the plan
    random.seed(seed)
    keyword = {"chain_s": random.Random(f"chain {seed}").choice([1, 3, 60])} if chains else None
    async with Pool(server, conninfo, directory, keyword=keyword) as pool:
        return await SeededRun(server, pool, seed, jobs, faults, chains=chains).play()
