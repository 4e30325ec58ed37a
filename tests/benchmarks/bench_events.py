"""Events: from commit to a waiting reader, reading a million of them, and the cost of writing them for a job.

    make bench-events
    python tests/benchmarks/bench_events.py --events 100000 --seconds 5

1. 1 000 events a second are written, each in a transaction of its own that is committed at once; a waiting
reader notes the arrival of each. The time runs from the moment before COMMIT is sent, on one clock.
2. One reader reads 1 000 000 events from a cursor, through ``Queue.events``, and touches each.
3. A job's claim, accept, start and finish, with and without the two events that they write: rounds in turn,
   the median of the ratios. A claim itself writes no event. Meanwhile events are put into the stream, as the
   leading agent does.

The last line is the median latency; the goals are 20 ms, 100 000 events/s and 10 percent.
"""

import re
import statistics
import threading
import time
from typing import LiteralString

import psycopg

from fetchwork.db.sequencing import SHORTEST_PAUSE_S
from fetchwork.pool.postgres import PostgresServer
from fetchwork.queue import Queue
from tests.benchmarks import frame
from tests.support.many_jobs import unlimited

RATE = 1000
SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "15min"}

# one job after the other, as a slot would run them: in PL/pgSQL, so that only the database is measured
WAY = """
CREATE FUNCTION bench_way(jobs integer, kind integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    its record;
BEGIN
    FOR n IN 1 .. jobs LOOP
        SELECT * INTO its FROM fetchwork.claim(1, 'slot' || kind || '@bench', ARRAY[kind], ARRAY[0], ARRAY[0::bigint]);
        IF its.run_id IS NULL THEN
            RAISE 'no job is left';
        END IF;
        PERFORM fetchwork.accept(its.run_id, its.token);
        PERFORM fetchwork.start(its.run_id, its.token, 'bench:' || n);
        PERFORM fetchwork.finish(its.run_id, its.token, 'exit', '{"ExitCode": 0, "JobPid": 1, "ExitBySignal": false, "JobDuration": 60}');
    END LOOP;
END
$$;
"""  # noqa: E501
# the functions that write events in these steps, and their statements that do
WRITERS = ("start_runs", "finish_runs")
WRITES = re.compile(r"(told AS \(\s+INSERT INTO fetchwork\.event .*?)(\n    \))", re.S)


def latencies(conninfo: str, seconds: float) -> list[float]:
    """Milliseconds from commit to arrival, for RATE events a second."""
    sent: dict[int, float] = {}
    arrived: dict[int, float] = {}
    total = int(RATE * seconds)
    with Queue(conninfo) as queue:
        start = queue.cursor()

    def read() -> None:
        with Queue(conninfo) as queue:
            for event in queue.events(after=start, stop_after=seconds + 30):
                arrived[event.proc] = time.perf_counter()
                if len(arrived) == total:
                    return

    reader = threading.Thread(target=read)
    reader.start()
    with psycopg.connect(conninfo) as connection:
        begin = time.perf_counter()
        for n in range(total):
            delay = begin + n / RATE - time.perf_counter()
            if delay > 0:
                time.sleep(delay)
            connection.execute(
                "INSERT INTO fetchwork.event (event_type, cluster_id, proc_id) VALUES (8, 1, %s)", [n]
            )
            sent[n] = time.perf_counter()
            connection.commit()
    reader.join()
    return [(arrived[n] - sent[n]) * 1000 for n in arrived]


def reading_rate(conninfo: str, count: int) -> float:
    """Events a second that one reader reads."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        with Queue(conninfo) as queue:
            start = queue.cursor()
        connection.execute(
            "INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, info)"
            " SELECT CASE WHEN n %% 3 = 0 THEN 5 ELSE 1 END, n / 1000 + 1, n %% 1000, '{\"ReturnValue\": 0}'"
            " FROM generate_series(1, %s) AS n",
            [count],
        )
        begin = time.perf_counter()
        connection.execute("SELECT fetchwork.sequence_events()")
        print(f"putting them into the stream at once: {count / (time.perf_counter() - begin):.0f} events/s")
        connection.execute("VACUUM ANALYZE fetchwork.event")
    with Queue(conninfo) as queue:
        begin = time.perf_counter()
        seen = ended = 0
        for event in queue.events(after=start, stop_after=0):
            seen += 1
            ended += event.type_number == 5
        taken = time.perf_counter() - begin
    assert (seen, ended) == (count, count // 3)
    return count / taken


def cost_of_writing(conninfo: str, server: PostgresServer, rounds: int, jobs: int) -> float:
    """The longer time of a job's steps with events, in percent: the median over rounds."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(WAY)
        versions = _versions(connection)
        connection.execute("SELECT fetchwork.hello('bench', '1', gen_random_uuid())")
        for kind in range(1, 3):
            connection.execute(
                "SELECT fetchwork.submit_cluster(jsonb_build_object('Cmd', '/bin/true', 'Owner',"
                " 'alice', 'RequestMemory', %s::integer),"
                " array_fill('{}'::jsonb, ARRAY[%s]))",
                [100 + kind, jobs * (2 * rounds + 2)],
            )
        connection.execute("VACUUM ANALYZE")
        ratios = []
        for number in range(rounds + 1):
            taken = {}
            for switch in (("with", "without"), ("without", "with"))[number % 2]:
                for definition in versions[switch]:
                    connection.execute(definition)
                taken[switch] = _way(server, conninfo, jobs)
            # the first round warms up
            if number:
                ratios.append(taken["with"] / taken["without"] - 1)
                print(
                    f"  round {number}: with events {jobs * 2 / taken['with']:.0f} jobs/s, without"
                    f" {jobs * 2 / taken['without']:.0f} jobs/s",
                    flush=True,
                )
    return statistics.median(ratios) * 100


def _versions(connection: psycopg.Connection) -> dict[str, list[LiteralString]]:
    """The functions as they are, and a version whose statements write no row."""
    versions: dict[str, list[LiteralString]] = {"with": [], "without": []}
    for name in WRITERS:
        row = connection.execute("SELECT pg_get_functiondef(%s::regproc)", [f"fetchwork.{name}"]).fetchone()
        assert row is not None
        without, count = WRITES.subn(r"\1 LIMIT 0\2", row[0])
        assert count == 1, f"{name} writes events in {count} statements"
        versions["with"].append(row[0])
        versions["without"].append(without)
    return versions


def _way(server: PostgresServer, conninfo: str, jobs: int) -> float:
    """Seconds in which two sessions take this many jobs each through all steps."""
    begin = time.perf_counter()

    def drive(kind: int) -> None:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            # as many transactions as real steps have would wait for the disk, which hides the cost; so none
            # waits
            connection.execute("SET synchronous_commit = off")
            connection.execute("SELECT bench_way(%s, %s)", [jobs, kind])

    done = threading.Event()

    def sequence() -> None:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            since = None
            while not done.wait(SHORTEST_PAUSE_S):
                row = connection.execute(
                    "SELECT until FROM fetchwork.sequence_events(%s)", [since]
                ).fetchone()
                assert row is not None
                (since,) = row

    sequencer = threading.Thread(target=sequence)
    sequencer.start()
    threads = [threading.Thread(target=drive, args=[kind]) for kind in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.perf_counter() - begin
    done.set()
    sequencer.join()
    return taken


def main() -> None:
    parser = frame.parser(__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=2000, help="in a round, for each of two sessions")
    arguments = parser.parse_args()
    with frame.server(SETTINGS) as (server, _):
        conninfo = frame.new_database(server)
        unlimited(conninfo)
        print("a job's way with and without its events:", flush=True)
        cost = cost_of_writing(conninfo, server, arguments.rounds, arguments.jobs)
        print(f"  events cost {cost:.1f} percent of a job's way; of a claim nothing, it writes none")
        waited = sorted(latencies(conninfo, arguments.seconds))
        median, last = statistics.median(waited), waited[int(len(waited) * 0.99)]
        print(
            f"{RATE} events/s: {len(waited)} arrived, median {median:.1f} ms, 99 percent within {last:.1f} ms"
        )
        rate = reading_rate(conninfo, arguments.events)
        print(f"reading {arguments.events} events from a cursor: {rate:.0f} events/s")
    print(f"\nevent latency ms: {median:.1f}")


if __name__ == "__main__":
    main()
