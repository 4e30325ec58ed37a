"""ClassAds mean the same in any locale of the process."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import locales

#: tests that read, compare, evaluate and match ClassAds
TESTS = ["test_constraint.py", "test_matching.py", "test_policy.py"]
#: names of attributes and text that differ in case
PROGRAM = """
import locale
from fetchwork.classad.values import ClassAd
ad = ClassAd("[ImageSize = 1; Idle = 2]")
print(ad.get("IMAGESIZE"), ad.get("idle"), locale.setlocale(locale.LC_TIME, ""))
"""


@pytest.mark.parametrize("name", locales.NAMES)
def test_names_of_attributes_ignore_case_as_ever(name: str, tmp_path: Path) -> None:
    program = [sys.executable, "-c", PROGRAM]
    told = subprocess.run(
        program, env=locales.environment(name, tmp_path), check=True, capture_output=True, text=True
    )
    # a person's own locale is not changed
    assert told.stdout.split() == ["1", "2", name]


@pytest.mark.parametrize("name", locales.NAMES)
def test_the_tests_of_classads_pass_in_other_locales(name: str, tmp_path: Path) -> None:
    here = Path(__file__).parent
    run = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider",
            *(str(here / test) for test in TESTS),
        ],
        env=locales.environment(name, tmp_path),
        cwd=here.parents[1],
        check=False,
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-4000:]
