"""Some of the steps of ``make bench-fidelity``, on the pool that has a schedd and an access point."""

import re
from pathlib import Path

import pytest

import fetchwork.modules
from fetchwork.pool import PersonalPool
from tests.benchmarks.bench_fidelity import show
from tests.condor.fidelity import REASONS, Alices, compared, reason
from tests.dag.sides import Queue
from tests.dag.suites import NEWEST

DOCUMENT = Path(fetchwork.modules.__file__).with_name("DIFFERENCES.md")
#: one step of so many
SHARE = 17


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """With the HTCondor that is compared."""
    if "suite" in metafunc.fixturenames:
        metafunc.parametrize("suite", [NEWEST], scope="session")


def test_answers_are_those_of_a_schedd_but_for_the_documented_reasons(
    pool: PersonalPool, queue: Queue, suite: str, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = compared(queue, Alices(pool), SHARE)
    different = [step for step in steps if not step.identical]
    # as the benchmark shows them
    show(steps, every=True)
    shown = capsys.readouterr().out
    print(shown)
    assert shown.splitlines()[-1] == f"identical steps: {len(steps) - len(different)} of {len(steps)}"
    assert len(steps) > 40
    assert len(different) < len(steps) / 4
    assert [step for step in different if reason(step) == "no reason is known"] == []


def test_the_reasons_are_those_of_the_document() -> None:
    written = re.findall(r"^\| [\w ]+ \| (.*) \|$", DOCUMENT.read_text(), re.M)[1:]
    assert set(written) == {why for _, why in REASONS}
