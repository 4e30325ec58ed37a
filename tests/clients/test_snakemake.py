"""Snakemake: by its executor plugin for HTCondor, which uses the module, and by commands."""

import pytest

from fetchwork.pool.condorroot import VENV
from tests.clients.conftest import Clients
from tests.support.waiting import until

pytestmark = [pytest.mark.all, pytest.mark.slow, pytest.mark.condor]

SNAKEFILE = """
rule all:
    input: "sum.txt"

rule part:
    output: "part{number}.txt"
    shell: "echo {wildcards.number} > {output}"

rule sum:
    input: "part1.txt", "part2.txt"
    output: "sum.txt"
    shell: "cat {input} > {output}"
"""
FAILING = """
rule all:
    output: "never.txt"
    shell: "exit 3"
"""
SLOW = """
rule all:
    output: "never.txt"
    shell: "sleep 600"
"""
#: --cluster-generic with our commands: the submit command prints only the id
SUBMIT = """#!/bin/sh
id=$(printf 'executable = %s\\nerror = job.err\\nqueue\\n' "$1" | condor_submit -terse) || exit 1
echo "${id%% *}"
"""
STATUS = """#!/bin/sh
status=$(condor_q "$1" -af JobStatus)
[ -n "$status" ] || status=$(condor_history "$1" -limit 1 -af JobStatus ExitCode)
case $status in
    "4 0") echo success ;;
    4*|3*|5*) echo failed ;;
    *) echo running ;;
esac
"""
COMMANDS = (
    "--executor", "cluster-generic", "--cluster-generic-submit-cmd", "./submit",
    "--cluster-generic-status-cmd", "./status", "--cluster-generic-cancel-cmd", "condor_rm",
)  # fmt: skip
EXECUTORS = {"plugin": ("--executor", "htcondor"), "commands": COMMANDS}


def snakemake(executor: str) -> list[str]:
    words = ["-m", "snakemake", "--jobs", "2", "--latency-wait", "10"]
    return [*words, "--seconds-between-status-checks", "1", *EXECUTORS[executor]]


def run(clients: Clients, folder: str, executor: str) -> "tuple[int, str]":
    done = clients.python(folder, *snakemake(executor))
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_workflow_runs_to_its_end(clients: Clients, packages: str, executor: str) -> None:
    name = f"snakemake-{executor}"
    folder = clients.folder(name, Snakefile=SNAKEFILE, submit=SUBMIT, status=STATUS)
    status, said = run(clients, folder, executor)
    err = clients.tmp / name / "job.err"
    assert status == 0, err.read_text() if err.exists() else said
    assert (clients.tmp / name / "sum.txt").read_text() == "1\n2\n"


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_job_that_fails_ends_the_workflow(clients: Clients, packages: str, executor: str) -> None:
    folder = clients.folder(f"snakemake-bad-{executor}", Snakefile=FAILING, submit=SUBMIT, status=STATUS)
    status, said = run(clients, folder, executor)
    assert status == 1, said
    assert "Error in rule all" in said


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_workflow_that_is_interrupted_removes_its_jobs(
    clients: Clients, packages: str, executor: str
) -> None:
    folder = clients.folder(f"snakemake-stop-{executor}", Snakefile=SLOW, submit=SUBMIT, status=STATUS)
    done = clients.interrupted(folder, f"{VENV}/bin/python", *snakemake(executor))
    assert done.returncode == 1, done.stdout + done.stderr
    until(lambda: clients.jobs(folder, "JobStatus") == [["3"]])
