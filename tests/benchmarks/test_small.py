"""Benchmarks run and end with their figures, at sizes that take seconds and so measure nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from fetchwork.compiler import has_compiler
from fetchwork.errors import HTCondorUnavailable
from fetchwork.pool.condorroot import DEFAULT_SUITE, condor_root
from fetchwork.pool.postgres import server_version, wheel_programs
from tests.benchmarks.compare import figures_of
from tests.conftest import NOT_TESTED, WITHOUT_COMPILER
from tests.dag.suites import NEWEST

HERE = Path(__file__).parent
#: benchmark -> arguments
ARGUMENTS = {
    "act": "--jobs 200",
    "claims": "--sizes 200 --rounds 1 --seconds 1 --passed 200",
    "cycle": "--jobs 40 --rounds 1 --without-peers",
    "events": "--events 2000 --seconds 1 --rounds 1 --jobs 40",
    "fairness": "--seconds 3 --halflife 1",
    "hooks": "1",
    "hostile": "--hostile 50 --jobs 2 --rest 0 --failing 40 --flood 2",
    "join": "--hosts 10 --roles 20 --rounds 1",
    "idle": "--agents 1 --slots 4 --seconds 2",
    "match": "--rounds 2 --share 20 --sizes none --no-fill"
    " --limited-jobs 20000 --limited-agents 1 --limited-rounds 1 --seconds 1",
    "page": "--jobs 40000 --history 5000 --rounds 1",
    "simulate": "--hosts 1 --slots 2 --seconds 5 --sleep 1",
    "starts": "--starts 400 --limit 40 --agents 1 --sessions 3",
    "submit": "--jobs 200 --rounds 1 --without-peers",
    "tracking": "--jobs 1000 --history 2000 --without-condor",
}
#: benchmarks with a pool of HTCondor, each for half a minute
WITH_HTCONDOR = {
    "commands": "--jobs 20 --pollers 2 --polled-jobs 4 --every-s 1 --probes 1 --most-s 5",
    "dag": "--wide 4 --chain 2 --idle 1 --idle-s 1 --rounds 1",
    "fidelity": "--share 100",
    "files": "--mib 1 --jobs 2 --rounds 1",
    "fill": "--cores 2 --slots 2",
    "start": "--singles 1 --chain 2 --removals 1 --rest 0",
    "startd": "--jobs 4 --rounds 1",
}


def test_every_benchmark_is_run() -> None:
    named = {path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py")}
    assert named == {*ARGUMENTS, *WITH_HTCONDOR}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    # PostgreSQL's servers report their counts every ten seconds, for which "idle" waits six times
    [pytest.param(name, marks=[pytest.mark.all] if name == "idle" else []) for name in ARGUMENTS],
)
def test_a_benchmark_ends_with_its_figure(name: str) -> None:
    if name == "hostile" and server_version(wheel_programs()) < "17":
        pytest.skip("the queue of notifications of an older PostgreSQL can't be made small")
    _run(name, ARGUMENTS[name])


@pytest.mark.slow
@pytest.mark.all
@pytest.mark.parametrize("name", WITH_HTCONDOR)
def test_a_benchmark_with_htcondor_ends_with_its_figure(name: str) -> None:
    suite = NEWEST if name == "fidelity" else DEFAULT_SUITE
    try:
        condor_root(suite)
    except HTCondorUnavailable as reason:
        pytest.skip(f"{NOT_TESTED} of {suite}: {reason}")
    if name in ("commands", "dag", "startd") and not has_compiler():
        pytest.skip(WITHOUT_COMPILER)
    _run(name, WITH_HTCONDOR[name])


def _run(name: str, arguments: str) -> None:
    command = [sys.executable, "-m", "tests.benchmarks.run", name, *arguments.split()]
    ended = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{ended.stdout[-2000:]}\n{ended.stderr[-4000:]}"
    assert figures_of(ended.stdout)
