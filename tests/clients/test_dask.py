"""dask-jobqueue: a Dask cluster whose workers are jobs."""

import pytest

from tests.clients.conftest import Clients

pytestmark = [pytest.mark.all, pytest.mark.slow, pytest.mark.condor]

#: a cluster, a task for a client of it, and its end
CLUSTER = """
import os
import subprocess
import time
from dask.distributed import Client
from dask_jobqueue import HTCondorCluster

def square(number):
    return number * number

if __name__ == "__main__":
    asked = {{"cores": 1, "memory": "100MB", "disk": "50MB", "log_directory": "logs"}}
    with HTCondorCluster(**asked, scheduler_options={{"dashboard": False}}, {more}) as cluster:
        with Client(cluster) as client:
            cluster.scale(jobs={jobs})
            {work}
"""
COMPUTE = """client.wait_for_workers({jobs}, timeout=120)
            print("sum", sum(client.gather(client.map(square, range(10)))))
            print("workers", len(client.scheduler_info()["workers"]))
            cluster.scale(jobs=0)
            while client.scheduler_info()["workers"]:
                time.sleep(0.2)
"""
#: the worker is a job that has ended, at any time
FAIL = """ended = ["condor_history", "-constraint", f'Iwd == "{{os.getcwd()}}"', "-af", "ExitCode"]
            while not subprocess.run(ended, check=True, capture_output=True).stdout:
                time.sleep(0.2)
            try:
                client.wait_for_workers(1, timeout=1)
            except TimeoutError:
                print("no worker came")
"""


def program(work: str, jobs: int, more: str = "") -> str:
    return CLUSTER.format(work=work.format(jobs=jobs), jobs=jobs, more=more)


def test_a_computation_runs_on_workers_that_are_jobs_and_its_end_removes_them(
    clients: Clients, packages: str
) -> None:
    folder = clients.folder("dask", compute__py=program(COMPUTE, 2))
    done = clients.python(folder, "compute.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sum 285" in done.stdout and "workers 2" in done.stdout
    # scale(0) removes workers with condor_rm, unless they were told to end before
    ended = clients.jobs(folder, "JobStatus", "RequestCpus", "ExitCode")
    assert len(ended) == 2
    assert all(job[0] == "3" or job == ["4", "1", "0"] for job in ended), ended


def test_a_worker_that_fails_is_a_job_that_failed(clients: Clients, packages: str) -> None:
    more = 'job_script_prologue=["exit 3"]'
    folder = clients.folder("dask-bad", compute__py=program(FAIL, 1, more))
    done = clients.python(folder, "compute.py")
    assert done.returncode == 0 and "no worker came" in done.stdout, done.stdout + done.stderr
    assert ["4", "3"] in clients.jobs(folder, "JobStatus", "ExitCode")
