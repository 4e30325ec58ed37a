"""Parsl: its pilots are jobs of CondorProvider, with the transfers and the options of its own template."""

import pytest

from fetchwork.pool.condorroot import VENV
from tests.clients.conftest import Clients

pytestmark = [pytest.mark.all, pytest.mark.slow, pytest.mark.condor]

#: pip's own script names another Python
WORKER = f"""#!/bin/sh
exec {VENV}/bin/python -m parsl.executors.high_throughput.process_worker_pool "$@"
"""
INTERCHANGE = f"""#!/bin/sh
exec {VENV}/bin/python -m parsl.executors.high_throughput.interchange "$@"
"""
PROGRAM = """
import pathlib
import sys
import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.providers import CondorProvider

@parsl.python_app
def squared(number):
    import os
    return number * number, os.path.exists("brought.txt"), os.getcwd()

provider = CondorProvider(
    init_blocks=2, max_blocks=2, transfer_input_files=["brought.txt"], worker_init={init!r},
)
executor = HighThroughputExecutor(
    label="pilots", address="127.0.0.1", provider=provider, max_workers_per_node=1,
    interchange_launch_cmd=["./interchange"],
)
config = Config(executors=[executor], run_dir="runs", strategy="none", usage_tracking=0)
with parsl.load(config):
    try:
        found = [future.result(timeout={patience}) for future in [squared(n) for n in range(10)]]
    except Exception as error:
        sys.exit(f"no result: {{type(error).__name__}}: {{error}}")
    print("sum", sum(one[0] for one in found))
    print("brought", all(one[1] for one in found))
    print("elsewhere", all(one[2] != str(pathlib.Path.cwd()) for one in found))
"""


def program(init: str, patience: int) -> str:
    return PROGRAM.format(init=init, patience=patience)


def test_apps_run_in_pilots_that_bring_their_files_and_are_removed_at_the_end(
    clients: Clients, packages: str
) -> None:
    folder = clients.folder(
        "parsl", program__py=program("export PATH=/tmp/parsl:$PATH", 180), interchange=INTERCHANGE
    )
    worker = clients.tmp / "parsl/process_worker_pool.py"
    worker.write_text(WORKER)
    worker.chmod(0o755)
    (clients.tmp / "parsl/brought.txt").write_text("by the job\n")
    done = clients.python(folder, "program.py")
    logs = "".join(path.read_text() for path in (clients.tmp / "parsl").rglob("*.std*"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    assert "sum 285" in done.stdout
    assert "brought True" in done.stdout and "elsewhere True" in done.stdout
    left = clients.run(folder, "condor_q", "-af", "ClusterId")
    assert left.stdout == "", left.stdout
    ended = clients.jobs(folder, "JobStatus", "ShouldTransferFiles")
    assert ended == [["3", "YES"]] * 2
