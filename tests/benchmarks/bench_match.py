"""Time of finding what a slot may be given, among a thousand and among ten thousand autoclusters.

    make bench-match

Requirements are those that HTCondor's own Submit writes, the slot ad is a real one that ranks jobs. Measured
is what an agent that has been up for a while does at a FETCH_WORK, at its worst: all autoclusters fit, so
both ads are evaluated to the end, and because the slot ranks them all are needed (else it stops at the first
that fits): ask the database for candidates, order them, read the slot ad, put each of them against the slot.

"isolated" is the time of such a look with the matchmaker's process, as agents do it; "in one process" is the
same code without it, in turn with the other. The last line is the ratio of the two, the larger one.
"""

import argparse
import asyncio
import re
import statistics
import tempfile
import time
from pathlib import Path

import psycopg

from fetchwork.classad.ads import parse_old
from fetchwork.db import calls, schema
from fetchwork.db.pool import AsyncDatabase
from fetchwork.handlers.fetch import AUTOCLUSTERS_A_CLAIM
from fetchwork.handlers.session import HostSession
from fetchwork.matching.choose import order
from fetchwork.matching.slotstate import slot_resources
from fetchwork.matchmaker.looking import Looking
from fetchwork.matchmaker.messages import Look
from fetchwork.pool.postgres import PostgresServer
from fetchwork.queue.descriptions import from_description
from tests.many_jobs import unlimited
from tests.matchmaker.choosing import NoMark, put_against

SLOT = Path(__file__).parent.parent / "data" / "ads" / "25.14.1-fetch_work-pslot-unclaimed.ad"
DESCRIPTION = """
executable = /bin/sleep
arguments = 10
request_cpus = 1
request_memory = 1024
request_disk = 10M
requirements = (OpSys == "LINUX") && (Machine == "ep0.example.org" || HasJobDeferral =?= true)
rank = Memory + 10 * (Arch == "X86_64")
+Project = "project0"
queue
"""
_CLOCK = re.compile(rb"MyCurrentTime = \d+")
OWNERS = 20
LARGER_THAN_THE_SLOT = 64


class Bench:
    """One database, and a slot that asks it as an agent would."""

    def __init__(self, conninfo: str, database: AsyncDatabase) -> None:
        self.database = database
        self.session = HostSession("bench", database, "bench.example.org", agent_id=None)
        self.text = SLOT.read_bytes().replace(b"Rank = 0.0", b'Rank = 10 * (TARGET.Project =?= "project7")')
        self.connection = psycopg.connect(conninfo, autocommit=True)
        self.looking = Looking(NoMark())
        self.known: set[int] = set()
        self.fetches = 0

    def submit(self, autoclusters: int, fitting: int) -> None:
        """A job of each kind; all but ``fitting`` ask for more cores than there are."""
        template = from_description(DESCRIPTION, cluster_id=1, owner="owner0")
        ad = {**template.common, **next(iter(template.own))}
        ads = [
            {
                "Owner": f"owner{number % OWNERS}",
                "Project": f"project{number % 50}",
                "RequestCpus": 1 if number < fitting else LARGER_THAN_THE_SLOT,
                "Requirements": ad["Requirements"].replace("ep0.", f"ep{number}."),
            }
            for number in range(autoclusters)
        ]
        common = {name: value for name, value in ad.items() if name not in ads[0]}
        self.connection.execute(
            "SELECT fetchwork.submit_cluster(%s, %s::jsonb[])",
            [psycopg.types.json.Jsonb(common), [psycopg.types.json.Jsonb(one) for one in ads]],
        )
        self.connection.execute("VACUUM ANALYZE")

    async def candidates(self) -> list[calls.Candidate]:
        greeting = await self.session.hello(5.0)
        slot = parse_old(self.text)
        return await self.database.run(
            calls.candidates(
                host_id=greeting.host_id,
                slot="slot1@bench.example.org",
                queues=["default"],
                **slot_resources(slot),
            )
        )

    async def look(self, *, isolated: bool) -> int:
        """One FETCH_WORK up to the claim; returns how many autoclusters were put against the slot.

        ``isolated``: by the matchmaker, as the agent does it; else by the same code in this process.
        """
        # a slot tells the time in its ad: no two fetches bring the same
        self.fetches += 1
        text = _CLOCK.sub(b"MyCurrentTime = %d" % self.fetches, self.text)
        if isolated:
            await self.session.matchmaker.expect(text)
        rows = await self.candidates()
        await self.session.read_autoclusters((row.autocluster_id for row in rows), 5.0)
        await self.session.read_shares(5.0)
        choices = order(
            rows,
            autoclusters=self.session.autoclusters,
            positions=self.session.positions,
            shares=self.session.shares,
            queues=["default"],
        )
        if isolated:
            known = {choice.autocluster.autocluster_id: choice.autocluster for choice in choices}
            look = Look(text, [choice.autocluster.autocluster_id for choice in choices])
            answer = await self.session.matchmaker.look([look], known)
            fitting = len(answer.seen[0].matches)
        else:
            fitting = len(
                put_against(
                    self.looking, self.known, choices, text.decode(), self.fetches, AUTOCLUSTERS_A_CLAIM
                )
            )
        assert fitting == min(len(rows), AUTOCLUSTERS_A_CLAIM)
        return len(rows)

    def backend_s(self) -> float:
        """CPU time that the servers of this database have used; read from the kernel, where it may be."""
        pids = self.connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
        ticks = 0
        for (pid,) in pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / 100


async def measure(bench: Bench, rounds: int) -> tuple[int, dict[bool, float], float, float]:
    """Autoclusters looked at; ms of a look, isolated and not; their ratio pair by pair; ms of the database.

    Medians of ``rounds`` looks of each sort, in turn. What is timed is the wall: two processes take turns.
    """
    looked = await bench.look(isolated=True)
    await bench.look(isolated=False)
    times: dict[bool, list[float]] = {True: [], False: []}
    database = bench.backend_s()
    for _ in range(rounds):
        for isolated in (True, False):
            begin = time.perf_counter()
            await bench.look(isolated=isolated)
            times[isolated].append((time.perf_counter() - begin) * 1000)
    ratio = statistics.median(one / other for one, other in zip(times[True], times[False], strict=True))
    medians = {isolated: statistics.median(some) for isolated, some in times.items()}
    return looked, medians, ratio, (bench.backend_s() - database) * 1000 / (2 * rounds)


async def run(server: PostgresServer, rounds: int) -> list[float]:
    ratios = []
    for name, autoclusters, fitting in (
        ("1000 autoclusters", 1000, 1000),
        ("10000 autoclusters of which 100 fit by resources", 10_000, 100),
    ):
        dbname = f"bench{autoclusters}"
        server.create_database(dbname)
        conninfo = server.conninfo(dbname)
        schema.init(conninfo)
        unlimited(conninfo)
        database = AsyncDatabase(conninfo, size=1)
        bench = Bench(conninfo, database)
        try:
            bench.submit(autoclusters, fitting)
            looked, look_ms, ratio, database_ms = await measure(bench, rounds)
        finally:
            bench.connection.close()
            await bench.session.close()
        print(
            f"{name}: {looked} fit, isolated {look_ms[True]:.1f} ms, in one process {look_ms[False]:.1f} ms,"
            f" of that database cpu {database_ms:.1f} ms; ratio {ratio:.3f}",
            flush=True,
        )
        ratios.append(ratio)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fetchwork-bench-") as directory:
        Path(directory).chmod(0o755)
        server = PostgresServer(Path(directory) / "postgres")
        server.start()
        try:
            ratios = asyncio.run(run(server, options.rounds))
        finally:
            server.stop("fast")
    print(f"isolation over one process: {max(ratios):.3f}")


if __name__ == "__main__":
    main()
