"""How long each page takes, with 1 000 000 jobs in the queue and 5 000 000 in history.

    make bench-page
    python tests/benchmarks/bench_page.py --jobs 100000 --history 500000

The service runs as ``fetchwork serve`` does, with its worker processes, and is asked over a socket, one page
after the other: 15 times each, after one that is not counted. Printed are the median and the longest. The
filters are those that an index answers; then how long it takes until the first rows are there of a filter
that none answers, page by page as a browser goes on (goal 2 s).

The last line is the slowest page's median; the goal is 100 ms. The chart of the last day is no page: a page
loads it when it is there.
"""

import argparse
import statistics
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from urllib.parse import quote

import uvicorn

from fetchwork.db import schema
from fetchwork.page.application import application
from fetchwork.page.signin import SignIn
from fetchwork.pool.ports import free_port
from fetchwork.pool.postgres import PostgresServer
from tests.benchmarks.bench_tracking import CLUSTER, SETTINGS, fill

TOKEN = "a-token-of-the-benchmark"
ROUNDS = 15

PAGES = {
    "overview": "/",
    "jobs": "/jobs",
    "jobs of an owner": "/jobs?owner=owner3",
    "held jobs of an owner": "/jobs?owner=owner3&state=held",
    "held jobs": "/jobs?state=held",
    "running jobs": "/jobs?state=running",
    "jobs of a cluster": "/jobs?constraint=" + quote("ClusterId == 77"),
    "a job in the queue": "/jobs/77.7",
    "a job of history": "/jobs/{ended}.7",
    "history": "/history",
    "history of an owner": "/history?owner=owner3",
    "slots": "/slots",
    "queues": "/queues",
    "submitters": "/submitters",
    "API: 100 jobs": "/api/v1/jobs",
    "API: totals": "/api/v1/totals?by=owner",
}
UNINDEXED = "/jobs?constraint=" + quote('regexp("^99$", Args) && ProcId == 99')
CHART = "/charts"


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


def measure(service: Service, jobs: int) -> float:
    """Print how long each page takes; returns the slowest median, in ms."""
    slowest = 0.0
    for name, path in PAGES.items():
        path = path.format(ended=jobs // CLUSTER + 5)  # noqa: PLW2901
        service.get(path)
        times = sorted(1000 * service.get(path)[0] for _ in range(ROUNDS))
        median = statistics.median(times)
        slowest = max(slowest, median)
        print(f"  {name:28} {median:8.1f} ms   longest {times[-1]:8.1f} ms")
    return slowest


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--history", type=int, default=5_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fetchwork-bench-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        server = PostgresServer(directory / "postgres", settings=SETTINGS)
        server.start()
        try:
            conninfo = server.conninfo("postgres")
            schema.init(conninfo)
            fill(conninfo, arguments.jobs, arguments.history)
            print(f"{arguments.jobs} jobs, {arguments.history} in history\n")
            service = Service(conninfo)
            try:
                slowest = measure(service, arguments.jobs)
                seconds, _ = service.get(CHART)
                print(f"  {'chart of the last day':28} {1000 * seconds:8.1f} ms")
                seconds, text = service.get(UNINDEXED)
                found = text.count("<tr>") - 1
                print(f"  {'a filter without index':28} {1000 * seconds:8.1f} ms   {found} rows")
            finally:
                service.stop()
        finally:
            server.stop("immediate")
    print(f"\nslowest page ms: {slowest:.1f}")


if __name__ == "__main__":
    main()
