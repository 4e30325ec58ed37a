"""condor_run and condor_qsub, as Debian's package has them."""

import re

import pytest

from fetchwork.pool.condorroot import VENV
from tests.clients.conftest import Clients
from tests.support.waiting import until

pytestmark = [pytest.mark.all, pytest.mark.slow, pytest.mark.condor]


def test_condor_run_runs_a_job_and_brings_its_output_and_its_status(clients: Clients) -> None:
    folder = clients.folder("condor_run")
    done = clients.run(folder, "/usr/bin/condor_run", "-u", "vanilla", "echo from a job; echo bad >&2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "from a job" in done.stdout


def test_condor_run_ends_with_the_status_of_a_job_that_fails(clients: Clients) -> None:
    folder = clients.folder("condor_run-bad")
    done = clients.run(folder, "/usr/bin/condor_run", "echo so far; exit 3")
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stdout == "so far\n"


def test_condor_run_removes_its_job_when_it_is_interrupted(clients: Clients) -> None:
    folder = clients.folder("condor_run-interrupted")
    done = clients.interrupted(folder, "/usr/bin/condor_run", "sleep 600")
    assert done.returncode == 1 and "Killed by SIGINT" in done.stderr, done.stdout + done.stderr
    until(lambda: clients.jobs(folder, "JobStatus") == [["3"]])


def test_condor_qsub_submits_a_script(clients: Clients) -> None:
    folder = clients.folder("condor_qsub", job__sh="#!/bin/sh\n#PBS -N named\necho out of qsub\n")
    done = clients.run(folder, "/usr/bin/condor_qsub", "job.sh")
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"Your job (\d+) ", done.stdout)
    assert found, done.stdout
    waited = clients.run(folder, f"{VENV}/bin/fetchwork", "wait", found[1])
    assert waited.returncode == 0, waited.stdout + waited.stderr
    (output,) = (clients.tmp / "condor_qsub").glob("*.o*")
    assert output.read_text() == "out of qsub\n"


def test_a_script_of_condor_qsub_that_fails_has_its_status(clients: Clients) -> None:
    folder = clients.folder("condor_qsub-bad", job__sh="#!/bin/sh\nexit 3\n")
    done = clients.run(folder, "/usr/bin/condor_qsub", "job.sh")
    assert done.returncode == 0, done.stdout + done.stderr
    until(lambda: clients.jobs(folder, "JobStatus", "ExitCode") == [["4", "3"]])


def test_what_condor_qsub_submitted_is_removed_by_the_id_that_it_says(clients: Clients) -> None:
    folder = clients.folder("condor_qsub-removed", job__sh="#!/bin/sh\nsleep 600\n")
    done = clients.run(folder, "/usr/bin/condor_qsub", "job.sh")
    found = re.search(r"Your job (\d+) ", done.stdout)
    assert found, done.stdout + done.stderr
    removed = clients.run(folder, "condor_rm", found[1])
    assert removed.stdout == f"All jobs in cluster {found[1]} have been marked for removal\n"
    until(lambda: clients.jobs(folder, "JobStatus") == [["3"]])
