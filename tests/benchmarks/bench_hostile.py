"""The delay of an exit-status-only job's start while thousands of hostile ads of another submitter wait.

    make bench-hostile
    python tests/benchmarks/bench_hostile.py --hostile 10000 --jobs 50

One simulated host with a real agent, on a server of its own. Exit-status-only jobs are submitted one after
the other, each a while after the start of the one before, so that idle slots try all other jobs too; the time
from submission to start is measured: first with nothing else in the queue, then from the moment that another
submitter's hostile ads are added, all at once. The ads are many variants of each ad that once ended every
fetch, and random ads; with equal shares, their submitter is matched first. Hostile jobs that run after all
take no time.

Then the host's slots are full of jobs that fail at once: two kinds of one owner, one job of a second owner,
and with ``--owners 2`` as many of the second. A third owner's jobs are submitted as before.

Then, one after the other (``scenes.py``):

- a job's account floods the agent's socket with ``--flood`` threads of several processes, with requests of
  the maximal size and with small ones (only root can measure that);
- a role that may connect, and nothing else, keeps PostgreSQL's queue of notifications full;
- the same role has a transaction open, in the queue's database and in another of the server;
- one person floods the page with slow questions and with requests that are never finished.

Beside each of these the third owner submits a job, has it run, and reads its events until its end; beside the
page's flood by way of the page. The time is that from submission to the reading of the end; the job itself
takes 0.05 s of it.

The last lines are the slowest time beside each, and ``slowest bystander s``, the slowest of all; the goal is
2 s.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg

from fetchwork.db import schema
from fetchwork.pool.postgres import PostgresServer
from fetchwork.queue import Queue
from fetchwork.simulate import BEHAVIOURS, Host, Ledger, SlotSpec, Timing
from fetchwork.simulate.agents import AgentProcess
from fetchwork.simulate.hookcalls import connect_to

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks import scenes
from tests.benchmarks.scenes import MALLORY, Page
from tests.matchmaker.hostile import HOSTILE, made_by_chance

#: the hostile submitter's name (MALLORY) sorts before this one
BOB = "nobody"
#: owners of the jobs that fail at once
FAILING = ("bin", "games")
#: this many of them failed before the first job of another owner is submitted
MANY = 24
SLOTS = 8
PATIENCE_S = 120.0
#: the cursor before all events
BEGINNING = "e0.0"
PLAIN = {"Cmd": "/bin/true", "Iwd": "/", "Owner": BOB, "SimulatedSeconds": 0.05}
SUBMIT = "SELECT fetchwork.submit_cluster('{}', ARRAY[%s]::jsonb[])"


def hostile_ads(count: int, seed: int) -> list[str]:
    """Ads as JSON: each fourth is a variant of one that once ended every fetch, the others are random."""
    names = sorted(HOSTILE)
    ads = []
    for number in range(count):
        if number % 4:
            text = json.dumps(made_by_chance(seed * 1_000_000 + number))
        else:
            text = HOSTILE[names[number // 4 % len(names)]]
        # requests are part of the autocluster's key, so each job is an autocluster of its own
        own = f'{{"Cmd": "/bin/true", "Iwd": "/", "Owner": "{MALLORY}", "RequestDisk": {number + 1},'
        ads.append(f'{own} "SimulatedSeconds": 0.01, {text.lstrip().removeprefix("{")}')
    return ads


class Bench:
    """A queue, a host, and the start times of its jobs."""

    def __init__(self, conninfo: str) -> None:
        self.conninfo = conninfo
        self.connection = psycopg.connect(conninfo, autocommit=True)
        self.ledger = Ledger()

    def submit_hostile(self, ads: list[str]) -> Counter[str]:
        """Submit them at once; return the number accepted, and how many others were refused by reason."""
        refused: Counter[str] = Counter()
        with self.connection.transaction():
            for ad in ads:
                # PostgreSQL itself takes no string with a NUL, and refuses invalid JSON
                with contextlib.suppress(ValueError):
                    try:
                        with self.connection.transaction():
                            self.connection.execute(SUBMIT, [ad])
                        refused["taken"] += 1
                    except psycopg.Error as error:
                        refused[f"refused {error.sqlstate}"] += 1
        return refused

    def remove(self, *owners: str) -> None:
        """Remove all jobs of these owners."""
        jobs = "ARRAY(SELECT JobId FROM fetchwork.jobs WHERE Owner = ANY (%s))"
        self.connection.execute(f"SELECT fetchwork.remove({jobs})", [list(owners)])

    def submit_failing(self, jobs: int, owners: int) -> None:
        """Submit jobs that fail at once: ``jobs`` of each of the first ``owners`` of ``FAILING``, and one of
        the others. Half of them ask for no core.
        """
        for number, owner in enumerate(FAILING):
            count = jobs if number < owners else 1
            for cpus in (1, 0):
                ad = {"Cmd": "/bin/false", "Iwd": "/", "Owner": owner, "RequestCpus": cpus}
                ads = [json.dumps({"SimulatedSeconds": 0.05, "SimulatedExitCode": 1})] * ((count + cpus) // 2)
                if not ads:
                    continue
                self.connection.execute(
                    "SELECT fetchwork.submit_cluster(%s::jsonb, %s::jsonb[])", [json.dumps(ad), ads]
                )

    async def until_failed(self, jobs: int) -> None:
        """Wait until this many of these jobs have failed, the second owner's among them."""
        count = "SELECT count(*), count(DISTINCT owner) FROM fetchwork.job_history WHERE owner = ANY (%s)"
        async with asyncio.timeout(PATIENCE_S):
            while True:
                row = self.connection.execute(count, [list(FAILING)]).fetchone()
                if row is not None and row[0] >= jobs and row[1] == len(FAILING):
                    return
                await asyncio.sleep(0.1)

    def black_holes(self) -> int:
        """The number of hosts that count as black holes."""
        row = self.connection.execute(
            "SELECT count(*) FROM fetchwork.hosts WHERE black_hole_since_at IS NOT NULL"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def waiting(self) -> int:
        """The number of waiting autoclusters."""
        row = self.connection.execute(
            "SELECT count(DISTINCT autocluster_id) FROM fetchwork.demand"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def states(self) -> dict[int, int]:
        """The hostile submitter's jobs in the queue by JobStatus."""
        rows = self.connection.execute(
            "SELECT job_status, count(*) FROM fetchwork.job WHERE owner = %s GROUP BY 1 ORDER BY 1", [MALLORY]
        )
        return dict(rows.fetchall())

    def ran(self) -> int:
        """The number of recorded runs of the hostile submitter's jobs."""
        row = self.connection.execute(
            "SELECT count(*) FROM fetchwork.job_history WHERE owner = %s", [MALLORY]
        ).fetchone()
        assert row is not None
        return int(row[0])

    def faulty(self) -> int:
        """The number of autoclusters that the host could not evaluate."""
        row = self.connection.execute(
            "SELECT count(DISTINCT autocluster_id) FROM fetchwork.autocluster_fault"
        ).fetchone()
        assert row is not None
        return int(row[0])

    async def start_one(self) -> float:
        """Seconds from the submission of an exit-status-only job to its start."""
        asked = time.time()
        row = self.connection.execute(SUBMIT, [json.dumps(PLAIN)]).fetchone()
        assert row is not None
        seen = 0
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for execution in self.ledger.executions[seen:]:
                    if execution.job == f"{row[0]}.0":
                        return execution.started - asked
                seen = len(self.ledger.executions)
                await asyncio.sleep(0.005)

    async def start_many(self, jobs: int, rest_s: float) -> list[float]:
        """The times of this many exit-status-only jobs, one after the other."""
        times = []
        for _ in range(jobs):
            times.append(await self.start_one())
            await asyncio.sleep(rest_s)
        return times

    async def end_many(self, jobs: int, rest_s: float, page: Page | None = None) -> list[float]:
        """The times from submission to the reading of the end, by SQL or by way of the page."""
        times = []
        for _ in range(jobs):
            began = time.monotonic()
            await asyncio.to_thread(self._end_by_page, page) if page else await asyncio.to_thread(self._end)
            times.append(time.monotonic() - began)
            await asyncio.sleep(rest_s)
        return times

    def _end(self) -> None:
        row = self.connection.execute(SUBMIT, [json.dumps(PLAIN)]).fetchone()
        assert row is not None
        with Queue(self.conninfo) as queue:
            for event in queue.events(job=row[0], after=BEGINNING, stop_after=PATIENCE_S):
                if event.type.name == "JOB_TERMINATED":
                    return
        raise TimeoutError(f"no end of job {row[0]}.0")

    @staticmethod
    def _end_by_page(page: Page) -> None:
        cluster = page.ask(BOB, "/jobs", {"ad": PLAIN})["cluster"]
        deadline = time.monotonic() + PATIENCE_S
        after = BEGINNING
        while time.monotonic() < deadline:
            answer = page.ask(BOB, f"/events?after={after}&job={cluster}&wait_s=10")
            if any(event["MyType"] == "JobTerminatedEvent" for event in answer["events"]):
                return
            after = answer["cursor"]
        raise TimeoutError(f"no end of job {cluster}.0")

    @contextlib.asynccontextmanager
    async def host(self, directory: Path) -> AsyncIterator[AgentProcess]:
        """A host of simulated slots that fetch jobs, and its agent."""
        agent = AgentProcess(
            directory, "sim1", self.conninfo, keyword={"max_fetch_wait_s": 10, "fetch_delay_s": 1}
        )
        await agent.start()
        host = Host(
            agent.name,
            connect_to(agent.socket),
            [SlotSpec()] * SLOTS,
            spool=agent.spool,
            behaviour=BEHAVIOURS["25.14"],
            timing=Timing(unclaimed_delay_s=1.0, polling_interval_s=1.0),
            ledger=self.ledger,
        )
        host.start()
        try:
            yield agent
        finally:
            await host.vanish()
            await agent.stop()

    async def jobs_of_others(
        self, jobs: int, rest_s: float, hostile: list[str], failing: tuple[int, int]
    ) -> dict[str, list[float]]:
        """The times of starts alone, beside hostile ads, and beside jobs of some owners that fail."""
        await self.start_one()
        times = {"alone": await self.start_many(jobs, rest_s)}
        told = await asyncio.to_thread(self.submit_hostile, hostile)
        say(f"hostile ads: {dict(told)}, {self.waiting()} autoclusters wait")
        times["hostile ads"] = await self.start_many(jobs, rest_s)
        say(f"hostile jobs by JobStatus: {self.states()}, ran: {self.ran()}")
        say(f"autoclusters that ended the matchmaker or took too much of its time: {self.faulty()}")
        self.remove(MALLORY)
        self.submit_failing(*failing)
        await self.until_failed(MANY)
        times["failing jobs"] = await self.start_many(jobs, rest_s)
        say(f"black holes: {self.black_holes()}")
        self.remove(*FAILING)
        return times

    async def scenes(
        self, server: PostgresServer, agent: AgentProcess, page: Page, jobs: int, rest_s: float, threads: int
    ) -> dict[str, list[float]]:
        """The times of whole jobs beside each scene; the queue is database "queue" of the server."""
        beside: dict[str, contextlib.AbstractContextManager[None]] = {
            "a flooded socket": scenes.flooded_socket(agent.socket, threads),
            "a full queue of notifications": scenes.full_notification_queue(server),
            "open transactions": scenes.open_transactions(server, "queue"),
            "a flooded page": page.flooded(threads),
        }
        times = {}
        for name, scene in beside.items():
            with scene:
                await asyncio.sleep(rest_s)
                times[name] = await self.end_many(jobs, rest_s, page if "page" in name else None)
        return times


def say(text: str) -> None:
    """Print a line on stderr, where the figures are not."""
    print(text, file=sys.stderr, flush=True)


def told(times: list[float]) -> str:
    """The median and the slowest, as text."""
    return f"median {statistics.median(times):.2f} s, slowest {max(times):.2f} s"


def main() -> None:
    """Run the benchmark and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--hostile", type=int, default=4000, help="ads of the hostile submitter")
    parser.add_argument("--jobs", type=int, default=20, help="plain jobs, without and with them")
    parser.add_argument("--rest", type=float, default=1.0, help="seconds between two plain jobs")
    parser.add_argument("--failing", type=int, default=600, help="jobs that fail at once")
    parser.add_argument("--owners", type=int, default=1, help="owners of so many such jobs")
    parser.add_argument("--flood", type=int, default=56, help="threads of each flood")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fetchwork-bench-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        server = PostgresServer(directory / "postgres", settings=scenes.SETTINGS)
        server.start()
        try:
            server.create_database("queue")
            schema.init(server.conninfo("queue"))
            scenes.make_stranger(server)
            times = asyncio.run(measured(server, directory, options))
        finally:
            server.stop("immediate")
    alone = times.pop("alone")
    print(f"submit to start, without anything else: {told(alone)}")
    for beside, of_bystander in times.items():
        print(f"beside {beside}: {told(of_bystander)}")
    print(f"slowest bystander s: {max(map(max, times.values())):.2f}")


async def measured(
    server: PostgresServer, directory: Path, options: argparse.Namespace
) -> dict[str, list[float]]:
    """All times, by what stood in the way."""
    bench = Bench(server.conninfo("queue"))
    page = Page(bench.conninfo, directory)
    ads = hostile_ads(options.hostile, options.seed)
    failing = (options.failing, options.owners)
    async with bench.host(directory) as agent:
        times = await bench.jobs_of_others(options.jobs, options.rest, ads, failing)
        with page.served():
            times |= await bench.scenes(server, agent, page, options.jobs, options.rest, options.flood)
    bench.connection.close()
    return times


if __name__ == "__main__":
    main()
