"""A pool with real HTCondor, and clients from PyPI and Debian, which take it for a schedd.

They run in the pool's root directory, as alice, with our commands and modules before HTCondor's. An access
point runs there too: it knows the root's accounts.
"""

import hashlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fetchwork.pool import PersonalPool
from fetchwork.pool.cache import cached
from fetchwork.pool.condorroot import VENV
from fetchwork.process import Process

# the same pools
from tests.condor.conftest import MakePool, make_lasting_pool, pytest_generate_tests, root, without_htcondor  # noqa: F401
from tests.support.waiting import until

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
#: tests that need no wheels of PyPI
NO_WHEELS = ("law", "connection_pool")
#: seconds for a workflow: no client gives up by itself
WORKFLOW_S = 240
#: the clients beside the machine's own packages, each with its dependencies: not all exist for each Python
CLIENTS = ":".join(f"/tmp/clients/{client}" for client in ("snakemake", "dask", "law", "parsl"))


# as on a site whose hosts have the modules that jobs import
CONFIG = f"""
STARTER_JOB_ENVIRONMENT = "PYTHONPATH={CLIENTS} HOME=/tmp PATH=/usr/bin:/bin"
"""


#: runs a client until one of its jobs runs, and interrupts it then
INTERRUPT = """
import os, signal, subprocess, sys, time
# a session of its own, as in a terminal of its own
client = subprocess.Popen(sys.argv[1:], start_new_session=True)
mine = ["condor_q", "-constraint", f'Iwd == "{os.getcwd()}" && JobStatus == 2', "-af", "ClusterId"]
while client.poll() is None and not subprocess.run(mine, capture_output=True).stdout:
    time.sleep(0.5)
client.send_signal(signal.SIGINT)
sys.exit(client.wait() != 0)
"""


class Clients:
    """Runs clients in the pool."""

    def __init__(self, pool: PersonalPool) -> None:
        self.pool = pool
        self.tmp = pool.directory / "tmp"
        self.socket = "/tmp/ap.sock"
        master = pool.condor.master
        inside = pool.machine.inside(Process.find(master.pid) if master else None)
        words = ["access-point", "--socket", self.socket, "--state", "/tmp/ap", "--log-file", "/tmp/ap.log"]
        self._access_point = subprocess.Popen(
            [*inside, f"{VENV}/bin/fetchwork", *words],
            env={"PATH": os.defpath, "FETCHWORK_DSN": pool.conninfo},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until((self.tmp / "ap.sock").exists)

    def folder(self, name: str, **files: str) -> str:
        """A directory of alice's with files; its path there."""
        folder = self.tmp / name
        folder.mkdir()
        folder.chmod(0o777)
        for file, text in files.items():
            path = folder / file.replace("__", ".")
            path.write_text(text)
            path.chmod(0o755)
        return f"/tmp/{name}"

    def run(self, folder: str, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run a client or one of our commands in a folder, within its time limit."""
        given = {
            "FETCHWORK_ACCESS_POINT": self.socket,
            "PYTHONPATH": CLIENTS,
            "HOME": folder,
            "USER": "alice",
            "LOGNAME": "alice",
            **environment,
        }
        line = ["env", *(f"{name}={value}" for name, value in given.items())]
        line += ["sh", "-c", 'cd "$0" && exec "$@"', folder]
        line += [f"{VENV}/bin/fetchwork", "env", "--", "timeout", str(WORKFLOW_S), *words]
        return self.pool.run_command(line, user="alice")

    def python(self, folder: str, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run Python with the clients from PyPI in a folder."""
        return self.run(folder, f"{VENV}/bin/python", *words)

    def interrupted(self, folder: str, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a client until one of its jobs runs, and then interrupt it as Ctrl-C does."""
        (self.tmp / folder.rpartition("/")[2] / "interrupt.py").write_text(INTERRUPT)
        return self.python(folder, "interrupt.py", *words)

    def jobs(self, folder: str, *attributes: str) -> list[list[str]]:
        """These attributes of the ended jobs that were submitted from a folder."""
        words = ["condor_history", "-constraint", f'Iwd == "{folder}"', "-af:,", *attributes]
        done = self.run(folder, *words)
        assert done.returncode == 0, done.stderr
        return [line.split(", ") for line in done.stdout.splitlines()]

    def stop(self) -> None:
        self._access_point.terminate()
        self._access_point.wait(30)


@pytest.fixture(scope="session")
def clients(make_lasting_pool: MakePool) -> Iterator[Clients]:  # noqa: F811 - the fixture
    pool = make_lasting_pool(slots=4, config=CONFIG)
    running = Clients(pool)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def packages(clients: Clients, request: pytest.FixtureRequest) -> str:
    """The PyPI client that a test module is about, for the root's Python."""
    client = request.module.__name__.rpartition("test_")[2]
    (there,) = Path(clients.pool.machine.kept()["venv"]).glob("lib/python3.*")
    version = there.name.removeprefix("python")
    every = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]["clients"]
    wanted = [one for one in every if one.startswith(client)]

    def made(directory: Path) -> None:
        wheels = directory / "wheels"
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        build = [*pip, "wheel", "--no-deps", "-w", str(wheels), *NO_WHEELS]
        subprocess.run(build, check=True, timeout=300)
        install = [*pip, "install", "--no-compile", "--python-version", version, "--only-binary=:all:"]
        target = ["--find-links", str(wheels), "--target", str(directory / "packages")]
        pipped = subprocess.run(
            [*install, *target, *wanted], timeout=600, stderr=subprocess.PIPE, text=True, check=False
        )
        if pipped.returncode:
            errors = [line for line in pipped.stderr.splitlines() if line.startswith("ERROR")]
            raise OSError((errors or ["pip failed"])[-1])

    # a changed list is another entry
    digest = hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:8]
    try:
        there = cached(f"client-{client}-{version}-{digest}", made) / "packages"
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"{client} can't be had from PyPI for Python {version}: {error}")
    target = clients.tmp / "clients" / client
    target.parent.mkdir(exist_ok=True)
    subprocess.run(["cp", "-r", there, target], check=True)
    subprocess.run(["chmod", "-R", "a+rX", target.parent], check=True)
    return f"/tmp/clients/{client}"
