"""condor_run and condor_qsub, as Debian's package has them."""

import re

import pytest

from fetchwork.pool.condorroot import VENV
from tests.clients.conftest import Clients

pytestmark = [pytest.mark.all, pytest.mark.slow, pytest.mark.condor]


def test_condor_run_runs_a_job_and_brings_its_output_and_its_status(clients: Clients) -> None:
    folder = clients.folder("condor_run")
    done = clients.run(folder, "/usr/bin/condor_run", "-u", "vanilla", "echo from a job; echo bad >&2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "from a job" in done.stdout


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
