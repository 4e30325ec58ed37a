"""The load of idle agents on the database: transactions, counted by PostgreSQL.

Real agents, each with several slots that wait for work as a startd's do. Three phases, of --seconds each:

- idle: nothing is submitted;
- unmatched: one job a second, of an autocluster that the agents know and that fits no slot;
- starts: one job a second that fits every slot. The slot that gets it accepts, starts and ends it at once.

The count is that of pg_stat_database (commits and rollbacks), without the submissions; the last two phases
are counted without the transactions of the idle phase. Each start's own transactions are its claim, its start
and its end: three.

PostgreSQL's own vacuum is off. Its servers report their counts with a delay of up to ten seconds, which the
benchmark waits for. Counts don't depend on the machine's load; with the defaults the benchmark takes four
minutes at most. The last lines are the figures; those before them extrapolate to a pool of 1 000 agents, each
with its own periodic calls and those that a job causes.
"""

import asyncio
import json
import resource
import time
from collections import Counter
from pathlib import Path

import psycopg

from fetchwork.classad.ads import parse_old, print_old
from fetchwork.db import schema
from fetchwork.hook.wire import Reply, ReplyReader, Request, encode_request
from fetchwork.pool.postgres import PostgresServer
from fetchwork.simulate.agents import AgentProcess
from tests.benchmarks import frame

SLOT_AD = Path(__file__).parent.parent / "data/ads/23.9.6-fetch_work-static-unclaimed.ad"
KEYWORD = "FETCHWORK"
SETTINGS = {"autovacuum": "off", "max_connections": "400", "shared_buffers": "256MB"}
#: PostgreSQL's servers report their counts at least this often
REPORT_S = 11.0
SETTLED_S = 10.0
#: at most, until all agents are there, all slots wait, or the jobs of a phase have ended
PATIENCE_S = 60.0
#: a start's claim, start and end
OWN = 3
#: agents of the larger pool in the calculation
MANY = 1000


class Agent:
    """One host: its agent, and its slots' requests."""

    def __init__(self, directory: Path, name: str, conninfo: str, slots: int, bench: "Bench") -> None:
        self.name = name
        self.process = AgentProcess(
            directory,
            name,
            conninfo,
            agent={"max_waiting_fetches": slots + 1},
            keyword={"max_fetch_wait_s": 600},
        )
        self.bench = bench
        ad = parse_old(SLOT_AD.read_bytes())
        ad["Machine"] = name
        self.ads = []
        for number in range(1, slots + 1):
            ad["Name"] = f"slot{number}@{name}"
            self.ads.append(print_old(ad).encode())

    async def ask(self, name: str, body: bytes, arg: str = "", slot: str = "") -> Reply:
        """Send one hook's request, on a connection of its own as hooks have."""
        request = Request(name, body, keyword=KEYWORD, arg=arg, slot=slot, deadline_ms=3_700_000)
        reader, writer = await asyncio.open_unix_connection(str(self.process.socket))
        replies = ReplyReader()
        try:
            writer.write(encode_request(request))
            while (reply := replies.next_reply()) is None:
                data = await reader.read(65536)
                if not data:
                    raise ConnectionError(f"agent of {self.name} closed the connection")
                replies.feed(data)
            return reply
        finally:
            writer.close()

    async def slot(self, number: int) -> None:
        """Fetch for ever, and run each job in no time."""
        ad = self.ads[number]
        while True:
            reply = await self.ask("fetch_work", ad)
            if not reply.body:
                await asyncio.sleep(1.0)
                continue
            job = reply.body
            await self.ask("reply_fetch", job + b"-----\n" + ad, "accept")
            started = await self.ask("prepare_job", job, slot=f"slot{number + 1}")
            assert not started.code and not started.exit, started
            end = parse_old(job)
            end.update({"JobState": "Exited", "JobPid": 1, "ExitCode": 0, "ExitBySignal": False})
            await self.ask("job_exit", print_old(end).encode(), "exit", slot=f"slot{number + 1}")
            self.bench.ended[self.name] += 1


class Bench:
    """The database and its agents."""

    def __init__(self, server: PostgresServer, directory: Path, agents: int, slots: int) -> None:
        self.conninfo = server.conninfo("bench")
        server.create_database("bench")
        schema.init(self.conninfo)
        self.submitter = psycopg.connect(self.conninfo, autocommit=True)
        # in another database, so that its queries are not counted
        self.reader = psycopg.connect(server.conninfo("postgres"), autocommit=True)
        self.ended: Counter[str] = Counter()
        self.submits = 0
        self.agents = [
            Agent(directory, f"host{number}", self.conninfo, slots, self) for number in range(agents)
        ]
        self.slots = slots

    async def start(self) -> None:
        """Start the agents, and let every slot wait for work."""
        # two at a time: each compiles a matchmaker's expressions first
        for first in range(0, len(self.agents), 2):
            await asyncio.gather(*(agent.process.start() for agent in self.agents[first : first + 2]))
        self.fetching = [
            asyncio.ensure_future(agent.slot(number)) for agent in self.agents for number in range(self.slots)
        ]
        await self.until_all_wait()

    async def until_all_wait(self) -> None:
        """Wait until every slot waits."""
        end = time.monotonic() + PATIENCE_S
        while True:
            assert time.monotonic() < end, "not all slots wait for work"
            self.raise_failures()
            states = [await agent.process.status() for agent in self.agents]
            if all(
                state["waiting_fetches"] == self.slots and state["databases"]["main"]["listening"]
                for state in states
            ):
                return
            await asyncio.sleep(0.5)

    async def until_ended(self, jobs: int) -> None:
        """Wait until this many jobs have run."""
        end = time.monotonic() + PATIENCE_S
        while (ended := sum(self.ended.values())) < jobs:
            assert time.monotonic() < end, f"{ended} of {jobs} jobs ran"
            self.raise_failures()
            await asyncio.sleep(0.1)

    def raise_failures(self) -> None:
        """Raise an exception if a slot failed."""
        for fetch in self.fetching:
            if fetch.done():
                fetch.result()

    def submit(self, ad: dict[str, object]) -> None:
        """Submit one job, in one transaction."""
        common = {"Cmd": "/bin/true", "Owner": "nobody", **ad}
        statement = "SELECT fetchwork.submit_cluster(%s, ARRAY['{}']::jsonb[])"
        self.submitter.execute(statement, [json.dumps(common)])
        self.submits += 1

    async def transactions(self) -> int:
        """All transactions so far without those of submissions, after every server has reported its count."""
        await asyncio.sleep(REPORT_S)
        return (
            int(
                frame.value(
                    self.reader,
                    "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'bench'",
                )
            )
            - self.submits
        )

    async def phase(self, seconds: int, ad: dict[str, object] | None, *, ended: int = 0) -> tuple[int, float]:
        """Transactions within the time, with one submission a second if there is an ad; and the actual time.

        The phase lasts until ``ended`` jobs have ended.
        """
        before, began = await self.transactions(), time.monotonic()
        for second in range(seconds):
            if ad is not None:
                await asyncio.to_thread(self.submit, ad)
            await asyncio.sleep(max(0.0, began + second + 1 - time.monotonic()))
            self.raise_failures()
        await self.until_ended(ended)
        # transactions during the servers' report are counted, too
        after = await self.transactions()
        return after - before, time.monotonic() - began


async def measure(bench: Bench, seconds: int) -> None:
    await bench.start()
    agents = len(bench.agents)
    print(f"{agents} agents of {bench.slots} slots wait", flush=True)
    # the agents' first reports of their slots
    await asyncio.sleep(SETTLED_S)
    count, length = await bench.phase(seconds, None)
    idle_a_second = count / length
    idle = idle_a_second / agents * 5
    print(f"idle: {idle_a_second:.2f} transactions/s of {agents} agents in {length:.0f} s", flush=True)

    nobody: dict[str, object] = {"Requirements": '/Expr(TARGET.Machine == "none")/'}
    await asyncio.to_thread(bench.submit, nobody)
    count, length = await bench.phase(seconds, nobody)
    unmatched = max(0.0, count - idle_a_second * length) / seconds
    print(f"unmatched: {count} transactions in {length:.0f} s", flush=True)

    await asyncio.to_thread(bench.submit, {})
    await bench.until_ended(1)
    count, length = await bench.phase(seconds, {}, ended=1 + seconds)
    start = max(0.0, count - idle_a_second * length) / seconds - OWN
    print(f"starts: {count} transactions for {seconds} starts in {length:.0f} s", flush=True)
    print(
        f"by calculation {MANY} agents of {bench.slots}: idle {idle / 5 * MANY:.0f} transactions/s at most;"
        " what a job brings is bounded by the time over which they come (fetchwork/matching/demand.py)"
    )
    print(f"idle transactions per agent in 5 s: {idle:.2f}")
    print(f"transactions per unmatched submit: {unmatched:.2f}")
    print(f"transactions per start beyond its own: {max(0.0, start):.2f}")


async def run(bench: Bench, seconds: int) -> None:
    try:
        await measure(bench, seconds)
    finally:
        for fetch in getattr(bench, "fetching", []):
            fetch.cancel()
        await asyncio.gather(*(agent.process.stop() for agent in bench.agents))


def main() -> None:
    parser = frame.parser(__doc__)
    parser.add_argument("--agents", type=int, default=16)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=30, help="length of each phase")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with frame.server(SETTINGS) as (server, directory):
        asyncio.run(run(Bench(server, directory, options.agents, options.slots), options.seconds))


if __name__ == "__main__":
    main()
