"""A pool with real HTCondor, and clients from PyPI and Debian, which do not know that it is no schedd.

They run in the pool's root directory, as alice, with ours before HTCondor's commands and modules. An access
point runs there too: it knows the root's accounts.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fetchwork.pool import PersonalPool
from fetchwork.pool.cache import cached
from fetchwork.pool.condorroot import VENV
from fetchwork.process import Process

# the same pools
from tests.condor.conftest import make_pool, pytest_generate_tests, root, without_htcondor  # noqa: F401
from tests.waiting import until

#: from PyPI; law and connection_pool have no wheels
PACKAGES = (
    *("snakemake>=9,<10", "snakemake-executor-plugin-htcondor", "snakemake-executor-plugin-cluster-generic"),
    *("dask>=2025", "dask-jobqueue>=0.9", "law>=0.1.21", "parsl>=2025"),
)
NO_WHEELS = ("law", "connection_pool")
#: seconds for a workflow: none of them gives up by itself
WORKFLOW_S = 240
#: the clients beside the machine's own packages
CLIENTS = "/tmp/clients"


# as a site has it whose hosts have what jobs import
CONFIG = f"""
STARTER_JOB_ENVIRONMENT = "PYTHONPATH={CLIENTS} HOME=/tmp PATH=/usr/bin:/bin"
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
        """Run a client in a folder, in its time."""
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

    def stop(self) -> None:
        self._access_point.terminate()
        self._access_point.wait(30)


@pytest.fixture(scope="session")
def clients(make_pool: Callable[..., PersonalPool]) -> Iterator[Clients]:  # noqa: F811 - the fixture
    pool = make_pool(slots=4, config=CONFIG)
    running = Clients(pool)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def packages(clients: Clients) -> str:
    """The clients from PyPI, for the root's Python."""
    (there,) = Path(clients.pool.machine.kept()["venv"]).glob("lib/python3.*")
    version = there.name.removeprefix("python")

    def made(directory: Path) -> None:
        wheels = directory / "wheels"
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        build = [*pip, "wheel", "--no-deps", "-w", str(wheels), *NO_WHEELS]
        subprocess.run(build, check=True, timeout=300)
        install = [*pip, "install", "--no-compile", "--python-version", version, "--only-binary=:all:"]
        target = ["--find-links", str(wheels), "--target", str(directory / "packages")]
        subprocess.run([*install, *target, *PACKAGES], check=True, timeout=600)

    try:
        there = cached(f"clients-{version}", made) / "packages"
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no clients from PyPI: {error}")
    subprocess.run(["cp", "-r", there, clients.tmp / "clients"], check=True)
    subprocess.run(["chmod", "-R", "a+rX", clients.tmp / "clients"], check=True)
    return CLIENTS
