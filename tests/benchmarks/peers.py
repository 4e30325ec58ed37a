"""Other PostgreSQL job queues beside fetchwork: installed into the cache folder, started, and timed.

None of them is a dependency of fetchwork. Their newest versions are installed once, those for Python into an
environment of their own, those for Node.js by npm if it is available; ``FETCHWORK_CACHE`` names the folder.
Queues that cannot be installed are reported, and left out.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fetchwork.pool.cache import cached
from fetchwork.pool.postgres import PostgresServer

PROGRAMS = Path(__file__).parent / "peer_programs"
PYTHON_PACKAGES = ("procrastinate", "pgqueuer", "awa-pg", "asyncpg", "psycopg[binary,pool]")
#: the newest major version that npm can install wins
NODE_PACKAGES = (("graphile-worker", ("latest",)), ("pg-boss", ("latest", "11", "10")))


@dataclass(frozen=True)
class Peer:
    """One of the queues, in one mode."""

    name: str
    program: str
    batch: int
    #: jobs are taken and ended one by one
    one_by_one: bool
    #: the parts of fetchwork's job path that its path lacks
    without: str


PEERS = (
    Peer("procrastinate", "procrastinate_cycle.py", 0, True, "fence, record of each attempt's use"),
    Peer("PgQueuer, batch 1", "pgqueuer_cycle.py", 1, True, "jobs that ended (a log line stays), fence"),
    Peer("PgQueuer, batch 10", "pgqueuer_cycle.py", 10, False, "jobs that ended (a log line stays), fence"),
    Peer("awa-pg", "awa_cycle.py", 0, False, "events; ends are written in batches"),
    Peer("pg-boss", "pgboss_cycle.cjs", 0, True, "record of attempts, events, fence"),
    Peer(
        "graphile-worker", "graphile_cycle.cjs", 0, False, "history (an ended job is deleted), events, fence"
    ),
    Peer(
        "graphile-worker, 100",
        "graphile_cycle.cjs",
        100,
        False,
        "history (an ended job is deleted), events, fence; takes and ends 100 at a time",
    ),
)


def _python_environment(entry: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--copies", entry], check=True)
    pip = [str(entry / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-compile", *PYTHON_PACKAGES], check=True, stdout=sys.stderr)


def _node_packages(entry: Path) -> None:
    npm = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(entry)]
    for name, versions in NODE_PACKAGES:
        for version in versions:
            told = subprocess.run([*npm, f"{name}@{version}"], capture_output=True, check=False)
            if told.returncode == 0:
                break
        else:
            raise OSError(f"npm can't install {name}")


@dataclass(frozen=True)
class Measured:
    """The result of one run of one side."""

    submitted_per_s: float
    jobs_per_s: float
    server_cpu_ms: float


class Peers:
    """The peers that this machine can run."""

    def __init__(self) -> None:
        self._interpreters: dict[str, list[str]] = {}
        self._environment = dict(os.environ)
        self.missing: list[str] = []
        # the interpreter's own files, which each start may write anew, would change the cache entry
        self._environment["PYTHONDONTWRITEBYTECODE"] = "1"
        try:
            entry = cached("peers-python", _python_environment)
            self._interpreters[".py"] = [str(entry / "bin" / "python")]
        except (OSError, subprocess.CalledProcessError) as error:
            self.missing.append(f"those for Python: {error}")
        try:
            entry = cached("peers-node", _node_packages)
            self._interpreters[".cjs"] = ["node"]
            self._environment["NODE_PATH"] = str(entry / "node_modules")
        except (OSError, subprocess.CalledProcessError) as error:
            self.missing.append(f"those for Node.js: {error}")

    def available(self) -> list[Peer]:
        return [peer for peer in PEERS if Path(peer.program).suffix in self._interpreters]

    def measure(self, peer: Peer, server: PostgresServer, jobs: int, concurrency: int) -> Measured:
        """Submit and work off this many jobs, in a new database; raises PeerFailed."""
        with self._program(peer, server, jobs, concurrency) as (program, name):
            submit_s = float(_line(program, "ready").split()[1])
            server.query("VACUUM ANALYZE", name)

            def work() -> None:
                assert program.stdin is not None
                program.stdin.write("go\n")
                program.stdin.flush()
                _line(program, "done")

            seconds, cpu_s = timed(server, work)
            return Measured(jobs / submit_s, jobs / seconds, cpu_s / jobs * 1000)

    def submit(self, peer: Peer, server: PostgresServer, jobs: int) -> float:
        """Submit this many jobs; return the rate a second. Raises PeerFailed."""
        with self._program(peer, server, jobs, 1) as (program, _):
            return jobs / float(_line(program, "ready").split()[1])

    @contextmanager
    def _program(
        self, peer: Peer, server: PostgresServer, jobs: int, concurrency: int
    ) -> Iterator[tuple[subprocess.Popen[str], str]]:
        """The peer's program and its new database, both ended with the block."""
        name = "peer"
        server.query(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        server.create_database(name)
        url = f"postgresql://postgres:{server.password}@127.0.0.1:{server.port}/{name}"
        path = PROGRAMS / peer.program
        program = subprocess.Popen(
            [*self._interpreters[path.suffix], str(path), url, str(jobs), str(concurrency), str(peer.batch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        try:
            yield program, name
        finally:
            program.kill()
            program.communicate()


class PeerFailed(Exception):
    """A peer's program ended without an answer."""


def _line(program: subprocess.Popen[str], word: str) -> str:
    assert program.stdout is not None
    for line in program.stdout:
        if line.startswith(word):
            return line
    _, problem = program.communicate()
    raise PeerFailed(f"no '{word}': {problem.strip()[-400:]}")


def timed(server: PostgresServer, work: Callable[[], None]) -> tuple[float, float]:
    """Seconds that a function takes, and the CPU seconds of the server's processes meanwhile."""
    before, begin = server_cpu_s(server), time.perf_counter()
    work()
    seconds = time.perf_counter() - begin
    # sessions that end are counted once the postmaster has waited for them
    time.sleep(0.5)
    return seconds, server_cpu_s(server) - before


def server_cpu_s(server: PostgresServer) -> float:
    """CPU seconds of all processes of the server, living and ended."""
    postmaster = server.postmaster
    assert postmaster is not None
    ticks = 0
    for pid in [postmaster.pid, *(child.pid for child in postmaster.children())]:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        # utime and stime; the postmaster also has those of its children that ended
        ticks += sum(map(int, fields[11:15] if pid == postmaster.pid else fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")
