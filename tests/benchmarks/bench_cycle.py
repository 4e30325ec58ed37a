"""A job's way from claim to finish, beside other PostgreSQL job queues on the same server in the same run.

    make bench-cycle
    python tests/benchmarks/bench_cycle.py --jobs 1000 --rounds 1 --without-peers

Eight slots of one process work off no-op jobs on a durable server, by the calls that an agent makes, batched
in the same way: for the runner of a chain, whose call ends one job and takes and starts the next
(``handlers.host.chainreports``), and for hooks, with a claim, a start and an end each
(``handlers.host.reports``). The other queues do their own equivalent: submit, work off with eight at a time,
and the clock stops when every end is in the database. Parts of a fetchwork job that another queue lacks (a
run and a token for each attempt, the fence before the start, history of jobs and runs, events, usage) are
printed beside it. Rounds of all sides alternate.

CPU is that of all processes of the server, background writers included.

The last lines are the medians of chains: the server's CPU for a job, and jobs a second divided by those of
the best of procrastinate, PgQueuer one by one and pg-boss, and by those of the faster of awa-pg and
graphile-worker. Goals: 0.25, 2.0 and 1.0.
"""

import asyncio
import os
import statistics
import sys
import time
from typing import TypedDict

from fetchwork.db import schema
from fetchwork.db.calls import hosts, matching
from fetchwork.db.pool import AsyncDatabase
from fetchwork.handlers.host.chainreports import ChainReports, Wish
from fetchwork.handlers.host.reports import RunReports
from fetchwork.pool.postgres import PostgresServer
from fetchwork.queue import Queue
from tests.benchmarks import frame
from tests.benchmarks.peers import Measured, PeerFailed, Peers, timed

SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "15min"}
SLOTS = 8
REPORT = {
    "JobPid": 4711,
    "ExitCode": 0,
    "ExitBySignal": False,
    "JobDuration": 0.01,
    "RemoteUserCpu": 0.0,
    "RemoteSysCpu": 0.0,
    "ImageSize": 1200,
    "ResidentSetSize": 900,
}
COMPARED = ("cmd", "owner", "killsig")
SAME = {"cmd": "/bin/true", "owner": "alice"}
OURS = "fetchwork, chains"
BY_HOOKS = "fetchwork, hooks"


class _Key(TypedDict):
    run_id: int
    token: str
    timeout_s: float


class Slots:
    """The slots of one host, which share its connections, its match rounds and its reports."""

    def __init__(self, conninfo: str, *, chained: bool) -> None:
        self.database = AsyncDatabase(conninfo, size=2)
        self.reports = RunReports(self.database)
        self.chains = ChainReports(self.database, COMPARED, lambda *_: self.hint, self._took)
        self.slot = self._chained_slot if chained else self._slot
        self.hint = 0
        self.ended = 0
        self.waiting: list[tuple[int, asyncio.Future[matching.Claimed | None]]] = []
        self.round: asyncio.Task[None] | None = None

    async def work(self, jobs: int) -> None:
        async with self.database:
            host = await self.database.run(hosts.hello(host="bench", agent_version="1", agent_id="0" * 32))
            rows = await self.database.query("SELECT DISTINCT autocluster_id FROM fetchwork.waiting")
            (autocluster,) = (row["autocluster_id"] for row in rows)
            await asyncio.gather(*(self.slot(host.host_id, n, autocluster) for n in range(SLOTS)))
        assert self.ended == jobs, f"{self.ended} of {jobs} ended"

    async def _slot(self, host_id: int, number: int, autocluster: int) -> None:
        while claimed := await self._claimed(host_id, number, autocluster):
            key: _Key = {"run_id": claimed.run_id, "token": str(claimed.token), "timeout_s": 10.0}
            self.reports.accepted(claimed.run_id, str(claimed.token))
            refused = await self.reports.start(**key, starter=f"{number}:1", slot=f"slot{number}@bench")
            assert refused is None, refused
            outcome = await self.reports.finish(**key, hook_reason="exit", report=REPORT, verdict=None)
            assert outcome == "completed", outcome
            self.ended += 1

    async def _chained_slot(self, host_id: int, number: int, autocluster: int) -> None:
        wish = Wish(f"slot{number}@bench", f"{number}:1", number + 1, [(autocluster, 0)], [1.0], SAME)
        ended = None
        while True:
            row, _ = await self.chains.next(host_id, ended, wish, lease_s=1800.0, timeout_s=10.0)
            assert row.ended and row.problem is None, row
            self.ended += ended is not None
            if row.run_id is None:
                break
            ended = (row.run_id, str(row.token), REPORT)

    def _took(self, autocluster: int, prio: int, position: int) -> None:
        self.hint = max(self.hint, position)

    async def _claimed(self, host_id: int, number: int, autocluster: int) -> matching.Claimed | None:
        """Return the slot's next job, claimed together with those of slots that wait at the same moment."""
        claimed: asyncio.Future[matching.Claimed | None] = asyncio.get_running_loop().create_future()
        self.waiting.append((number, claimed))
        if self.round is None or self.round.done():
            self.round = asyncio.ensure_future(self._rounds(host_id, autocluster))
        return await claimed

    async def _rounds(self, host_id: int, autocluster: int) -> None:
        await asyncio.sleep(0)
        while self.waiting:
            slots, self.waiting = self.waiting, []
            rows = await self.database.run(
                matching.claim_many(
                    host_id=host_id,
                    autoclusters=[autocluster],
                    prios=[0],
                    hints=[self.hint],
                    slots=[
                        {"slot": f"slot{number}@bench", "exclusive": True, "choices": [1], "weights": 1.0}
                        for number, _ in slots
                    ],
                    offer_s=60.0,
                    lease_s=1800.0,
                )
            )
            got = {row.slot_number: row for row in rows}
            for n, (_, claimed) in enumerate(slots, 1):
                row = got.get(n)
                assert row is None or row.problem is None, row
                if row is not None and row.position is not None:
                    self.hint = max(self.hint, row.position)
                claimed.set_result(row)


def ours(server: PostgresServer, jobs: int, *, chained: bool) -> tuple[Measured, float]:
    """Submit and work off this many jobs; return the measurement, and this process's CPU in ms for a job."""
    name = "ours"
    server.query(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    server.create_database(name)
    conninfo = server.conninfo(name)
    schema.init(conninfo)
    begin = time.perf_counter()
    with Queue(conninfo) as queue:
        queue.submit([{"Cmd": "/bin/true", "Owner": "alice"}] * jobs)
    submit_s = time.perf_counter() - begin
    server.query("VACUUM ANALYZE", name)
    own = time.process_time()
    seconds, cpu_s = timed(server, lambda: asyncio.run(Slots(conninfo, chained=chained).work(jobs)))
    own_ms = (time.process_time() - own) / jobs * 1000
    return Measured(jobs / submit_s, jobs / seconds, cpu_s / jobs * 1000), own_ms


def main() -> None:
    parser = frame.parser(__doc__)
    parser.add_argument("--jobs", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without-peers", action="store_true")
    options = parser.parse_args()
    peers = None if options.without_peers else Peers()
    there = peers.available() if peers else []
    found: dict[str, list[Measured]] = {}
    client_ms: dict[str, list[float]] = {}
    with frame.server(SETTINGS) as (server, _):
        print(
            f"PostgreSQL {server.version}, durable, {SETTINGS};"
            f" {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        )
        print(f"{options.jobs} no-op jobs, {SLOTS} at a time", flush=True)
        for _ in range(options.rounds):
            for name, chained in ((OURS, True), (BY_HOOKS, False)):
                measured, own_ms = ours(server, options.jobs, chained=chained)
                found.setdefault(name, []).append(measured)
                client_ms.setdefault(name, []).append(own_ms)
            for peer in list(there):
                try:
                    assert peers is not None
                    found.setdefault(peer.name, []).append(peers.measure(peer, server, options.jobs, SLOTS))
                except PeerFailed as error:
                    print(f"MISSING: {peer.name} fails: {error}", file=sys.stderr)
                    there.remove(peer)
                    found.pop(peer.name)
    without = {peer.name: f"without {peer.without}" for peer in there}
    for name, runs in found.items():
        rates = [run.jobs_per_s for run in runs]
        cpu_ms = statistics.median(run.server_cpu_ms for run in runs)
        print(
            f"  {name:<28} {statistics.median(rates):6.0f} ({min(rates):.0f}-{max(rates):.0f}) jobs/s,"
            f" server {cpu_ms:.2f} ms a job  {without.get(name, '')}"
        )
    for name, own in client_ms.items():
        print(f"  {name}: client {statistics.median(own):.2f} ms a job")
    if peers is not None:
        for missing in peers.missing:
            print(f"MISSING, not compared with: {missing}", file=sys.stderr)
    median = {name: statistics.median(run.jobs_per_s for run in runs) for name, runs in found.items()}
    single = [median[peer.name] for peer in there if peer.one_by_one]
    fast = [median[peer.name] for peer in there if peer.name in ("awa-pg", "graphile-worker")]
    print(f"cycle server cpu ms: {statistics.median(run.server_cpu_ms for run in found[OURS]):.2f}")
    if single:
        print(f"cycle over best one-by-one peer: {median[OURS] / max(single):.2f}")
    if fast:
        print(f"cycle over fastest peer: {median[OURS] / max(fast):.2f}")


if __name__ == "__main__":
    main()
