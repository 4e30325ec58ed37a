"""DAGs over the queue beside the same DAGs over a schedd, on the same slots.

    make bench-dag
    python tests/benchmarks/bench_dag.py --wide 200 --chain 20 --idle 20 --rounds 1

One pool with compiled hooks, whose slots take jobs of either side, and one condor_dagman with the same
DAGMAN_ settings. The sides alternate: independent nodes, and a chain, in nodes a second from
condor_submit_dag to the end of its job. While the independent nodes run over the queue, the delay of each
event until it is in the nodes log is measured. Then several waiting DAGs are submitted, and the CPU time of
the access point with all of its processes is read, without that of the condor_dagmans.

A DAG that has not ended after --most-s seconds is removed, and counts with the nodes that had ended by then:
so the benchmark also ends on a busy machine, within about ten times that.

The rate of submission is measured with as many independent nodes that no slot takes, from the first to the
last of them in the queue (it has a line of its own; 50 a second should be possible).

The processes of the machine are counted, because both sides pay for each of them: condor_procd scans all of
them when a family begins and when it ends. That is ten scans a node over the queue, whose three hooks are
families, and four over a schedd (as perf counted them, HTCondor 23.9): the ratios fall on a machine with many
other processes.

The last lines are the two ratios, of the medians (goal: 1 and more), the cores that the idle DAGs take (goal:
under 0.3), and the median delay of an event (goal: under 100 ms).
"""

import re
import statistics
import threading
import time

from fetchwork.process import Process, processes
from tests.benchmarks import frame
from tests.benchmarks.cpu import process_s
from tests.condor.compiled_hooks import compile_hooks, hook_directory
from tests.dag.conftest import CONFIG
from tests.dag.sides import Dag, Point, Queue, Schedd, Side
from tests.support.waiting import until

TRUE = """\
executable = /bin/true
transfer_executable = false
should_transfer_files = IF_NEEDED
queue
"""
NEVER = TRUE.replace("queue", "requirements = false\nqueue")
ENTRY = re.compile(rb"^(\d{3}) \((\d+)\.(\d+)\.\d+\)", re.M)
POLL_S = 0.005


def wide(number: int) -> str:
    return "".join(f"JOB N{n} true.sub\n" for n in range(number))


def chain(number: int) -> str:
    edges = "".join(f"PARENT N{n} CHILD N{n + 1}\n" for n in range(number - 1))
    return wide(number) + edges


class Arrivals(threading.Thread):
    """Notes the time at which each event of a DAG appears in its nodes log."""

    def __init__(self, dag: Dag) -> None:
        super().__init__()
        self._path = dag.directory / "x.dag.nodes.log"
        self._ended = threading.Event()
        self.at: dict[tuple[int, int], float] = {}

    def run(self) -> None:
        read = b""
        position = 0
        while not self._ended.is_set():
            time.sleep(POLL_S)
            try:
                with self._path.open("rb") as file:
                    file.seek(position)
                    data = file.read()
            except FileNotFoundError:
                continue
            now = time.time()
            position += len(data)
            read += data
            whole, end, read = read.rpartition(b"...\n")
            for found in ENTRY.finditer(whole + end):
                self.at.setdefault((int(found[2]), int(found[1])), now)

    def stop(self) -> None:
        self._ended.set()
        self.join()


def ended(dag: Dag) -> int:
    """The number of a DAG's nodes that have ended."""
    try:
        log = (dag.directory / "x.dag.nodes.log").read_bytes()
    except FileNotFoundError:
        return 0
    return sum(found[1] == b"005" for found in ENTRY.finditer(log))


def nodes_per_s(
    side: Side, text: str, number: int, most_s: float, *, watch: bool = False
) -> tuple[float, Arrivals | None]:
    """Run a DAG; return its nodes a second."""
    directory = side.write(text, {"true.sub": TRUE})
    begin = time.perf_counter()
    dag = side.submit(directory)
    arrivals = Arrivals(dag) if watch else None
    if arrivals is not None:
        arrivals.start()
    status = None
    while status is None and time.perf_counter() < begin + most_s:
        time.sleep(0.25)
        status = side.end(dag.cluster)
    taken = time.perf_counter() - begin
    if status is None:
        number = ended(dag)
        print(f"after {taken:.0f} s {number} nodes have ended", flush=True)
        side.run(directory, "condor_rm", str(dag.cluster))
        until(lambda: side.end(dag.cluster) is not None, "the end of a DAG that was removed", every_s=0.5)
    else:
        assert status == 0, dag.tail
    if arrivals is not None:
        arrivals.stop()
    return number / taken, arrivals


def delays_ms(queue: Queue, arrivals: Arrivals) -> list[float]:
    """Milliseconds from each event to its line in the nodes log, for events that have one."""
    rows = queue.rows(
        "SELECT clusterid, eventtypenumber, extract(epoch FROM event_at)::float8 FROM fetchwork.events"
        " WHERE clusterid = ANY(%s)",
        sorted({cluster for cluster, _ in arrivals.at}),
    )
    return [
        max(0.0, (arrivals.at[cluster, number] - at) * 1000)
        for cluster, number, at in rows
        if (cluster, number) in arrivals.at
    ]


def submitted_per_s(queue: Queue, number: int, most_s: float) -> float:
    """The rate at which nodes come into the queue, from the first to the last."""
    dag = queue.start(wide(number), files={"true.sub": NEVER})
    statement = (
        "SELECT count(*), extract(epoch FROM max(submitted_at) - min(submitted_at))::float8"
        " FROM fetchwork.cluster WHERE ad -> 'DAGManJobId' = %s::text::jsonb"
    )
    end = time.perf_counter() + most_s
    while True:
        time.sleep(1)
        found, seconds = queue.rows(statement, str(dag.cluster))[0]
        if found == number or time.perf_counter() > end:
            break
    queue.run(dag.directory, "condor_rm", str(dag.cluster))
    until(lambda: queue.end(dag.cluster) is not None, "the end of a DAG that was removed", every_s=0.5)
    return float((found - 1) / seconds)


def family(process: Process) -> list[Process]:
    """A process and its descendants, without condor_dagmans."""
    if process.name in ("condor_dagman", "condor_dagman.r"):
        return []
    return [process, *(one for child in process.children() for one in family(child))]


def idle_cores(queue: Queue, point: Point, number: int, seconds: float, most_s: float) -> float:
    """The cores that an access point uses while its DAGs wait."""
    assert point.process is not None
    dags = [queue.start("JOB A true.sub\n", files={"true.sub": NEVER}) for _ in range(number)]
    clusters = [dag.cluster for dag in dags]

    def waiting() -> int:
        statement = (
            "SELECT count(*) FROM fetchwork.cluster WHERE ad -> 'DAGManJobId' = ANY(%s::text[]::jsonb[])"
        )
        return int(queue.rows(statement, [str(cluster) for cluster in clusters])[0][0])

    end = time.perf_counter() + most_s
    while waiting() < number and time.perf_counter() < end:
        time.sleep(0.5)
    print(f"{waiting()} of {number} idle DAGs have submitted their node", flush=True)
    time.sleep(5)
    access_point = Process.find(point.process.pid)
    assert access_point is not None

    def used() -> dict[Process, float]:
        found = {}
        for one in family(access_point):
            try:
                found[one] = process_s(one.pid)
            except OSError:
                continue
        return found

    before, begin = used(), time.perf_counter()
    time.sleep(seconds)
    after, taken = used(), time.perf_counter() - begin
    for dag in dags:
        queue.run(dag.directory, "condor_rm", str(dag.cluster))
    return sum(cpu - before.get(process, 0.0) for process, cpu in after.items()) / taken


def main() -> None:
    parser = frame.parser(__doc__)
    parser.add_argument("--wide", type=int, default=1000, help="independent nodes")
    parser.add_argument("--chain", type=int, default=200, help="nodes of the chain")
    parser.add_argument("--idle", type=int, default=100, help="DAGs that wait")
    parser.add_argument("--idle-s", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--most-s", type=float, default=150.0, help="seconds for a DAG")
    asked = parser.parse_args()
    config = re.sub(r"(?m)^START = .*$", "START = true", CONFIG)
    host = {"slots": {"fetched_only": False}}
    with frame.pool(suite="trixie", slots=8, config=config, host=host) as pool:
        compile_hooks(hook_directory(pool))
        point = Point(pool).start()
        queue, schedd = Queue(pool, point), Schedd(pool)
        print(f"processes on this machine: {sum(1 for _ in processes())}", flush=True)
        rates: dict[tuple[str, str], list[float]] = {}
        delays: list[float] = []
        for text, what, number in (
            (wide(asked.wide), "wide", asked.wide),
            (chain(asked.chain), "chain", asked.chain),
        ):
            for _ in range(asked.rounds):
                for side in (schedd, queue):
                    rate, arrivals = nodes_per_s(
                        side, text, number, asked.most_s, watch=side is queue and what == "wide"
                    )
                    rates.setdefault((what, side.user), []).append(rate)
                    print(
                        f"{what} over {'queue' if side is queue else 'schedd'}: {rate:.2f} nodes/s",
                        flush=True,
                    )
                    if arrivals is not None:
                        delays += delays_ms(queue, arrivals)
        print(
            f"nodes submitted per second: {submitted_per_s(queue, asked.wide, asked.most_s):.1f}",
            flush=True,
        )
        cores = idle_cores(queue, point, asked.idle, asked.idle_s, asked.most_s)
        point.stop()
    median = {key: statistics.median(found) for key, found in rates.items()}
    print(f"dag wide over schedd: {median['wide', 'alice'] / median['wide', 'bob']:.2f}")
    print(f"dag chain over schedd: {median['chain', 'alice'] / median['chain', 'bob']:.2f}")
    print(f"idle dags cores: {cores:.3f}")
    print(f"nodes log delay ms: {statistics.median(delays):.0f}")


if __name__ == "__main__":
    main()
