"""100 000 jobs submitted by one client, beside pg-boss on the same server.

    make bench-submit
    python tests/benchmarks/bench_submit.py --jobs 20000 --rounds 1

Four ways: equal jobs, and jobs with arguments of their own; by the SQL function submit_cluster, with the ads
as one parameter, and by Queue.submit, from a list of ads. Each call is one durable transaction (Queue.submit
sends 5 000 jobs at a time in it). Beside them, without a goal: a submit description, which HTCondor's
bindings read job by job, and pg-boss, with 1 000 jobs an insert, each a transaction of its own. Rounds of all
sides alternate; each has a new database.

Then one job a call, with a key and without one in turn: a key may add 3 %.

Then late clusters (max_materialize, max_idle): the seconds that a description of 10 000 000 jobs takes, and
jobs a second of 8 slots that claim, start and end the jobs of a late cluster, which are made meanwhile, over
those for a cluster whose jobs are there already. Once with a call for each step (hooks), once with chains;
the smaller ratio counts.

The last lines are the slowest of the four medians, and those of late clusters; the goals are 40 000, 5, 0.9.
"""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Callable

import psycopg

from fetchwork.pool.postgres import PostgresServer
from fetchwork.queue import Queue
from tests.benchmarks import bench_cycle, frame
from tests.benchmarks.peers import PEERS, PeerFailed, Peers

SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "15min"}
COMMON = {"Cmd": "/bin/true", "Owner": "alice", "RequestCpus": 1, "RequestMemory": 128}
LIMITS = ("max_jobs_per_owner", "max_jobs_per_submission")


def own_ads(jobs: int, *, alike: bool) -> list[dict[str, str]]:
    """Each job's own attributes beside the common ones."""
    return [{} if alike else {"Args": f"--seed {n} --out result-{n}"} for n in range(jobs)]


def by_function(conninfo: str, jobs: int, *, alike: bool) -> float:
    """Seconds that submit_cluster takes, including the time to make its parameter."""
    own = own_ads(jobs, alike=alike)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        begin = time.perf_counter()
        connection.execute(
            "SELECT fetchwork.submit_cluster(%s::jsonb, %s::jsonb[])",
            [json.dumps(COMMON), [json.dumps(ad) for ad in own]],
        )
        return time.perf_counter() - begin


def by_queue(conninfo: str, jobs: int, *, alike: bool) -> float:
    """Seconds that Queue.submit takes for ads."""
    ads = [{**COMMON, **own} for own in own_ads(jobs, alike=alike)]
    with Queue(conninfo) as queue:
        begin = time.perf_counter()
        result = queue.submit(ads)
        taken = time.perf_counter() - begin
    assert result.num_procs() == jobs
    return taken


def by_description(conninfo: str, jobs: int, *, alike: bool) -> float:
    """Seconds that Queue.submit takes for a submit description."""
    arguments = "" if alike else "arguments = --seed $(Process) --out result-$(Process)\n"
    description = f"executable = /bin/true\nrequest_memory = 128\n{arguments}queue {jobs}\n"
    with Queue(conninfo) as queue:
        begin = time.perf_counter()
        result = queue.submit(description, owner="alice")
        taken = time.perf_counter() - begin
    assert result.num_procs() == jobs
    return taken


FOUR: dict[str, Callable[[str, int], float]] = {
    "submit_cluster, alike": lambda conninfo, jobs: by_function(conninfo, jobs, alike=True),
    "submit_cluster, own arguments": lambda conninfo, jobs: by_function(conninfo, jobs, alike=False),
    "Queue.submit, alike": lambda conninfo, jobs: by_queue(conninfo, jobs, alike=True),
    "Queue.submit, own arguments": lambda conninfo, jobs: by_queue(conninfo, jobs, alike=False),
}
BESIDE: dict[str, Callable[[str, int], float]] = {
    "a description, own arguments": lambda conninfo, jobs: by_description(conninfo, jobs, alike=False),
}


def measure(server: PostgresServer, jobs: int, submit: Callable[[str, int], float]) -> float:
    """Jobs a second, into a new database."""
    server.query("DROP DATABASE IF EXISTS ours WITH (FORCE)")
    conninfo = frame.new_database(server)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for name in LIMITS:
            connection.execute("SELECT fetchwork.set_setting(%s, %s)", [name, 10 * jobs])
        rate = jobs / submit(conninfo, jobs)
        row = connection.execute(
            "SELECT count(*) FROM fetchwork.waiting AS w JOIN fetchwork.job USING (cluster_id, proc_id)"
        ).fetchone()
        assert row == (jobs,), row
    return rate


def cost_of_key(server: PostgresServer, pairs: int) -> str:
    """Microseconds of a submission of one job by SQL without and with a key: medians of calls in turn."""
    conninfo = frame.new_database(server)
    taken: dict[bool, list[float]] = {False: [], True: []}
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SELECT fetchwork.set_setting('max_jobs_per_owner', %s)", [3 * pairs])
        for number in range(pairs):
            for has_key in (number % 2 == 0, number % 2 == 1):
                begin = time.perf_counter()
                connection.execute(
                    "SELECT fetchwork.submit_cluster(%s::jsonb, ARRAY['{}'::jsonb], key => %s)",
                    [json.dumps(COMMON), f"key {number}" if has_key else None],
                )
                taken[has_key].append((time.perf_counter() - begin) * 1e6)
    without, with_key = statistics.median(taken[False]), statistics.median(taken[True])
    return f"{without:.0f} and {with_key:.0f} us: a key adds {100 * (with_key / without - 1):.1f} %"


def late_cluster(server: PostgresServer, jobs: int) -> float:
    """Seconds that Queue.submit takes for the description of a late cluster."""
    server.query("DROP DATABASE IF EXISTS ours WITH (FORCE)")
    description = (
        "executable = /bin/true\narguments = --seed $(Process) --out result-$(Process)\n"
        f"max_materialize = 5000\nmax_idle = 1000\nqueue {jobs}\n"
    )
    with Queue(frame.new_database(server)) as queue:
        begin = time.perf_counter()
        result = queue.submit(description, owner="alice")
        taken = time.perf_counter() - begin
        assert result.num_procs() == jobs
    return taken


def worked_off(server: PostgresServer, jobs: int, *, late: bool, chained: bool) -> float:
    """Jobs a second of slots that work off a cluster."""
    server.query("DROP DATABASE IF EXISTS ours WITH (FORCE)")
    conninfo = frame.new_database(server)
    description = "executable = /bin/true\narguments = --seed $(Process) --out result-$(Process)\n"
    if late:
        description += "max_idle = 1000\n"
    with Queue(conninfo) as queue:
        queue.submit(f"{description}queue {jobs}\n", owner="alice")
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    begin = time.perf_counter()
    asyncio.run(bench_cycle.Slots(conninfo, chained=chained).work(jobs))
    return jobs / (time.perf_counter() - begin)


def main() -> None:
    parser = frame.parser(__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--late-jobs", type=int, default=10_000_000)
    parser.add_argument("--claims", type=int, default=6000)
    parser.add_argument("--without-peers", action="store_true")
    options = parser.parse_args()
    peers = None if options.without_peers else Peers()
    boss = [peer for peer in PEERS if peer.name == "pg-boss" and peers and peer in peers.available()]
    rates: dict[str, list[float]] = {}
    late_s: list[float] = []
    claims: dict[tuple[bool, bool], list[float]] = {}
    with frame.server(SETTINGS) as (server, _):
        load = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        print(f"PostgreSQL {server.version}, durable, {SETTINGS}; {load}")
        print(f"{options.jobs} jobs by one client", flush=True)
        for _ in range(options.rounds):
            for name, submit in (FOUR | BESIDE).items():
                rates.setdefault(name, []).append(measure(server, options.jobs, submit))
            for peer in boss:
                try:
                    assert peers is not None
                    rates.setdefault(peer.name, []).append(peers.submit(peer, server, options.jobs))
                except PeerFailed as error:
                    print(f"MISSING: {peer.name} fails: {error}", file=sys.stderr)
                    boss = []
            late_s.append(late_cluster(server, options.late_jobs))
            for chained in (False, True):
                for late in (False, True):
                    rate = worked_off(server, options.claims, late=late, chained=chained)
                    claims.setdefault((chained, late), []).append(rate)
        key = cost_of_key(server, max(options.jobs // 50, 10))
    for name, found in rates.items():
        print(f"  {name:<30} {statistics.median(found):7.0f} ({min(found):.0f}-{max(found):.0f}) jobs/s")
    print(f"  one job a call                 {key}")
    if peers is not None and not boss:
        print("MISSING, not compared with: pg-boss", file=sys.stderr)
    for (chained, late), found in claims.items():
        name = f"worked off by {'chains' if chained else 'hooks'}, {'late' if late else 'plain'}"
        print(f"  {name:<30} {statistics.median(found):7.0f} ({min(found):.0f}-{max(found):.0f}) jobs/s")
    median = {which: statistics.median(found) for which, found in claims.items()}
    print(f"submitted jobs per second: {min(statistics.median(rates[name]) for name in FOUR):.0f}")
    print(f"late cluster of {options.late_jobs} s: {statistics.median(late_s):.2f}")
    over = min(median[chained, True] / median[chained, False] for chained in (False, True))
    print(f"late claims over plain: {over:.2f}")


if __name__ == "__main__":
    main()
