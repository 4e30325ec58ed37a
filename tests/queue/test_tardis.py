"""COBalD and TARDIS, unmodified, start drones of a fake site for idle jobs, as the example describes."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fetchwork.classad.bindings import JobAction
from fetchwork.pool.cache import cached
from fetchwork.queue import Queue
from tests.support.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.all, pytest.mark.slow]

EXAMPLE = Path(__file__).parents[2] / "config-examples/pilots-on-demand"
PACKAGES = ["cobald-tardis==0.9.0"]


@pytest.fixture(scope="module")
def tardis() -> Path:
    """The Python of an environment that has TARDIS, and nothing of ours."""

    def build(directory: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", directory / "venv"], check=True)
        pip = directory / "venv/bin/pip"
        subprocess.run([pip, "install", "--quiet", *PACKAGES], check=True, timeout=600)

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        return cached(f"tardis-{version}", build) / "venv/bin/python"
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no TARDIS: {error}")


@pytest.fixture
def drones(tardis: Path, conninfo: str, tmp_path: Path) -> Iterator[Callable[[], dict[str, int]]]:
    """Starts COBalD; returns the number of drones in each state."""
    for file in EXAMPLE.iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    environment = {
        **os.environ,
        "FETCHWORK_DSN": conninfo,
        "FETCHWORK_DEMAND_INTERVAL": "1",
        "PATH": f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}",
    }
    # pytest's own path is not TARDIS's
    environment.pop("PYTHONPATH", None)
    log = tmp_path / "cobald.log"
    command = [str(tardis), "-m", "cobald.daemon", "drones.py"]
    with log.open("wb") as output:
        daemon = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=output, stderr=output)

    def states() -> dict[str, int]:
        assert daemon.poll() is None, log.read_text()
        try:
            with sqlite3.connect(f"file:{tmp_path}/drones.db?mode=ro", uri=True) as database:
                return dict(
                    database.execute(
                        "SELECT s.state, count(*) FROM Resources AS r JOIN ResourceStates AS s"
                        " ON s.state_id = r.state_id GROUP BY 1"
                    ).fetchall()
                )
        except sqlite3.Error:
            return {}

    yield states
    daemon.terminate()
    daemon.wait(PATIENCE_S)


def test_drones_come_for_idle_jobs_and_go_when_there_are_none(
    drones: Callable[[], dict[str, int]], queue: Queue
) -> None:
    # 5 jobs of 4 cores each: two to a drone of 8; and one that fits no drone
    cluster = queue.submit("executable = /bin/true\nrequest_cpus = 4\n", count=5, owner="alice").cluster()
    queue.submit("executable = /bin/true\nrequest_cpus = 16\n", owner="alice")
    until(lambda: drones() == {"AvailableState": 3})
    queue.act(JobAction.Remove, str(cluster))
    until(lambda: sum(drones().values()) == 0)
