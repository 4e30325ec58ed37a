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

Last, a job's account floods the agent's socket with ``--flood`` threads of several processes, with requests
of the maximal size and with small ones. Only root can measure that.

The last lines are the slowest start beside the hostile ads, the failing jobs and the flood; the goal of each
is 2 s.
"""

import argparse
import asyncio
import contextlib
import json
import os
import pwd
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg

from fetchwork.db import schema
from fetchwork.pool.postgres import PostgresServer
from fetchwork.simulate import BEHAVIOURS, Host, Ledger, SlotSpec, Timing
from fetchwork.simulate.agents import AgentProcess
from fetchwork.simulate.hooks import connect_to

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.matchmaker.hostile import HOSTILE, made_by_chance

#: the hostile submitter's name sorts before the other's
MALLORY, BOB = "daemon", "nobody"
#: owners of the jobs that fail at once
FAILING = ("bin", "games")
#: this many of them failed before the first job of another owner is submitted
MANY = 24
SLOTS = 8
PATIENCE_S = 120.0
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

    def submit_failing(self, jobs: int, owners: int) -> None:
        """Submit this many jobs of two kinds that fail at once, and one or as many of a second owner."""
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

    async def start_one(self) -> float:
        """Seconds from the submission of an exit-status-only job to its start."""
        ad = json.dumps({"Cmd": "/bin/true", "Iwd": "/", "Owner": BOB, "SimulatedSeconds": 0.05})
        asked = time.time()
        row = self.connection.execute(SUBMIT, [ad]).fetchone()
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

    async def run(
        self,
        directory: Path,
        jobs: int,
        rest_s: float,
        hostile: list[str],
        failing: tuple[int, int],
        flood: int,
    ) -> tuple[list[float], list[float], list[float], list[float]]:
        """Measure alone, beside hostile ads, beside failing jobs of some owners, and beside a flood."""
        agent = AgentProcess(
            directory, "sim1", self.conninfo, keyword={"max_fetch_wait_s": 10, "fetch_delay_s": 1}
        )
        host = None
        try:
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
            await self.start_one()
            alone = await self.start_many(jobs, rest_s)
            told = await asyncio.to_thread(self.submit_hostile, hostile)
            print(f"hostile ads: {dict(told)}, {self.waiting()} autoclusters wait", file=sys.stderr)
            beside = await self.start_many(jobs, rest_s)
            print("beside them: " + " ".join(f"{seconds:.2f}" for seconds in beside), file=sys.stderr)
            print(f"hostile jobs by JobStatus: {self.states()}, ran: {self.ran()}", file=sys.stderr)
            self.connection.execute(
                "SELECT fetchwork.remove(ARRAY(SELECT JobId FROM fetchwork.jobs WHERE Owner = %s))", [MALLORY]
            )
            self.submit_failing(*failing)
            await self.until_failed(MANY)
            bystander = await self.start_many(jobs, rest_s)
            print("beside failing jobs: " + " ".join(f"{s:.2f}" for s in bystander), file=sys.stderr)
            print(f"black holes: {self.black_holes()}", file=sys.stderr)
            with flooded(agent.socket, flood):
                await asyncio.sleep(rest_s)
                drowned = await self.start_many(jobs, rest_s)
            print("beside a flood: " + " ".join(f"{s:.2f}" for s in drowned), file=sys.stderr)
        finally:
            if host is not None:
                await host.vanish()
            await agent.stop()
            ended = agent.log.read_text().count("autocluster_ended_matchmaker")
            print(f"autoclusters that ended the matchmaker: {ended}", file=sys.stderr)
        return alone, beside, bystander, drowned


_FLOOD = r"""
import itertools, os, socket, sys, threading, uuid
key = b'FetchWorkRunId = 1\nFetchWorkToken = "%s"\n' % str(uuid.uuid4()).encode()
def flood():
    for number in itertools.count():
        try:
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(10)
                link.connect(sys.argv[1])
                body = key + b"Some = 1\n" * (100_000 if number % 8 else 0)
                head = b"fetchwork/1 update_job_info\nkeyword: FETCHWORK\nlength: %d\n\n" % len(body)
                for _ in range(number % 50):
                    link.sendall(head + body)
                    if not link.recv(4096):
                        break
        except OSError:
            pass
any(os.fork() == 0 for _ in range(6))
for _ in range(int(sys.argv[2]) // 7):
    threading.Thread(target=flood, daemon=True).start()
threading.Event().wait()
"""


@contextlib.contextmanager
def flooded(agent_socket: Path, threads: int) -> Iterator[None]:
    """Let an account of jobs flood an agent's socket meanwhile."""
    if not threads or os.geteuid() != 0:
        yield
        return
    program = ["/usr/bin/python3", "-I", "-c", _FLOOD, str(agent_socket), str(threads)]
    account = pwd.getpwnam(MALLORY)
    with subprocess.Popen(
        program, user=account.pw_uid, group=account.pw_gid, extra_groups=[], start_new_session=True
    ) as flood:
        try:
            yield
        finally:
            os.killpg(flood.pid, signal.SIGKILL)


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
    parser.add_argument("--flood", type=int, default=56, help="threads that flood the agent's socket")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fetchwork-bench-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        server = PostgresServer(directory / "postgres")
        server.start()
        try:
            server.create_database("queue")
            schema.init(server.conninfo("queue"))
            bench = Bench(server.conninfo("queue"))
            ads = hostile_ads(options.hostile, options.seed)
            failing = (options.failing, options.owners)
            alone, beside, bystander, drowned = asyncio.run(
                bench.run(directory, options.jobs, options.rest, ads, failing, options.flood)
            )
            bench.connection.close()
        finally:
            server.stop("immediate")
    print(f"submit to start, without hostile ads: {told(alone)}")
    print(f"submit to start, beside {options.hostile} hostile ads: {told(beside)}")
    print(f"plain start s: {max(beside):.2f}")
    print(f"slowest bystander s: {max(bystander):.2f}")
    print(f"slowest beside a flood s: {max(drowned):.2f}")


if __name__ == "__main__":
    main()
