"""Starts under a limit on starts, by many agents with faults: none may be over the limit.

    make bench-starts
    make bench-starts ARGS="--starts 20000 --agents 8 --sessions 4"

Jobs that end at once, under a limit of --limit starts in a second, and 32 agents. Some are real, with
simulated hosts; two cores carry no 500 starts a second of them, so the others are sessions that make an
agent's calls: hello, claims of many slots, starts, ends. A tenth of all offers is given back. Meanwhile
agents are killed, connections ended, and PostgreSQL is stopped twice as by a crash (immediate).

The starts are counted from the times of all runs in the database, also of offers that were given back: each
start that is less than a second later than the one that is as many starts before it as the limit allows. Jobs
that ran are compared with the runs on record: PostgreSQL may forget claims in a crash, but none whose job
started.
"""

import asyncio
import contextlib
import itertools
import json
import random
import time
import uuid
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from fetchwork.db.calls import matching, runs
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import FetchworkError
from fetchwork.handlers.host.session import HostSession
from fetchwork.pool.postgres import PostgresServer
from fetchwork.simulate import Timing
from fetchwork.simulate.hookcalls import allow_connections
from tests.benchmarks import frame
from tests.faults.harness import Pool, SimulatedHost

#: the concurrency limit whose starts are limited
NAME = "db"
SLOTS_OF_AGENT, SLOTS_OF_SESSION = 2, 16
#: agents that start at the same time
AT_ONCE = 8
#: of all offers
GIVEN_BACK = 0.1
#: of agents and of connections, on average
FAULT_EVERY_S = 4.0
JOBS_A_CLUSTER = 5000
#: a session that found nothing waits at least as long, so that it gets many starts at once
CLOSED_S = 0.1
TIMING = Timing(
    unclaimed_delay_s=1.0,
    polling_interval_s=1.0,
    starter_initial_update_interval_s=60.0,
    hook_start_s=0.002,
    starter_start_s=0.005,
)
EXITED = {"JobState": "Exited", "JobPid": 7, "JobDuration": 0.0, "ExitBySignal": False, "ExitCode": 0}
#: no fault may hold a job, or let it wait for long
SETTINGS = {
    "max_lost": 1000,
    "max_not_started": 1000,
    "black_hole_runs": 1000,
    "retry_delay": 0.1,
    "max_retry_delay": 0.5,
    "refusal_rest": 0.1,
}
STARTS = """
    SELECT claimed_at, started_at FROM fetchwork.run
    UNION ALL
    SELECT claimed_at, started_at FROM fetchwork.run_history
"""
SECOND = timedelta(seconds=1)
TOKENS = "SELECT coalesce(max(number), 0) FROM fetchwork.start_token"


class Session:
    """The calls of an agent without its processes, for the slots of one host."""

    def __init__(self, conninfo: str, number: int, counts: Counter[str], started: set[int]) -> None:
        self._session = HostSession(
            "main", AsyncDatabase(conninfo, size=1), f"session{number}", agent_id=str(uuid.uuid4())
        )
        self._session.signals_jobs = True
        self._slots = [f"slot{slot}@session{number}" for slot in range(1, SLOTS_OF_SESSION + 1)]
        self._dice = random.Random(number)
        self._counts = counts
        self._started = started
        self._beat_at = 0.0

    async def run(self, autocluster: int) -> None:
        """Claim, start and end jobs until cancelled."""
        while True:
            try:
                again_s = await self._turn(autocluster)
            except FetchworkError:
                self._counts["calls failed"] += 1
                again_s = 0.1
            await asyncio.sleep(again_s)

    async def close(self) -> None:
        await self._session.close()

    async def _turn(self, autocluster: int) -> float:
        session = self._session
        if time.monotonic() > self._beat_at:
            await session.beat({}, 5.0)
            self._beat_at = time.monotonic() + 5.0
        call = matching.claim_many(
            host_id=(await session.hello(5.0)).host_id,
            autoclusters=[autocluster],
            prios=[0],
            hints=[session.positions.hint(autocluster, 0)],
            slots=[{"slot": slot, "exclusive": True, "choices": [1], "weights": 1} for slot in self._slots],
            offer_s=60.0,
            lease_s=60.0,
        )
        rows = await session.database.run(call, timeout_s=5.0, again=False)
        again_s = next((row.again_s for row in rows if row.again_s is not None), None)
        got = [row for row in rows if row.slot_number is not None and row.problem is None]
        for row in got:
            assert row.position is not None
            session.positions.took(autocluster, 0, row.position)
        if not got:
            session.positions.found_nothing(autocluster, 0)
            return max(CLOSED_S, again_s or 0.0)
        back = [row for row in got if self._dice.random() < GIVEN_BACK]
        for row in back:
            await session.database.run(runs.reject(run_id=row.run_id, token=row.token, reason="unwilling"))
            self._counts["offers given back"] += 1
        await self._run_jobs([row for row in got if row not in back])
        return 0.0

    async def _run_jobs(self, claimed: list[matching.Claimed]) -> None:
        """Let jobs pass the fence, and report their ends."""
        started = await self._report(starts=claimed)
        ran = [claimed[number - 1] for number in started.started or ()]
        self._started.update(run.run_id for run in ran)
        ended = await self._report(exits=ran)
        self._counts["jobs ended"] += len(ended.finished or ())

    async def _report(
        self, starts: list[matching.Claimed] | None = None, exits: list[matching.Claimed] | None = None
    ) -> runs.Reported:
        starts, exits = starts or [], exits or []
        call = runs.report_runs(
            accept_ids=[],
            accept_tokens=[],
            accepted_s=[],
            start_ids=[run.run_id for run in starts],
            start_tokens=[run.token for run in starts],
            starters=["1:1" for _ in starts],
            slots=[None for _ in starts],
            started_accepted_s=[0.0 for _ in starts],
            update_ids=[],
            update_tokens=[],
            updates=[],
            exit_ids=[run.run_id for run in exits],
            exit_tokens=[run.token for run in exits],
            exits=[EXITED for _ in exits],
        )
        return await self._session.database.run(call, timeout_s=5.0)


class Bench:
    """A database with a limit on starts, its hosts, and their faults."""

    def __init__(self, server: PostgresServer, conninfo: str, limit: int) -> None:
        self.server = server
        self.conninfo = conninfo
        self.limit = limit
        #: the sessions' answers and the faults
        self.counts: Counter[str] = Counter()
        #: runs of sessions that passed the fence
        self.started: set[int] = set()
        self._dice = random.Random(1)

    def query(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """The rows of a statement, on a connection that no fault has ended."""
        with psycopg.connect(self.conninfo, autocommit=True, application_name="bench") as connection:
            return connection.execute(statement, parameters).fetchall()

    def prepare(self, jobs: int) -> int:
        """Set the limit and submit the jobs; return their autocluster."""
        for name, number in SETTINGS.items():
            self.query("SELECT fetchwork.set_setting(%s, %s::numeric)::text", name, number)
        self.query("SELECT fetchwork.set_starts('limit', %s, %s, 1)::text", NAME, self.limit)
        ad = {
            "Cmd": "/bin/true",
            "Owner": "nobody",
            "Iwd": "/",
            "SimulatedSeconds": 0,
            "ConcurrencyLimits": NAME,
        }
        for first in range(0, jobs, JOBS_A_CLUSTER):
            self.query(
                "SELECT fetchwork.submit_cluster(%s, array_fill('{}'::jsonb, ARRAY[%s]))",
                json.dumps(ad),
                min(JOBS_A_CLUSTER, jobs - first),
            )
        ((number,),) = self.query("SELECT autocluster_id FROM fetchwork.autocluster")
        return int(number)

    async def run(self, directory: Path, starts: int, most_s: float, agents: int, sessions: int) -> list[str]:
        """Start so many jobs, or all that start in this time; return the runs that are not on record."""
        # jobs that are given back wait again, so some are left at the end
        autocluster = await asyncio.to_thread(self.prepare, starts)
        hosts = [Session(self.conninfo, n, self.counts, self.started) for n in range(sessions)]
        keyword = {"max_fetch_wait_s": 5, "fetch_delay_s": 1}
        async with Pool(self.server, self.conninfo, directory, timing=TIMING, keyword=keyword) as pool:
            for first in range(0, agents, AT_ONCE):
                added = range(first, min(first + AT_ONCE, agents))
                await asyncio.gather(*(self._add_agent(pool, f"agent{number}") for number in added))
            began = time.monotonic()
            tasks = [asyncio.create_task(host.run(autocluster)) for host in hosts]
            tasks.append(asyncio.create_task(self._break(pool.hosts)))
            try:
                for part in (1 / 3, 2 / 3, 1):
                    await self._until_spent(part * starts, began + part * most_s, tasks)
                    if part < 1:
                        await self._crash()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                for host in hosts:
                    await host.close()
            self.counts["starts of agents"] = len(pool.ledger.executions)
            self.counts["offers given back"] += pool.ledger.counts["reject"]
            return await asyncio.to_thread(self._not_on_record, pool)

    async def _add_agent(self, pool: Pool, name: str) -> None:
        host = await pool.add_host(name, slots=SLOTS_OF_AGENT, through_proxy=False)
        host.host.refuses = lambda ad: self._dice.random() < GIVEN_BACK

    async def _until_spent(self, starts: float, end: float, tasks: list[asyncio.Task[None]]) -> None:
        """Wait until so many starts were spent, or the time is over; fail if a task has ended."""
        while time.monotonic() < end and (await asyncio.to_thread(self.query, TOKENS))[0][0] < starts:
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.5)

    async def _crash(self) -> None:
        await asyncio.to_thread(self.server.stop, "immediate")
        await asyncio.to_thread(self.server.start)
        self.counts["crashes of PostgreSQL"] += 1

    async def _break(self, hosts: list[SimulatedHost]) -> None:
        """Kill agents and end connections, in turn, for ever."""
        for number in itertools.count():
            await asyncio.sleep(self._dice.uniform(0, 2 * FAULT_EVERY_S))
            with contextlib.suppress(psycopg.OperationalError):
                if number % 2 == 0 and hosts:
                    await self._dice.choice(hosts).kill_agent()
                    self.counts["agents killed"] += 1
                else:
                    ended = await asyncio.to_thread(
                        self.query,
                        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                        " WHERE application_name LIKE 'fetchwork%%' AND random() < 0.3",
                    )
                    self.counts["connections ended"] += ended[0][0]

    def _not_on_record(self, pool: Pool) -> list[str]:
        """Runs whose jobs started, but that the database does not know."""
        known = {
            run_id
            for (run_id,) in self.query(
                "SELECT run_id FROM fetchwork.run UNION ALL SELECT run_id FROM fetchwork.run_history"
            )
        }
        ran = self.started | {execution.run_id for execution in pool.ledger.executions}
        return [f"run {run_id}" for run_id in sorted(ran - known)]

    def rates(self) -> tuple[int, int, float, int, int]:
        """Starts, those over the limit, starts a second, and the most claims and fences in any second."""
        claimed, started = zip(*self.query(STARTS), strict=True)
        times = sorted(claimed)
        over = sum(later - at < SECOND for at, later in zip(times, times[self.limit :], strict=False))
        a_second = len(times) / (times[-1] - times[0]).total_seconds()
        passed = sorted(at for at in started if at is not None)
        return len(times), over, a_second, most_in_a_second(times), most_in_a_second(passed)


def most_in_a_second(times: list[datetime]) -> int:
    """The most of these ascending times within any second."""
    most = first = 0
    for number, at in enumerate(times):
        while at - times[first] >= SECOND:
            first += 1
        most = max(most, number - first + 1)
    return most


def main() -> None:
    """Run the benchmark and print the figures, each as a line `name: figure`."""
    parser = frame.parser(__doc__)
    parser.add_argument("--starts", type=int, default=100_000)
    parser.add_argument("--limit", type=int, default=500, help="starts in a second")
    parser.add_argument("--seconds", type=float, default=420, help="after which it ends with fewer starts")
    parser.add_argument("--agents", type=int, default=4, help="agents as processes")
    parser.add_argument("--sessions", type=int, default=28, help="agents without processes")
    options = parser.parse_args()
    allow_connections()
    connections = {"max_connections": str(8 * options.agents + 4 * options.sessions + 50)}
    with frame.server(connections) as (server, directory):
        bench = Bench(server, frame.new_database(server), options.limit)
        began = time.monotonic()
        unknown = asyncio.run(
            bench.run(directory, options.starts, options.seconds, options.agents, options.sessions)
        )
        print(
            f"{time.monotonic() - began:.0f} s; "
            + ", ".join(f"{n} {what}" for what, n in bench.counts.items())
        )
        starts, over, a_second, most_claims, most_fences = bench.rates()
    for run in unknown:
        print(f"not on record: {run}")
    print(f"most in any second: {most_claims} claims, {most_fences} jobs that passed the fence")
    print(f"starts: {starts}")
    print(f"starts a second: {a_second:.1f}")
    print(f"jobs that ran without a run on record: {len(unknown)}")
    print(f"starts over the limit: {over}")
    if over or unknown:
        raise SystemExit("the limit did not hold")


if __name__ == "__main__":
    main()
