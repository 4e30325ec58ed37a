"""The time that each page takes, with 1 000 000 jobs in the queue and 5 000 000 in history.

    make bench-page
    make bench-page ARGS='--jobs 100000 --history 500000'
    make bench-page ARGS='--statements 50'

The service runs as ``fetchwork serve`` does, with its worker processes, and is asked over a socket, all pages
in turn: so the machine's other load affects every page. A first turn is not counted; then there are 21. The
median, the 90th percentile and the longest are printed, and the CPU time of a request, which other load
affects little: that of the service with its workers, and that of its database sessions. These pages are
unfiltered, or filtered by an indexed attribute. Then pages of a pool with 64 000 slots more, of 1 000 hosts.
Then filters without an index: the time until the first progress message, until the first rows
(goal: 2 s), and until the end, page by page as a browser goes on.

Before that the ended runs are counted as the leader counts them each minute; the longest time for a quarter
of an hour of them is printed.

With ``--statements MS`` the server's log shows the statements that took longer. The last line is the slowest
page's median; the goal is 100 ms.
"""

import html
import os
import re
import statistics
import threading
import time
import urllib.error
import urllib.request
from urllib.parse import quote

import psycopg
import uvicorn
from psycopg.types.json import Jsonb

from fetchwork.page import pages
from fetchwork.page.application import application
from fetchwork.page.signin import SignIn
from fetchwork.pool.ports import free_port
from tests.benchmarks import cpu, frame
from tests.benchmarks.bench_tracking import CLUSTER, SETTINGS, fill

TOKEN = "a-token-of-the-benchmark"
ROUNDS = 21

PAGES = {
    "overview": "/",
    "jobs": "/jobs",
    "jobs of an owner": "/jobs?owner=owner3",
    "held jobs of an owner": "/jobs?owner=owner3&state=held",
    "held jobs": "/jobs?state=held",
    "held jobs by memory": "/jobs?state=held&sort=-Memory",
    "an owner's history by wall time": "/history?owner=owner3&sort=Wall",
    "running jobs": "/jobs?state=running",
    "jobs of a cluster": "/jobs?constraint=" + quote("ClusterId == 77"),
    "a job in the queue": "/jobs/77.7",
    "why a job is idle": "/jobs/77.7/why",
    "a job of history": "/jobs/{ended}.7",
    "history": "/history",
    "history of an owner": "/history?owner=owner3",
    "slots": "/slots",
    "a host": "/hosts/ep1",
    "a host's last hour": "/hosts/ep1/hour",
    "a cluster of the queue": "/clusters/77",
    "a cluster of history": "/clusters/{ended}",
    "a batch": "/batches?owner=owner3&name=batch3",
    "actions": "/actions",
    "actions of an owner": "/actions?owner=owner3",
    "a name that the box finds": "/find?text=" + quote('Owner == "owner3"'),
    "queues": "/queues",
    "submitters": "/submitters",
    "API: 100 jobs": "/api/v1/jobs",
    "API: totals": "/api/v1/totals?by=owner",
    "why jobs are held": "/held",
    "the last hour": "/hour",
    # computed anew each time; the service otherwise caches them for a while
    "charts of the pool's age": "/charts",
    "charts of an hour": "/charts?range=hour",
    "charts of six hours": "/charts?range=6+hours",
    "charts of a day": "/charts?range=day",
    "charts of a week": "/charts?range=week",
    "charts of an owner's day": "/charts?range=day&owner=owner3",
    "charts of a queue's week": "/charts?range=week&queue=default",
    "a DAG of 100 nodes": "/clusters/{dag}/dag",
}
#: so many hosts have this many slots each, for the map; its goal is 300 ms
HOSTS, SLOTS = 1000, 64
LARGE_PAGES = {
    "map": "/slots",
    "slots of a constraint": "/slots?constraint=" + quote('Machine == "large77"'),
    "no slots": "/slots?constraint=" + quote("Cpus > 100"),
    "all slots": "/slots?constraint=" + quote('State == "Unclaimed"'),
    "a host": "/hosts/large77",
    "overview": "/",
}
_LARGE_POOL = f"""
INSERT INTO fetchwork.host (name, agent_version, lease_until)
SELECT 'large' || n, '1', now() + interval '1 day' FROM generate_series(1, {HOSTS}) AS n;
INSERT INTO fetchwork.slot (host_id, name, state, activity, cpus, memory_mib)
SELECT h.host_id, 'slot' || n || '@' || h.name, 'Unclaimed', 'Idle', 1, 2048
FROM fetchwork.host AS h CROSS JOIN generate_series(1, {SLOTS}) AS n WHERE h.name LIKE 'large%';
ANALYZE fetchwork.host, fetchwork.slot
"""
# a week of counts for each of ten owners
_IDLE = """
INSERT INTO fetchwork.idle_count (at, owner, queue, idle)
SELECT q.at, 'owner' || o, 'default', 1000 + o
FROM generate_series(
    date_bin('15 minutes', now() - interval '7 days', 'epoch'), now(), '15 minutes'
) AS q (at)
CROSS JOIN generate_series(0, 9) AS o
"""
#: page and constraint; {last} is the last cluster of the queue, {oldest} that of history
UNINDEXED = {
    "jobs of a batch": ("jobs", 'JobBatchName == "batch77"'),
    "by SQL, one of a million": ("jobs", 'Args == "499" && ClusterId == {last} || Args == "x"'),
    "by SQL, none": ("jobs", 'Args == "no such"'),
    "by HTCondor, many": ("jobs", 'regexp("^99$", Args)'),
    "by HTCondor, few": ("jobs", 'regexp("^99$", Args) && ProcId == 99 && ClusterId > {last} - 100'),
    "by HTCondor, the last": (
        "jobs",
        'Args == "499" && substr(Out, 0, 1) == "o" && ClusterId * 2 == {last} * 2',
    ),
    "by HTCondor, each row for itself": ("jobs", 'strcat(Args, ClusterId) == "no such"'),
    "by numbers, none": ("jobs", "QDate % 1000 == 1001"),
    "by a pattern with a choice, none": ("jobs", 'regexp("#(no|such)$", GlobalJobId)'),
    "history by SQL, none": ("history", 'Args == "no such"'),
    "history by HTCondor, none": ("history", 'regexp("^no such$", Args)'),
    "history by SQL, the oldest": ("history", 'Args == "499" && ClusterId * 2 == {oldest} * 2'),
    "history by HTCondor, the oldest": (
        "history",
        'Args == "499" && substr(Out, 0, 1) == "o" && ClusterId * 2 == {oldest} * 2',
    ),
    "history by numbers, none": ("history", "QDate % 1000 == 1001"),
    "history by numbers of ads, none": ("history", "RequestMemory * 1024 - ProcId < 0"),
    "history by a pattern, the oldest": ("history", 'regexp("#{oldest}[.](499|no)#", GlobalJobId)'),
    "history of an owner, the oldest": (
        "history",
        'Owner == "owner0" && Args == "499" && ClusterId + 0 >= {oldest} - 20',
    ),
}
#: a search goes on for this many seconds at most
MOST_S = 120.0


class Service:
    """The service in a thread of this process; its workers are processes."""

    def __init__(self, conninfo: str) -> None:
        self.port = free_port()
        app = application(conninfo, SignIn(token=TOKEN))
        self._server = uvicorn.Server(uvicorn.Config(app, port=self.port, log_level="warning"))
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def get(self, path: str) -> tuple[float, str]:
        """The seconds that an answer takes, and the answer."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        began = time.perf_counter()
        with urllib.request.urlopen(request) as answer:
            text = answer.read().decode()
        return time.perf_counter() - began, text

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()


def count_runs(conninfo: str) -> float:
    """Count the ended runs, as the leader does; return the longest call's time in ms."""
    longest = 0.0
    with psycopg.connect(conninfo, autocommit=True) as connection:
        before = None
        while True:
            began = time.perf_counter()
            connection.execute("SELECT fetchwork.count_runs()")
            longest = max(longest, time.perf_counter() - began)
            row = connection.execute("SELECT up_to::text FROM fetchwork.counted").fetchone()
            if row == before:
                return 1000 * longest
            before = row


def submit_dag(conninfo: str) -> int:
    """Submit the job of a DAG, and 100 nodes in ten rows; return its cluster."""
    ad = {"Cmd": "/bin/true", "Iwd": "/", "Owner": "owner3"}
    with psycopg.connect(conninfo, autocommit=True) as connection:

        def submit(more: dict[str, object]) -> int:
            row = connection.execute(
                "SELECT job_id FROM fetchwork.submit_many(%s::jsonb[])", [[Jsonb({**ad, **more})]]
            ).fetchone()
            assert row is not None
            return int(str(row[0]).partition(".")[0])

        dag = submit({"JobUniverse": 7, "FetchWorkAccessPoint": "here", "DAG_NodesTotal": 100})
        for number in range(100):
            parents = [f"N{parent}" for parent in range(number - 10, number - 8) if parent >= 0]
            inside = {
                "DAGManJobId": dag,
                "DAGNodeName": f"N{number}",
                "DAGParentNodeNames": ",".join(parents),
            }
            submit(inside)
        connection.execute(_IDLE)
    return dag


def measure(service: Service, conninfo: str, paths: dict[str, str], rounds: int) -> float:
    """Print the times of each page; return the slowest median, in ms."""
    times: dict[str, list[float]] = {name: [] for name in paths}
    cpu_s = {name: [0.0, 0.0] for name in paths}
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for number in range(rounds + 1):
            for name, path in paths.items():
                before = (cpu.family_s(os.getpid()), cpu.backends_s(connection))
                taken = 1000 * service.get(path)[0]
                after = (cpu.family_s(os.getpid()), cpu.backends_s(connection))
                if number:
                    times[name].append(taken)
                    cpu_s[name] = [s + b - a for s, a, b in zip(cpu_s[name], before, after, strict=True)]
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    for name, all_of_it in times.items():
        ninth, longest = sorted(all_of_it)[int(len(all_of_it) * 0.9)], max(all_of_it)
        ours, theirs = (1000 * seconds / rounds for seconds in cpu_s[name])
        print(
            f"  {name:28} {medians[name]:8.1f} ms   90% {ninth:8.1f}   longest {longest:8.1f}"
            f"   CPU {ours:6.1f} + {theirs:6.1f} of the database",
            flush=True,
        )
    slowest = max(medians, key=lambda name: medians[name])
    print(f"  slowest: {slowest}")
    return medians[slowest]


def large_pool(service: Service, conninfo: str, rounds: int) -> None:
    """Print the times of the pages that show all hosts, with ``HOSTS`` hosts more."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for statement in _LARGE_POOL.split(";\n"):
            connection.execute(statement)
    print(f"\nwith {HOSTS} hosts x {SLOTS} slots:")
    measure(service, conninfo, LARGE_PAGES, rounds)


def search(service: Service, path: str) -> str:
    """The time of a filter until its first output, until its first rows, and until its end."""
    first_word = first_rows = None
    seconds = 0.0
    rows = 0
    pages = 0
    address: str | None = path
    while address is not None and seconds < MOST_S:
        try:
            taken, text = service.get(address)
        except urllib.error.HTTPError as error:
            return f"failed after {1000 * seconds:.0f} ms: {error.code}"
        seconds += taken
        pages += 1
        first_word = first_word or seconds
        rows += max(0, text.count("<tr>") - 1)
        if rows and first_rows is None:
            first_rows = seconds
        more = re.search(r'data-continue="([^"]*)"', text)
        address = html.unescape(more[1]) if more and not rows else None
    shown = "none" if first_rows is None else f"{1000 * first_rows:.0f} ms"
    word = f"first word {1000 * (first_word or 0):6.0f} ms"
    return f"{word}   first rows {shown:>8}   end {1000 * seconds:6.0f} ms   {pages} pages"


def main() -> None:
    parser = frame.parser(__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--history", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="requests of each page")
    parser.add_argument("--statements", type=int, metavar="MS", help="print statements that take longer")
    arguments = parser.parse_args()
    settings = dict(SETTINGS)
    if arguments.statements is not None:
        settings |= {"log_min_duration_statement": str(arguments.statements)}
    with frame.server(settings) as (server, _):
        conninfo = frame.new_database(server)
        began = time.monotonic()
        fill(conninfo, arguments.jobs, arguments.history)
        print(f"filled in {time.monotonic() - began:.0f} s")
        print(f"{arguments.jobs} jobs, {arguments.history} in history\n")
        print(f"a quarter of an hour is counted in {count_runs(conninfo):.0f} ms at most\n")
        pages.CHARTS_S = 0.0
        dag = submit_dag(conninfo)
        service = Service(conninfo)
        try:
            shown = {"ended": arguments.jobs // CLUSTER + 5, "dag": dag}
            paths = {name: path.format(**shown) for name, path in PAGES.items()}
            slowest = measure(service, conninfo, paths, arguments.rounds)
            large_pool(service, conninfo, arguments.rounds)
            last = arguments.jobs // CLUSTER
            oldest = (arguments.jobs + arguments.history) // CLUSTER
            for what, (page, constraint) in UNINDEXED.items():
                path = f"/{page}?constraint=" + quote(constraint.format(last=last, oldest=oldest))
                print(f"  {what:32} {search(service, path)}", flush=True)
        finally:
            service.stop()
        if arguments.statements is not None:
            print(server.log.read_text(errors="replace").partition("VACUUM ANALYZE")[2])
    print(f"\nslowest page ms: {slowest:.1f}")


if __name__ == "__main__":
    main()
