"""Processes that a run of the tests has started do not outlive it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fetchwork.pool.cache import marks
from tests.support.leftovers import MEMORY, VARIABLE, in_memory, left
from tests.support.waiting import PATIENCE_S, until

# as a run: starts a server that ignores SIGTERM and runs on its own, has a directory in memory, and is cut
RUN = """
import os, signal, subprocess, sys, tempfile, time
from tests.support.leftovers import MEMORY, VARIABLE, in_memory, watch_over_this_run
watch_over_this_run()
tempfile.mkdtemp(prefix=in_memory(os.environ[VARIABLE]), dir=MEMORY)
server = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
subprocess.Popen([sys.executable, "-c", server], start_new_session=True, stdin=subprocess.DEVNULL)
print(os.environ[VARIABLE], flush=True)
time.sleep(3600)
"""


def in_memory_of(run: str) -> list[Path]:
    return list(MEMORY.glob(f"{in_memory(run)}*"))


@pytest.mark.skipif(not os.access(MEMORY, os.W_OK), reason=f"no {MEMORY}")
def test_what_a_cut_run_has_started_is_killed_and_what_it_had_in_memory_removed() -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    with subprocess.Popen(
        [sys.executable, "-c", RUN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        name = run.stdout.readline().decode().strip()
        # the run itself has the variable in its own memory only
        until(lambda: len(left(name)) == 2)
        assert len(in_memory_of(name)) == 1
        # no one reads the watcher's words
        run.stderr.close()
        run.send_signal(signal.SIGKILL)
    until(lambda: not left(name))
    until(lambda: not in_memory_of(name))


BENCHMARK = """
import subprocess, sys
subprocess.Popen(["sleep", "1000"], start_new_session=True)
print("began", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_benchmark_that_is_ended_leaves_no_process(tmp_path: Path, number: int) -> None:
    (tmp_path / "bench_long_one.py").write_text(BENCHMARK)
    program = (
        "import sys; sys.path[:0] = [sys.argv.pop(1)]\n"
        "from tests.benchmarks import run\n"
        "run.__file__ = sys.argv.pop(1)\n"
        "run.main()\n"
    )
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", program, root, str(tmp_path / "run.py"), "long-one"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"began\n"
        run = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        environment = b"".join(Path(f"/proc/{child}/environ").read_bytes() for child in run)
        ours = environment.partition(f"{VARIABLE}=".encode())[2].partition(b"\0")[0].decode()
        assert left(ours)
        os.killpg(running.pid, number)
        running.wait(PATIENCE_S)
    until(lambda: not left(ours), "the end of all that it had started")


def test_processes_of_a_pool_keep_the_run_that_started_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "of-this-test")
    assert marks().items() >= {VARIABLE: "of-this-test"}.items()
