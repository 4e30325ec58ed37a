"""DAGs over the queue and over a schedd: written into directories of their own, submitted, and inspected."""

import itertools
import json
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from fetchwork import compiler
from fetchwork.client.link import Link
from fetchwork.condor.directory import NAME, compile_command
from fetchwork.pool import PersonalPool
from fetchwork.process import Process, processes
from tests.support.waiting import PATIENCE_S, until

ROLE = "dag_access_point"
PASSWORD = "of-the-tests"
# notes that a node ran, and ends as its arguments say
NODE = """\
#!/bin/sh
echo "$1" >> "${3:-order}"
exit "${2:-0}"
"""
# a script of a node: notes its arguments, and exits with the first
SCRIPT = """\
#!/bin/sh
status=$1
shift
echo "$@" >> order
exit "$status"
"""
SUBMIT = """\
executable = $(program:node)
arguments = $(name:$(JOB)) $(status:0)
transfer_executable = false
should_transfer_files = IF_NEEDED
queue $(jobs:1)
"""
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


class Point:
    """An access point inside the pool's machine, run by root."""

    def __init__(self, pool: PersonalPool) -> None:
        self.pool = pool
        self.socket = pool.directory / "tmp" / "dags.sock"
        self._log = pool.directory / "tmp" / "dags.log"
        self.process: subprocess.Popen[bytes] | None = None
        pool.postgres.query(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}' IN ROLE fetchwork_access_point")

    def start(self) -> "Point":
        pool = self.pool
        dsn = psycopg.conninfo.make_conninfo(pool.conninfo, user=ROLE, password=PASSWORD)
        python = str(pool.machine.venv / "bin/python")
        words = [python, "-m", "fetchwork", "access-point", "--socket", "/tmp/dags.sock", "--name", "dags"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *pool.machine.inside(pool.condor.master),
                    *words,
                    "--state",
                    "/var/lib/dags",
                    "--min-uid",
                    "1000",
                ],
                env={
                    "PATH": PATH,
                    "FETCHWORK_DSN": dsn,
                    "PYTHONPATH": "/opt/fetchwork/src",
                    # the environment that fetchwork is installed in is read-only
                    "XDG_DATA_HOME": "/tmp/data",
                },
                stderr=log,
            )
        until(self._answers, "the access point")
        return self

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        try:
            with Link(str(self.socket), patience_s=0) as link:
                return bool(link.ask("status"))
        except Exception:
            return False

    def log(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=PATIENCE_S)


class Side:
    """One of the two places for DAGs: the queue, or a schedd."""

    user: str
    _numbers = itertools.count(1)

    def __init__(self, pool: PersonalPool) -> None:
        self.pool = pool
        self.environment = {"PATH": PATH}
        self.ids = pool.machine.root.account_ids(self.user)  # type: ignore[attr-defined]

    def run(self, directory: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command as the DAGs' owner in a directory of /tmp."""
        named = [f"{name}={value}" for name, value in {**self.environment, **environment}.items()]
        inside = f"/tmp/{directory.relative_to(self.pool.directory / 'tmp')}"
        script = ["sh", "-c", 'cd "$1"; shift; exec "$@"', "sh", inside, *words]
        return self.pool.run_command(["env", *named, *script], user=self.user, check=False)

    def write(self, text: str, files: dict[str, str] | None = None) -> Path:
        """A directory with the DAG ``x.dag``, the programs ``node`` and ``script``, and ``node.sub``."""
        directory = self.pool.directory / "tmp" / f"{self.user}{next(self._numbers)}"
        directory.mkdir()
        written = {"x.dag": text, "node": NODE, "script": SCRIPT, "node.sub": SUBMIT, **(files or {})}
        for name, content in written.items():
            path = directory / name
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_text(content)
            path.chmod(0o755)
        for path in (directory, *directory.rglob("*")):
            os.chown(path, *self.ids)
        return directory

    def submit(self, directory: Path, *options: str, **environment: str) -> "Dag":
        ended = self.run(directory, "condor_submit_dag", *options, "x.dag", **environment)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        cluster = int(ended.stdout.split("submitted to cluster ")[1].split(".")[0])
        return Dag(self, directory, cluster)

    def start(
        self, text: str, *options: str, files: dict[str, str] | None = None, **environment: str
    ) -> "Dag":
        return self.submit(self.write(text, files), *options, **environment)

    def state(self) -> str:
        """The output of its owner's condor_q."""
        return self.run(self.pool.directory / "tmp", "condor_q", "-nobatch").stdout

    def end(self, cluster: int) -> int | None:
        """The exit status of a DAG that has ended; -1 if it was removed, None while it goes on."""
        raise NotImplementedError


class Queue(Side):
    """Our side: alice's DAGs, through the access point."""

    user = "alice"

    def __init__(self, pool: PersonalPool, point: Point) -> None:
        super().__init__(pool)
        self.point = point
        self.environment = {
            "PATH": f"/tmp/data/fetchwork/condor:{PATH}",
            "FETCHWORK_ACCESS_POINT": "/tmp/dags.sock",
            "XDG_DATA_HOME": "/tmp/data",
        }
        python = str(pool.machine.venv / "bin/python")
        made = "from fetchwork.condor.directory import made; made()"
        program = ["env", "XDG_DATA_HOME=/tmp/data", "PYTHONPATH=/opt/fetchwork/src", python, "-c", made]
        ended = pool.run_command(program, check=False)
        assert ended.returncode == 0, ended.stderr
        if compiler.has_compiler():
            # the pool's root has no compiler
            commands = pool.directory / "tmp/data/fetchwork/condor"
            (commands / NAME).unlink()
            compile_command(commands / NAME)

    def rows(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.pool.conninfo) as connection:
            return connection.execute(statement, parameters).fetchall()

    def state(self) -> str:
        """The output of condor_q, the live runs, and the last lines of the access point's log."""
        runs = self.rows("SELECT r::text FROM fetchwork.run AS r ORDER BY r.run_id")
        lines = [*(run for (run,) in runs), *self.point.log().splitlines()[-30:]]
        return "\n".join([super().state(), *lines])

    def end(self, cluster: int) -> int | None:
        found = self.rows(
            "SELECT job_status, exit_code FROM fetchwork.job_history WHERE cluster_id = %s", cluster
        )
        if not found:
            return None
        return -1 if found[0][0] == 3 else found[0][1]

    def fetchwork(self, directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
        python = str(self.pool.machine.venv / "bin/python")
        return self.run(directory, python, "-m", "fetchwork", *words, PYTHONPATH="/opt/fetchwork/src")

    def status(self, cluster: int) -> int | None:
        """JobStatus of a job in the queue."""
        found = self.rows("SELECT job_status FROM fetchwork.job WHERE cluster_id = %s", cluster)
        return found[0][0] if found else None

    def clusters(self, cluster: int) -> list[int]:
        """The clusters of a DAG's nodes."""
        statement = "SELECT cluster_id FROM fetchwork.cluster WHERE ad -> 'DAGManJobId' = %s::text::jsonb"
        return [found for (found,) in self.rows(statement, str(cluster))]

    def nodes(self, cluster: int) -> list[str]:
        """The nodes of a DAG whose jobs were submitted, repeated for each submission."""
        return [
            name
            for (name,) in self.rows(
                "SELECT ad ->> 'DAGNodeName' FROM fetchwork.cluster"
                " WHERE ad -> 'DAGManJobId' = %s::text::jsonb ORDER BY cluster_id",
                str(cluster),
            )
        ]


class Schedd(Side):
    """The oracle: bob's DAGs, with only HTCondor's own commands."""

    user = "bob"

    def end(self, cluster: int) -> int | None:
        words = ["condor_history", str(cluster), "-json", "-limit", "1"]
        ended = self.pool.run_command(["env", f"PATH={PATH}", *words], user=self.user, check=False)
        ads = json.loads(ended.stdout or "[]")
        if not ads:
            return None
        return -1 if ads[0]["JobStatus"] == 3 else ads[0].get("ExitCode")


Found = TypeVar("Found")


def on_both(done: Callable[[Side], Found], queue: Queue, schedd: Schedd) -> tuple[Found, Found]:
    """The results of one function over the queue and over a schedd, run in parallel: each mostly waits."""
    with ThreadPoolExecutor() as both:
        ours, theirs = both.map(done, (queue, schedd))
    return ours, theirs


class Dag:
    """A submitted DAG."""

    def __init__(self, side: Side, directory: Path, cluster: int) -> None:
        self.side = side
        self.directory = directory
        self.cluster = cluster

    def wait(self) -> int | None:
        """Wait for its end; return its exit status."""
        found: list[int] = []

        def ended() -> bool:
            status = self.side.end(self.cluster)
            found[:] = [] if status is None else [status]
            return bool(found)

        until(ended, lambda: f"the end of {self.directory}: {self.tail}\n{self.side.state()}", every_s=0.25)
        return found[0]

    @property
    def tail(self) -> str:
        path = self.directory / "x.dag.dagman.out"
        if not path.exists():
            return "no dagman.out"
        noise = ("Statistics", "deferrals", "===", "---")
        lines = [line for line in path.read_text().splitlines() if not any(word in line for word in noise)]
        errors = self.directory / "x.dag.lib.err"
        said = errors.read_text()[-2000:] if errors.exists() else ""
        return "\n".join([line[:200] for line in lines[-60:]] + ["stderr:", said])

    def noted(self, name: str = "order") -> list[str]:
        """The notes of its nodes and scripts."""
        path = self.directory / name
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def rescue(self, number: int = 1) -> list[str] | None:
        """The commands of a rescue file."""
        path = self.directory / f"x.dag.rescue{number:03}"
        if not path.exists():
            return None
        return [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]


def dagman(dag: Dag) -> Process:
    """The condor_dagman of a DAG, once there is one."""
    found: list[Process] = []

    def there() -> bool:
        found[:] = [
            one
            for one in processes()
            if one.name == "condor_dagman" and one.works_in(dag.directory) and one.alive
        ]
        return bool(found)

    until(there, f"condor_dagman of {dag.directory}")
    return found[0]
