"""The time to find a slot's job, among a thousand and among ten thousand autoclusters.

    make bench-match

Requirements are those that HTCondor's own Submit writes; the slot ad is a real one that ranks jobs. The
measured operation is a FETCH_WORK of an agent that has been up for a while, in its worst case: all
autoclusters fit, so both ads are evaluated to the end, and all are needed because the slot ranks them (else
it stops at the first that fits): ask the database for candidates, order them, read the slot ad, and evaluate
each of them against the slot.

"isolated" is the time of such a match round with the matchmaker's process, as agents do it; "in one process"
is the same code without it, in turn with the other. The ratio is that of the two times, and the larger one
counts. "cpu" is the time of this process and the matchmaker's together. With "disk changes", each fetch has
another value of a resource that expressions use, so that no earlier verdict holds.

Then claims by real agents from a queue of DiracX's shape (dirac_queue.py), from the request to the printed
ad: one agent, and 32, each with 8 slots that ask all the time (and, without a goal, 32 with one slot each);
and the time in which a 64-core partitionable slot of a stock host (bench_fill.py) fills.

"claims with limits over without" compares the claims per second of some agents with 50 accounting groups and
50 concurrency limits to those without (limited_queue.py), in turn.
"""

import argparse
import asyncio
import re
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg

from fetchwork.classad.ads import parse_old
from fetchwork.db import schema
from fetchwork.db.calls import matching
from fetchwork.db.pool import AsyncDatabase
from fetchwork.handlers.host.session import HostSession
from fetchwork.handlers.requests.matchround import AUTOCLUSTERS_A_CLAIM
from fetchwork.matching.choose import order
from fetchwork.matching.slotstate import slot_resources
from fetchwork.matchmaker.looking import Looking
from fetchwork.matchmaker.messages import Look
from fetchwork.pool.condorroot import DEFAULT_SUITE, condor_root
from fetchwork.pool.postgres import PostgresServer
from fetchwork.queue.submitting.descriptions import from_description
from tests.benchmarks import frame, limited_queue
from tests.benchmarks.cpu import backends_s, family_s
from tests.benchmarks.dirac_queue import SETTINGS, DiracQueue, claims_per_second
from tests.condor.readme_host import readme_host
from tests.condor.stock_fill import start_all
from tests.matchmaker.choosing import NoMark, put_against
from tests.support.many_jobs import unlimited

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
_DISK = re.compile(rb"^Disk = \d+", re.MULTILINE)
_CLOCK = re.compile(rb"MyCurrentTime = \d+")
OWNERS = 20
LARGER_THAN_THE_SLOT = 64
#: agents in the second part
AGENTS = 32
SLOTS = 8
#: of the host that is filled
CORES = 64


class Bench:
    """One database, and a slot that asks it as an agent would."""

    def __init__(self, conninfo: str, database: AsyncDatabase) -> None:
        self.database = database
        self.session = HostSession("bench", database, "bench.example.org", agent_id="0" * 32)
        self.text = SLOT.read_bytes().replace(b"Rank = 0.0", b'Rank = 10 * (TARGET.Project =?= "project7")')
        self.connection = psycopg.connect(conninfo, autocommit=True)
        self.looking = Looking(NoMark())
        self.known: set[int] = set()
        self.fetches = 0
        self.disk_changes = False

    def submit(self, autoclusters: int, fitting: int) -> None:
        """Submit a job of each kind; all but ``fitting`` ask for more cores than there are."""
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

    async def candidates(self) -> list[matching.Candidate]:
        greeting = await self.session.hello(5.0)
        slot = parse_old(self.text)
        return await self.database.run(
            matching.candidates(
                host_id=greeting.host_id,
                slot="slot1@bench.example.org",
                queues=["default"],
                **slot_resources(slot),
            )
        )

    async def look(self, *, isolated: bool) -> int:
        """Run one FETCH_WORK up to the claim; return how many autoclusters were evaluated against the slot.

        ``isolated``: by the matchmaker, as the agent does it; else by the same code in this process.
        """
        # a slot's ad has the current time: no two fetches send the same ad
        self.fetches += 1
        text = _CLOCK.sub(b"MyCurrentTime = %d" % self.fetches, self.text)
        if self.disk_changes:
            text = _DISK.sub(b"Disk = %d" % (10**8 + self.fetches), text)
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

    def database_s(self) -> float:
        """CPU time that the database's server processes have used."""
        return backends_s(self.connection)

    def matchmaker_s(self) -> float:
        """CPU time that the matchmaker's processes have used."""
        pid = self.session.matchmaker.processes.pid
        return family_s(pid) if pid is not None else 0.0


@dataclass(slots=True)
class Measured:
    """Medians of match rounds: wall ms by whether isolated, and their ratio pair by pair; means of CPU."""

    looked: int
    look_ms: dict[bool, float]
    ratio: float
    cpu_ms: dict[bool, float]
    database_ms: float


async def measure(bench: Bench, rounds: int) -> Measured:
    """Measure ``rounds`` match rounds of each sort, in turn."""
    looked = await bench.look(isolated=True)
    await bench.look(isolated=False)
    times: dict[bool, list[float]] = {True: [], False: []}
    cpu_s = {True: 0.0, False: 0.0}
    database_s, matchmaker_s = bench.database_s(), bench.matchmaker_s()
    for _ in range(rounds):
        for isolated in (True, False):
            begin, cpu = time.perf_counter(), time.process_time()
            await bench.look(isolated=isolated)
            times[isolated].append((time.perf_counter() - begin) * 1000)
            cpu_s[isolated] += time.process_time() - cpu
    cpu_s[True] += bench.matchmaker_s() - matchmaker_s
    return Measured(
        looked,
        {isolated: statistics.median(some) for isolated, some in times.items()},
        statistics.median(one / other for one, other in zip(times[True], times[False], strict=True)),
        {isolated: seconds * 1000 / rounds for isolated, seconds in cpu_s.items()},
        (bench.database_s() - database_s) * 1000 / (2 * rounds),
    )


async def isolation(server: PostgresServer, rounds: int, share: int) -> float:
    """The worst ratio of isolated match rounds to those in one process, with one autocluster of ``share``."""
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
            bench.submit(autoclusters // share, fitting // share)
            for bench.disk_changes in (False, True):
                found = await measure(bench, rounds)
                print(
                    f"{name}{', disk changes' if bench.disk_changes else ''}: {found.looked} fit,"
                    f" isolated {found.look_ms[True]:.1f} ms (cpu {found.cpu_ms[True]:.1f}),"
                    f" in one process {found.look_ms[False]:.1f} ms (cpu {found.cpu_ms[False]:.1f}),"
                    f" database cpu {found.database_ms:.1f} ms; ratio {found.ratio:.3f}",
                    flush=True,
                )
                ratios.append(found.ratio)
        finally:
            bench.connection.close()
            await bench.session.close()
    return max(ratios)


def claims(server: PostgresServer, directory: Path, sizes: list[int], seconds: float) -> tuple[float, float]:
    """Claims per second of 32 agents, the least of all sizes, and of one agent at the largest size."""
    conninfo = frame.new_database(server)
    queue = DiracQueue(conninfo)
    many = []
    try:
        for size in sizes:
            begin = time.monotonic()
            queue.grow(size)
            print(f"{size} jobs wait (written in {time.monotonic() - begin:.0f} s)", flush=True)
            one = claims_per_second(queue, directory, agents=1, clients=SLOTS, seconds=seconds)
            many.append(claims_per_second(queue, directory, agents=AGENTS, clients=SLOTS, seconds=seconds))
            claims_per_second(queue, directory, agents=AGENTS, clients=1, seconds=seconds)
    finally:
        queue.close()
    return min(many), one


def fill_seconds(directory: Path) -> float:
    """Seconds from the submission of 64 jobs to the start of the last on a stock host of 64 cores."""
    postgres = PostgresServer(directory / "postgres-of-host")
    postgres.start()
    host_directory = directory / "host"
    host_directory.mkdir()
    try:
        with readme_host(condor_root(DEFAULT_SUITE, print), host_directory, postgres, cores=CORES) as host:
            return start_all(host, jobs=CORES)
    finally:
        postgres.stop()


def main() -> None:
    parser = frame.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--share", type=int, default=1, help="submit one autocluster of so many")
    parser.add_argument(
        "--sizes", default="100000,10000000", help="waiting jobs of the second part; none: leave it out"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement of claims")
    parser.add_argument(
        "--limited-jobs",
        type=int,
        default=100_000,
        help="waiting jobs of the part with limits; 0: leave it out",
    )
    parser.add_argument("--limited-agents", type=int, default=8)
    parser.add_argument("--limited-rounds", type=int, default=3)
    parser.add_argument("--fill", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    sizes = sorted(int(size) for size in options.sizes.split(",") if size.isdigit())
    with frame.server(SETTINGS) as (server, directory):
        ratio = asyncio.run(isolation(server, options.rounds, options.share))
        rates = claims(server, directory, sizes, options.seconds) if sizes else None
        limited = (
            limited_queue.compare(
                server,
                directory,
                jobs=options.limited_jobs,
                agents=options.limited_agents,
                clients=SLOTS,
                rounds=options.limited_rounds,
                seconds=options.seconds,
            )
            if options.limited_jobs
            else None
        )
        filled = fill_seconds(directory) if options.fill else None
    print(f"isolation over one process: {ratio:.3f}")
    if rates is not None:
        print(f"matched claims per second: {rates[0]:.0f}")
        print(f"claims per second of one agent: {rates[1]:.0f}")
    if limited is not None:
        print(f"claims with limits over without: {limited:.3f}")
    if filled is not None:
        print(f"fill seconds: {filled:.1f}")


if __name__ == "__main__":
    main()
