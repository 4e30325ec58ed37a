"""Snapshots of a queue with 1 000 000 jobs and 5 000 000 in history; and `fetchwork q` beside `condor_q`.

    make bench-tracking
    python tests/benchmarks/bench_tracking.py --jobs 100000 --history 500000 --without-condor
    python tests/benchmarks/bench_tracking.py --only-condor

First, at the database: the time of each query that people and programs make, the median of 15 answers, and
the memory that ``xquery`` over everything needs. The jobs are 20 owners' in 200 autoclusters and 2 000
batches, some held; 3 000 run. The history is that of the last day. Jobs and history are written as rows, not
submitted, because that would take an hour; the rows equal those that the schema's functions write.

Then, if HTCondor is available: a real schedd and fetchwork each hold 10 000 idle jobs in one pool, and each
tool is called ten times in turn, from start to exit; a tool that does not print the answer ends the
benchmark.

The last line is the slowest query's median; the goal is 15 ms. With ``--only-condor`` it is the median of
``fetchwork q`` for one job's state.
"""

import re
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg

from fetchwork.errors import HTCondorUnavailable
from fetchwork.pool import PersonalPool
from fetchwork.queue import Queue
from fetchwork.queue.reading import summaries
from fetchwork.queue.reading.query import query
from tests.benchmarks import frame
from tests.support.sessions import session_of

SETTINGS = {"shared_buffers": "2GB", "max_wal_size": "16GB", "checkpoint_timeout": "30min"}
OWNERS = 20
KINDS = 200
CLUSTER = 500  # jobs in a cluster
RUNNING = 3000

# slots that run nothing, so that both queues stay as they are; a pool lets no user submit to a schedd
CONDOR = """
DAEMON_LIST = $(DAEMON_LIST) SCHEDD
START = false
ALLOW_WRITE = $(ALLOW_WRITE), alice@$(UID_DOMAIN)
"""
DESCRIPTION = """
executable = /bin/sleep
arguments = $(Process)
initialdir = /tmp
log = /dev/null
queue {}
"""

FILL = """
INSERT INTO fetchwork.submitter (name) SELECT 'owner' || n FROM generate_series(0, {owners} - 1) AS n;

INSERT INTO fetchwork.autocluster (signature, owner, submitter, queue, request_cpus, request_memory_mib, ad)
SELECT md5(n::text)::uuid, 'owner' || n % {owners}, 'owner' || n % {owners}, 'default', 1, 128 + n,
    jsonb_build_object('RequestCpus', 1, 'RequestMemory', 128 + n)
FROM generate_series(1, {kinds}) AS n;

INSERT INTO fetchwork.batch (owner, name)
SELECT 'owner' || n % {owners}, 'batch' || n FROM generate_series(0, 1999) AS n;

INSERT INTO fetchwork.cluster (cluster_id, ad, submitted_by)
SELECT n, jsonb_build_object('Cmd', '/bin/sleep', 'Owner', 'owner' || n % {owners}, 'Iwd', '/home/owner', 'Out', 'out', 'Err', 'err',
    'Requirements', '/Expr(TARGET.Arch == "X86_64" && TARGET.Memory >= RequestMemory)/', 'RequestMemory', 128 + n % {kinds},
    'JobBatchName', 'batch' || n % 2000), 'bench'
FROM generate_series(1, ({jobs} + {history}) / {cluster}) AS n;

INSERT INTO fetchwork.host (name) SELECT 'ep' || n FROM generate_series(1, 100) AS n;

INSERT INTO fetchwork.job (cluster_id, proc_id, job_status, autocluster_id, batch_id, owner, queue, q_date, hold_reason, hold_code, hold_subcode, ad)
SELECT c.cluster_id, n, CASE WHEN n % 50 = 0 THEN 5 ELSE 1 END, c.cluster_id % {kinds} + 1, c.cluster_id % 2000 + 1,
    c.ad ->> 'Owner', 'default', now(), CASE WHEN n % 50 = 0 THEN 'no such file' END, CASE WHEN n % 50 = 0 THEN 6 END,
    CASE WHEN n % 50 = 0 THEN 2 END, jsonb_build_object('Args', n::text)
FROM fetchwork.cluster AS c CROSS JOIN generate_series(0, {cluster} - 1) AS n
WHERE c.cluster_id <= {jobs} / {cluster};

INSERT INTO fetchwork.run (cluster_id, proc_id, autocluster_id, host_id, state, job_status, slot, lease, deadline, started_at)
SELECT j.cluster_id, j.proc_id, j.autocluster_id, 1 + j.cluster_id % 100, 'running', 2, 'slot' || j.proc_id || '@ep', interval '1 hour', now() + interval '1 hour', now()
FROM fetchwork.job AS j WHERE j.proc_id = 1 OR j.proc_id = 2 OR j.proc_id = 3 ORDER BY j.cluster_id LIMIT {running};

UPDATE fetchwork.job AS j SET job_status = 2, run_id = r.run_id
FROM fetchwork.run AS r WHERE r.cluster_id = j.cluster_id AND r.proc_id = j.proc_id;

INSERT INTO fetchwork.waiting (autocluster_id, job_prio, position, cluster_id, proc_id)
SELECT j.autocluster_id, 0, nextval('fetchwork.position'), j.cluster_id, j.proc_id FROM fetchwork.job AS j WHERE j.job_status = 1;

INSERT INTO fetchwork.job_history (
    cluster_id, proc_id, job_status, job_prio, autocluster_id, batch_id, q_date, completed_at, first_start_at, last_start_at,
    num_starts, num_completions, num_holds, num_not_started, num_evicted, num_lost, wall_s, user_cpu_s, sys_cpu_s,
    exit_by_signal, exit_code, slot, owner, queue, facts, ad)
SELECT c.cluster_id, n, 4, 0, c.cluster_id % {kinds} + 1, c.cluster_id % 2000 + 1, d.at - make_interval(secs => 13 * n), d.at, d.at - make_interval(secs => 10 * n), d.at - make_interval(secs => 10 * n),
    1, 1, 0, 0, 0, 0, 60, 1, 1, false, CASE WHEN n % 50 = 7 THEN 1 ELSE 0 END, 'slot1@ep', c.ad ->> 'Owner', 'default',
    '{{"LastJobStatus": 2, "LastMatchTime": 1700000000, "LastRemoteHost": "slot1@ep", "LastRemoteWallClockTime": 60.0, "CommittedTime": 60}}',
    jsonb_build_object('Args', n::text)
FROM fetchwork.cluster AS c CROSS JOIN generate_series(0, {cluster} - 1) AS n
CROSS JOIN LATERAL (SELECT now() - make_interval(secs => 86400.0 * (c.cluster_id - {jobs} / {cluster}) * {cluster} / {history}) AS at) AS d
WHERE c.cluster_id > {jobs} / {cluster} ORDER BY d.at;

INSERT INTO fetchwork.run_history (run_id, cluster_id, proc_id, autocluster_id, owner, host_id, state, outcome, weight, token, slot, claimed_at, started_at, ended_at, report)
SELECT nextval('fetchwork.run_id'), h.cluster_id, h.proc_id, h.autocluster_id, h.owner, 1, 'running', 'completed', 1, gen_random_uuid(), h.slot,
    h.first_start_at, h.first_start_at, h.completed_at, jsonb_build_object('ExitCode', h.exit_code)
FROM fetchwork.job_history AS h;

INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, at, info)
SELECT e, h.cluster_id, h.proc_id, h.completed_at, '{{"ReturnValue": 0}}'
FROM (SELECT * FROM fetchwork.job_history LIMIT {history} / 10) AS h CROSS JOIN unnest(ARRAY[0, 1, 5]) AS e;

INSERT INTO fetchwork.tally (autocluster_id, batch_id, jobs, held, completed, removed)
SELECT autocluster_id, batch_id, sum(jobs), sum(held), sum(completed), 0 FROM (
    SELECT autocluster_id, batch_id, count(*) AS jobs, count(*) FILTER (WHERE job_status = 5) AS held, 0 AS completed FROM fetchwork.job GROUP BY 1, 2
    UNION ALL
    SELECT autocluster_id, batch_id, 0, 0, count(*) FROM fetchwork.job_history GROUP BY 1, 2
) AS t GROUP BY 1, 2;

SELECT setval('fetchwork.cluster_id', ({jobs} + {history}) / {cluster});
"""  # noqa: E501


def fill(conninfo: str, jobs: int, history: int) -> None:
    """Write the rows, and analyze the tables."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        numbers = {
            "jobs": jobs,
            "history": history,
            "cluster": CLUSTER,
            "kinds": KINDS,
            "owners": OWNERS,
            "running": RUNNING,
        }
        for statement in FILL.format(**numbers).split(";\n"):
            if statement.strip():
                connection.execute(statement)
        connection.execute("VACUUM ANALYZE")


def median_ms(question: Callable[[], object], times: int = 15) -> float:
    """The median time of a query, including the answer's way to the client."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        question()
        taken.append((time.perf_counter() - begin) * 1000)
    return statistics.median(taken)


def questions(queue: Queue, jobs: int, history: int) -> dict[str, Callable[[], object]]:
    """The queries that people make."""
    idle = jobs // CLUSTER // 2
    old = (jobs + history) // CLUSTER - 3
    session = session_of(queue)

    def ads(constraint: str, projection: Sequence[str] = ()) -> list[object]:
        return list(session.each(query(constraint, session.memory, projection=projection)))

    return {
        "q --totals": lambda: session.run(summaries.totals()),
        "totals by owner": lambda: session.run(summaries.totals("owner")),
        "totals by autocluster": lambda: session.run(summaries.totals("autocluster")),
        "totals by batch (view)": lambda: session.database.query("SELECT * FROM fetchwork.batches"),
        "one job's state": lambda: ads(f"ClusterId == {idle} && ProcId == 7"),
        "one job's state, by SQL": lambda: session.database.query(
            "SELECT JobStatus FROM fetchwork.jobs WHERE ClusterId = %s AND ProcId = 7", [idle]
        ),
        "one cluster by batch": lambda: list(
            session.items("clusters", constraint=f"ClusterId == {idle}", projection=["Owner", "JobBatchName"])
        ),
        "an owner's held jobs, 100": lambda: list(
            session.each(query('Owner == "owner7" && JobStatus == 5', session.memory, limit=100))
        ),
        "one job's history: ad": lambda: queue.history(f"ClusterId == {old} && ProcId == 7"),
        "one job's history: runs": lambda: queue.runs(f"ClusterId == {old} && ProcId == 7"),
        "one job's history: events": lambda: list(queue.events(job=f"{old}.7", stop_after=0)),
        "the last 20 of history": lambda: queue.history(match=20),
        "running jobs of an owner": lambda: ads(
            'Owner == "owner7" && JobStatus == 2', ["ProcId", "RemoteHost"]
        ),
        "slots": lambda: session.database.query("SELECT * FROM fetchwork.slots"),
        "submitters": lambda: session.database.query("SELECT * FROM fetchwork.submitters"),
    }


def memory_kib() -> int:
    """The peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@dataclass(frozen=True)
class Asked:
    """One question to both tools, and a check that an output is the answer."""

    what: str
    theirs: list[str]
    ours: list[str]
    is_answer: Callable[[str], bool]


def beside_condor(jobs: int, times: int) -> float:
    """Run both tools in turn, in one pool; return the median of one job's state by fetchwork q."""
    with frame.pool(slots=1, config=CONDOR) as pool:
        description = DESCRIPTION.format(jobs)
        place = pool.directory / "tmp" / "sleep.sub"
        place.write_text(description)
        place.chmod(0o644)
        told = pool.run_command(["condor_submit", "-terse", "/tmp/sleep.sub"], user="alice")
        if told.returncode:
            raise SystemExit(f"condor_submit: {told.stderr.strip()}")
        cluster = int(told.stdout.split(".")[0])
        with Queue(pool.conninfo) as queue:
            ours = queue.submit(description, owner="alice").cluster()
        state = 0.0
        print(f"\n{jobs} idle jobs in each, wall time of the whole command, median of {times}:")
        for asked in both_asked(jobs, cluster, ours):
            taken: tuple[list[float], list[float]] = ([], [])
            for _ in range(times):
                for side, command in enumerate((asked.theirs, asked.ours)):
                    taken[side].append(_seconds(pool, command, asked.is_answer))
            theirs, mine = (statistics.median(side) * 1000 for side in taken)
            print(f"  {asked.what:<24} condor_q {theirs:7.0f} ms   fetchwork q {mine:7.0f} ms", flush=True)
            state = mine if asked.what == ONE else state
        return state


ONE = "one job's state"


def both_asked(jobs: int, theirs: int, ours: int) -> list[Asked]:
    """The questions about a cluster in each queue."""

    def total(text: str) -> bool:
        return f"Total for query: {jobs} jobs; 0 completed, 0 removed, {jobs} idle," in text

    def lines(text: str) -> bool:
        return total(text) and len(re.findall(r"^ *\d+\.\d+ +alice ", text, re.MULTILINE)) == jobs

    def ids(text: str) -> bool:
        return text.split() in ([str(n) for proc in range(jobs) for n in (c, proc)] for c in (theirs, ours))

    def idle(text: str) -> bool:
        return text == "1\n"

    each = ["-af", "ClusterId", "ProcId"]
    return [
        Asked("totals", ["condor_q", "-all", "-totals"], [INSIDE, "q", "-totals"], total),
        Asked(
            ONE,
            ["condor_q", f"{theirs}.7", "-af", "JobStatus"],
            [INSIDE, "q", f"{ours}.7", "-af", "JobStatus"],
            idle,
        ),
        Asked("by batch", ["condor_q", "-all"], [INSIDE, "q"], total),
        Asked("all jobs, a line each", ["condor_q", "-all", "-nobatch"], [INSIDE, "q", "-nobatch"], lines),
        Asked("all jobs, two attributes", ["condor_q", "-all", *each], [INSIDE, "q", *each], ids),
    ]


INSIDE = "/opt/fetchwork/venv/bin/fetchwork"
# timed inside, so that entering the pool's root is not counted
TIMED = """
import subprocess, sys, time
begin = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True)
print(time.perf_counter() - begin)
print(done.stdout, end="")
sys.exit(done.returncode)
"""


def _seconds(pool: PersonalPool, command: list[str], is_answer: Callable[[str], bool]) -> float:
    """The time of a command; raises SystemExit unless it succeeds and prints the answer."""
    dsn = f"FETCHWORK_DSN={pool.conninfo}"
    told = pool.run_command(["env", dsn, "/opt/fetchwork/venv/bin/python", "-c", TIMED, *command])
    seconds, _, text = told.stdout.partition("\n")
    if told.returncode or not is_answer(text):
        shown = f"{text[:500]}\n{told.stderr[:500]}".strip()
        raise SystemExit(f"{' '.join(command)}: exit status {told.returncode}, no answer in:\n{shown}")
    return float(seconds)


def at_the_database(jobs: int, history: int) -> float:
    """Query a database of this many rows; return the slowest query's median."""
    with frame.server(SETTINGS) as (server, _):
        conninfo = frame.new_database(server)
        begin = time.perf_counter()
        fill(conninfo, jobs, history)
        print(f"{jobs} jobs, {history} in history: written in {time.perf_counter() - begin:.0f} s\n")
        slowest = 0.0
        with Queue(conninfo) as queue:
            for what, question in questions(queue, jobs, history).items():
                question()
                taken = median_ms(question)
                slowest = max(slowest, taken)
                print(f"  {what:<28} {taken:8.2f} ms", flush=True)
            before = memory_kib()
            count = 0
            begin = time.perf_counter()
            growth = []
            for _ in queue.xquery(projection=["ClusterId", "ProcId", "JobStatus", "Cmd"]):
                count += 1
                if count in (jobs // 10, jobs):
                    growth.append(memory_kib() - before)
            rate = count / (time.perf_counter() - begin)
            print(
                f"\nxquery over {count} jobs: {rate:.0f} jobs/s, memory grew by {growth[0]} KiB in the"
                f" first tenth and by {growth[1] - growth[0]} KiB in the rest"
            )
    return slowest


def main() -> None:
    parser = frame.parser(__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--history", type=int, default=5_000_000)
    condor = parser.add_mutually_exclusive_group()
    condor.add_argument("--without-condor", action="store_true")
    condor.add_argument("--only-condor", action="store_true", help="ask nothing but condor_q and fetchwork q")
    arguments = parser.parse_args()
    if arguments.only_condor:
        print(f"\none job's state by fetchwork q ms: {beside_condor(10_000, 10):.0f}")
        return
    slowest = at_the_database(arguments.jobs, arguments.history)
    if not arguments.without_condor:
        try:
            beside_condor(10_000, 10)
        except HTCondorUnavailable as error:
            print(f"\nnot beside condor_q: {error}")
    print(f"\nslowest snapshot ms: {slowest:.1f}")


if __name__ == "__main__":
    main()
