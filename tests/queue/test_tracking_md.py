"""TRACKING.md is true: its examples run, and its names exist."""

import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import fetchwork
from tests.support.direct_queue import DirectQueue
from tests.support.waiting import PATIENCE_S, until

REPOSITORY = Path(__file__).parents[2]
TEXT = (Path(fetchwork.__file__).parent / "following" / "TRACKING.md").read_text()
FOREVER, WITH_DEADLINE = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def run_example(program: str, conninfo: str, directory: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=directory,
        env={"FETCHWORK_DSN": conninfo, "USER": "alice", "LOGNAME": "alice", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.stderr == ""
    return done.stdout


def when_submitted(slots: DirectQueue, then: Callable[[], object]) -> threading.Thread:
    """Call a function as soon as a job waits."""

    def wait() -> None:
        until(lambda: slots.value("SELECT count(*) FROM fetchwork.jobs"))
        then()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.parametrize("program", [FOREVER, WITH_DEADLINE], ids=["forever", "deadline"])
@pytest.mark.parametrize(
    ("then", "told"),
    [
        (lambda slots: slots.finish(slots.started()), "Job terminated normally with return value 0."),
        (
            lambda slots: slots.finish(slots.started(), ExitSignal=9, ExitBySignal=True, JobPid=7),
            "Job terminated on signal 9.",
        ),
        (lambda slots: slots.act("hold", "1.0"), "Job aborted, held, or removed."),
    ],
    ids=["exit", "signal", "hold"],
)
def test_the_manual_s_examples_run(
    program: str,
    then: Callable[[DirectQueue], object],
    told: str,
    conninfo: str,
    slots: DirectQueue,
    tmp_path: Path,
) -> None:
    # on a busy machine the job may take longer to end
    program = program.replace("time.time() + 10", f"time.time() + {PATIENCE_S}")
    thread = when_submitted(slots, lambda: then(slots))
    try:
        assert run_example(program, conninfo, tmp_path) == told + "\n"
    finally:
        thread.join()


def test_the_deadline_of_the_manual_s_example_expires(conninfo: str, tmp_path: Path) -> None:
    program = WITH_DEADLINE.replace("time.time() + 10", "time.time() + 1")
    assert run_example(program, conninfo, tmp_path) == "Deadline expired.\n"


def test_every_test_and_benchmark_that_the_table_names_exists() -> None:
    sources = "".join(path.read_text() for path in (REPOSITORY / "tests").rglob("test_*.py"))
    table = TEXT[TEXT.index("| HTCondor: a drawback of") :]
    tests, benchmarks = re.findall(r"`(test_\w+)`", table), re.findall(r"`make (bench-\w+)`", table)
    assert len(tests) >= 10
    for name in tests:
        assert f"def {name}(" in sources, name
    for name in benchmarks:
        assert (REPOSITORY / "tests" / "benchmarks" / f"{name.replace('-', '_')}.py").exists(), name


def test_each_row_of_the_table_is_shown_by_something() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith(("| polling", "| event logs"))]
    assert len(rows) == 11
    assert all("`" in row.split("|")[4] for row in rows)
