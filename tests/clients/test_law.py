"""law: its job manager for HTCondor, as its workflows use it."""

import pytest

from tests.clients.conftest import Clients

pytestmark = [pytest.mark.all, pytest.mark.slow, pytest.mark.condor]

#: three jobs: one that succeeds, one that fails, one that is cancelled; and law's status of each
MANAGER = """
import time
import law
law.contrib.load("htcondor")
from law.contrib.htcondor.job import HTCondorJobFileFactory, HTCondorJobManager

factory = HTCondorJobFileFactory(dir="{folder}/jobs", mkdtemp=False, executable="{folder}/work.sh")
manager = HTCondorJobManager()
print("version", ".".join(map(str, manager.htcondor_version)))

def submit(*arguments):
    name = "_".join(arguments)
    job_file, _ = factory.create(arguments=[" ".join(arguments)], postfix="_" + name)
    return manager.submit(job_file)

def wait(job, *states):
    while True:
        found = manager.query([job])[job]
        if found["status"] in states:
            return found
        time.sleep(0.5)

good, bad, slow = submit("0", "0"), submit("5", "0"), submit("0", "600")
print("running", wait(slow, "running")["job_id"] == slow)
manager.cancel([slow])
for name, job in (("good", good), ("bad", bad), ("slow", slow)):
    found = wait(job, "finished", "failed")
    print(name, found["status"], found["code"], found["error"])
"""
WORK = """#!/bin/sh
echo "work $1"
sleep "$2"
exit "$1"
"""


def test_the_job_manager_submits_follows_and_cancels(clients: Clients, packages: str) -> None:
    folder = clients.folder("law", work__sh=WORK, manager__py=MANAGER.format(folder="/tmp/law"))
    (clients.tmp / "law/jobs").mkdir()
    (clients.tmp / "law/jobs").chmod(0o777)
    done = clients.python(folder, "manager.py")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("version 25.") and lines[1] == "running True", done.stdout
    assert "good finished 0 None" in lines
    assert any(line.startswith("bad failed 5 ") for line in lines), done.stdout
    assert any(line.startswith("slow failed 0 ") and "condor_rm" in line for line in lines), done.stdout
    assert (clients.tmp / "law/jobs/stdout_0_0.txt").read_text() == "work 0\n"
