"""Makeflow, as Debian's package has it: its jobs bring their files and take them, and it reads one log."""

import shutil
import subprocess
from pathlib import Path

import pytest

from fetchwork.pool.cache import cached
from tests.clients.conftest import Clients

pytestmark = [pytest.mark.all, pytest.mark.slow, pytest.mark.condor]

#: download the package and its dependencies; the root they would be installed in must not change
FETCH = """
set -e
mkdir -p "$1/tree"
cd "$1"
apt-get -q update
apt-get -q install -y --no-install-recommends --download-only -o "Dir::Cache::archives=$1" \
    -o APT::Sandbox::User=root coop-computing-tools
for package in *.deb; do dpkg -x "$package" tree; done
"""
#: a slot's resources in the pool; Makeflow asks for 1 GiB by default
SMALL = "CORES=1\nMEMORY=64\nDISK=20\n\n"
#: a file of its own, a program, a chain, and a rule with two outputs
WORKFLOW = f"""{SMALL}
upper.txt: in.txt upper.sh
\t./upper.sh in.txt > upper.txt

one.txt two.txt: upper.txt
\thead -1 upper.txt > one.txt; tail -1 upper.txt > two.txt

sum.txt: one.txt two.txt
\tcat two.txt one.txt > sum.txt
"""
UPPER = "#!/bin/sh\ntest ! -e Makeflow && tr a-z A-Z < $1\n"


@pytest.fixture(scope="session")
def makeflow(clients: Clients) -> str:
    """The directory with Makeflow and its libraries, as the jobs' submitters see it."""

    def made(directory: Path) -> None:
        there = clients.tmp / "makeflow-packages"
        done = clients.pool.run_command(["sh", "-c", FETCH, "sh", "/tmp/makeflow-packages"])
        if done.returncode:
            raise OSError(done.stderr)
        shutil.copytree(there / "tree/usr", directory / "usr", symlinks=True)

    try:
        tree = cached("makeflow-trixie", made)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no Makeflow from Debian: {error}")
    shutil.copytree(tree / "usr", clients.tmp / "makeflow", symlinks=True)
    subprocess.run(["chmod", "-R", "a+rX", clients.tmp / "makeflow"], check=True)
    return "/tmp/makeflow"


def run(clients: Clients, makeflow: str, folder: str, *more: str) -> "subprocess.CompletedProcess[str]":
    libraries = next((clients.tmp / "makeflow/lib").glob("*-linux-gnu")).name
    words = ["-T", "condor", "--wait-for-files-upto", "0", "--max-remote", "2"]
    return clients.run(
        folder,
        "sh", "-c", 'export LD_LIBRARY_PATH="$0"; exec "$@"', f"{makeflow}/lib/{libraries}",
        f"{makeflow}/bin/makeflow",
        *words,
        *more,
        "Makeflow",
    )  # fmt: skip


def test_a_workflow_runs_and_its_files_travel(clients: Clients, makeflow: str) -> None:
    folder = clients.folder("makeflow-good", Makeflow=WORKFLOW, in__txt="first\nlast\n", upper__sh=UPPER)
    done = run(clients, makeflow, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (clients.tmp / "makeflow-good/sum.txt").read_text() == "LAST\nFIRST\n"
    ended = clients.jobs(folder, "JobStatus", "ShouldTransferFiles", "ExitCode")
    assert ended == [["4", "YES", "0"]] * 3


def test_a_rule_that_fails_is_tried_again_and_leaves_nothing(clients: Clients, makeflow: str) -> None:
    folder = clients.folder("makeflow-bad", Makeflow=f"{SMALL}never.txt:\n\techo half > never.txt; exit 3\n")
    done = run(clients, makeflow, folder, "--retry-count", "1")
    said = done.stdout + done.stderr
    # its exit status is 0 even so
    assert "failed with exit code 3" in said and "failed too many times" in said, said
    assert not (clients.tmp / "makeflow-bad/never.txt").exists()
    assert clients.jobs(folder, "JobStatus", "ExitCode") == [["4", "3"]] * 2
