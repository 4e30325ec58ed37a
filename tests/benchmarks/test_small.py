"""Benchmarks run and end with their figures, at sizes that take seconds and so measure nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    "idle": "--agents 1 --slots 4 --seconds 2",
    "match": "--rounds 2 --sizes none --no-fill",
    "page": "--jobs 40000 --history 5000",
    "simulate": "--hosts 1 --slots 2 --seconds 5 --sleep 1",
    "submit": "--jobs 200 --rounds 1 --without-peers",
    "tracking": "--jobs 1000 --history 2000 --without-condor",
}
#: benchmarks that need a pool of HTCondor: they are not run here
WITH_HTCONDOR = {"commands", "dag", "fidelity", "files", "fill", "start", "startd"}


def test_every_benchmark_is_run_or_left_out() -> None:
    named = {path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py")}
    assert named == {*ARGUMENTS, *WITH_HTCONDOR}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    # PostgreSQL's servers report their counts every ten seconds, for which "idle" waits six times
    [pytest.param(name, marks=[pytest.mark.all] if name == "idle" else []) for name in ARGUMENTS],
)
def test_a_benchmark_ends_with_its_figure(name: str) -> None:
    command = [sys.executable, "-m", "tests.benchmarks.run", name, *ARGUMENTS[name].split()]
    ended = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{ended.stdout[-2000:]}\n{ended.stderr[-4000:]}"
    assert re.fullmatch(r"[^:]+: -?[\d.]+", ended.stdout.splitlines()[-1]), ended.stdout[-2000:]
