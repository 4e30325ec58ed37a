"""Claims per second, beside a plain one-row UPDATE on the same server in the same run.

    make bench-claims                      # 1 000, 100 000 and 1 000 000 waiting jobs
    python tests/benchmarks/bench_claims.py --sizes 1000,100000 --rounds 5

A claim is the agent's call of ``fetchwork.claim``, with the position at which the autocluster's live rows
probably begin. pgbench drives both sides with 8 clients; each client keeps its hint for each of the 100
autoclusters (of 20 submitters) from claim to claim, as an agent does. The rounds of all sides alternate, so
that a slow minute of the machine affects all of them. Meanwhile a ninth connection requeues the claimed jobs
every 20 ms, as jobs that come back, so that the stated number of jobs goes on waiting; its cost counts
against the claims.

Then the same behind a transaction that stays open while 200 000 jobs pass through, so that no row that died
since can be vacuumed; and then the whole path: 8 slots at a time ask a real agent by its socket and get a
printed ad. Durable server, default settings but for those printed.
"""

import asyncio
import json
import re
import statistics
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg

from fetchwork.agent.client import ask
from fetchwork.db import schema
from fetchwork.hook import wire
from fetchwork.pool import hostfile
from fetchwork.pool.postgres import PostgresServer
from fetchwork.simulate.agents import AgentProcess
from tests.benchmarks import frame
from tests.support.many_jobs import unlimited

CLIENTS = 8
AUTOCLUSTERS = 100
OWNERS = 20
SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "15min"}
UPDATE = "\\set id random(1, 1000000)\nUPDATE plain SET n = n + 1 WHERE id = :id;\n"
PUT_BACK = """
WITH gone AS (
    DELETE FROM fetchwork.run RETURNING cluster_id, proc_id, autocluster_id
),
back AS (
    INSERT INTO fetchwork.waiting (autocluster_id, job_prio, position, cluster_id, proc_id)
    SELECT autocluster_id, 0, nextval('fetchwork.position'), cluster_id, proc_id FROM gone
)
SELECT count(fetchwork.ensure_demand(d.autocluster_id, 0))
FROM (SELECT DISTINCT autocluster_id FROM gone) AS d
"""
DROP_CLAIMED = """
WITH gone AS (
    DELETE FROM fetchwork.run RETURNING cluster_id, proc_id
)
DELETE FROM fetchwork.job AS j USING gone WHERE j.cluster_id = gone.cluster_id AND j.proc_id = gone.proc_id
"""
SLOT_AD = Path(__file__).parent.parent / "data/ads/23.9.6-fetch_work-static-unclaimed.ad"


def claim_script(autocluster: int) -> str:
    """One transaction of pgbench: a claim from one autocluster, which keeps its hint for the next."""
    hint = f"h{autocluster}"
    return (
        "\\set slot random(1, 1000000000)\n"
        f"SELECT coalesce(max(position), :{hint}) AS {hint}"
        f" FROM fetchwork.claim(1, 'slot' || :slot, ARRAY[{autocluster}], ARRAY[0],"
        f" ARRAY[:{hint}]::bigint[]) \\gset\n"
    )


class Bench:
    """One server with jobs in its queue, and pgbench against it."""

    def __init__(self, server: PostgresServer, scripts: Path) -> None:
        self.server = server
        self.conninfo = server.conninfo("postgres")
        self.connection = psycopg.connect(self.conninfo, autocommit=True)
        self.scripts = scripts
        (scripts / "update.sql").write_text(UPDATE)
        for autocluster in range(1, AUTOCLUSTERS + 1):
            (scripts / f"claim{autocluster}.sql").write_text(claim_script(autocluster))

    def prepare(self) -> None:
        schema.init(self.conninfo)
        unlimited(self.conninfo)
        self.connection.execute("SELECT fetchwork.hello('bench', '1', gen_random_uuid())")
        self.connection.execute(
            "CREATE TABLE plain AS SELECT id, 0 AS n FROM generate_series(1, 1000000) AS id"
        )
        self.connection.execute("ALTER TABLE plain ADD PRIMARY KEY (id)")
        self.connection.execute("VACUUM ANALYZE plain")

    def fill(self, jobs: int) -> float:
        """Submit until that many jobs wait; returns jobs submitted a second."""
        there = self.connection.execute("SELECT count(*) FROM fetchwork.waiting").fetchone()[0]  # type: ignore[index]
        more = jobs - there
        begin = self.connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()[0]  # type: ignore[index]
        for kind in range(AUTOCLUSTERS):
            common = {
                "Cmd": "/bin/true",
                # an account that every host has; shares go by accounting group
                "Owner": "nobody",
                "AccountingGroup": f"group{kind % OWNERS}.nobody",
                "RequestCpus": 1,
                "RequestMemory": 128 + kind,
            }
            self.connection.execute(
                "SELECT fetchwork.submit_cluster(%s, array_fill('{}'::jsonb, ARRAY[%s]))",
                [json.dumps(common), max(1, more // AUTOCLUSTERS)],
            )
        end = self.connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()[0]  # type: ignore[index]
        self.connection.execute("SELECT fetchwork.fold()")
        self.connection.execute(
            "VACUUM ANALYZE fetchwork.waiting, fetchwork.job, fetchwork.cluster, fetchwork.run"
        )
        return more / (end - begin)

    def put_back(self, until: threading.Event) -> None:
        """Requeue the claimed jobs at the end every 20 ms; runs in a thread."""
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            while not until.wait(0.02):
                connection.execute(PUT_BACK)

    def drop_claimed(self) -> None:
        """Delete the claimed jobs for good."""
        self.connection.execute(DROP_CLAIMED)

    def first_places(self) -> dict[int, int]:
        """The position just below each autocluster's first live row, the hint of a long-running agent."""
        rows = self.connection.execute(
            "SELECT autocluster_id, min(position) - 1 FROM fetchwork.waiting GROUP BY 1"
        ).fetchall()
        return dict(rows)

    def claims(self, seconds: int) -> float:
        """Claims per second while claimed jobs are requeued."""
        stop = threading.Event()
        feeder = threading.Thread(target=self.put_back, args=[stop])
        feeder.start()
        try:
            return self.run(CLAIMS, ["-T", str(seconds)], hints=self.first_places())
        finally:
            stop.set()
            feeder.join()

    def run(self, scripts: list[str], length: list[str], *, hints: dict[int, int] | None = None) -> float:
        """Transactions per second of one pgbench call, without the time to connect."""
        command = [
            str(self.server.programs / "pgbench"),
            "-n",
            "-c",
            str(CLIENTS),
            "-j",
            "2",
            "-M",
            "prepared",
        ]
        command += length
        for name in scripts:
            command += ["-f", str(self.scripts / name)]
        for autocluster in range(1, AUTOCLUSTERS + 1):
            command += ["-D", f"h{autocluster}={(hints or {}).get(autocluster, 0)}"]
        told = subprocess.run([*command, self.conninfo], capture_output=True, text=True, check=False)
        if told.returncode != 0:
            raise SystemExit(f"pgbench failed: {told.stderr[-600:]}")
        found = re.search(r"tps = ([\d.]+)", told.stdout)
        assert found, told.stdout
        return float(found[1])


CLAIMS = [f"claim{autocluster}.sql" for autocluster in range(1, AUTOCLUSTERS + 1)]


def spread(rates: list[float]) -> str:
    """Median, and from lowest to highest."""
    return f"{statistics.median(rates):.0f} ({min(rates):.0f}-{max(rates):.0f})"


def measure(bench: Bench, size: int, rounds: int, seconds: int) -> tuple[float, float]:
    """Median of claims a second, and of their ratio to updates round by round."""
    claims, updates = [], []
    for _ in range(rounds):
        updates.append(bench.run(["update.sql"], ["-T", str(seconds)]))
        claims.append(bench.claims(seconds))
    ratio = statistics.median(c / u for c, u in zip(claims, updates, strict=True))
    print(
        f"{size:>9} waiting: {spread(claims)} claims/s, {spread(updates)} UPDATE/s, ratio {ratio:.2f}",
        flush=True,
    )
    return statistics.median(claims), ratio


def pass_through(bench: Bench, jobs: int) -> None:
    """Claim and end this many jobs."""
    for _ in range(10):
        bench.run(CLAIMS, ["-t", str(jobs // 10 // CLIENTS)], hints=bench.first_places())
        bench.drop_claimed()


def through_agent(bench: Bench, seconds: int) -> float:
    """Claims per second of a real agent: 8 slots at a time send their ads and get a job's ad."""
    agent = AgentProcess(bench.scripts, "bench-agent", bench.conninfo, keyword={"max_fetch_wait_s": 0})
    text = SLOT_AD.read_text()
    name = re.compile(r"^Name = .*$", re.M)
    stop = threading.Event()

    def slots(client: int) -> int:
        """Claims of one client until it is stopped."""
        got = 0
        while not stop.is_set():
            ad = name.sub(f'Name = "slot{client}_{got}@bench-agent"', text).encode()
            request = wire.Request("fetch_work", ad, keyword=hostfile.KEYWORD, deadline_ms=10_000)
            reply = ask(agent.socket, request, 15.0)
            assert not reply.code, reply
            got += b"FetchWorkRunId" in reply.body
        return got

    asyncio.run(agent.start())
    try:
        with ThreadPoolExecutor(CLIENTS + 1) as threads:
            feeder = threads.submit(bench.put_back, stop)
            claims = [threads.submit(slots, client) for client in range(CLIENTS)]
            stop.wait(seconds)
            stop.set()
            feeder.result()
            return sum(each.result() for each in claims) / seconds
    finally:
        stop.set()
        asyncio.run(agent.stop())


def main() -> None:
    parser = frame.parser(__doc__)
    parser.add_argument("--sizes", default="1000,100000,1000000")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=5, help="length of each round of each side")
    parser.add_argument(
        "--passed", type=int, default=200_000, help="jobs that pass through behind the open transaction"
    )
    options = parser.parse_args()
    with frame.server(SETTINGS) as (server, directory):
        bench = Bench(server, directory)
        bench.prepare()
        print(f"durable PostgreSQL, {SETTINGS}, {CLIENTS} clients, {AUTOCLUSTERS} kinds, {OWNERS} owners")
        rates, ratios = {}, {}
        for size in sorted(int(size) for size in options.sizes.split(",")):
            speed = bench.fill(size)
            print(f"          submitted at {speed:.0f} jobs/s")
            rates[size], ratios[size] = measure(bench, size, options.rounds, options.seconds)

        pass_through(bench, options.passed)
        free = [bench.claims(options.seconds) for _ in range(options.rounds)]
        with psycopg.connect(bench.conninfo) as old:
            old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            old.execute("SELECT count(*) FROM fetchwork.demand")
            pass_through(bench, options.passed)
            held = [bench.claims(options.seconds) for _ in range(options.rounds)]
        print(f"after {options.passed} jobs: {spread(free)} claims/s, behind a transaction {spread(held)}")
        print(f"by way of one agent: {through_agent(bench, options.seconds * 2):.0f} claims/s")
    print(f"claims spread over sizes: {1 - min(rates.values()) / max(rates.values()):.2f}")
    print(f"claims behind an open transaction: {statistics.median(held) / statistics.median(free):.2f}")
    print(f"claims per update: {min(ratios.values()):.2f}")


if __name__ == "__main__":
    main()
