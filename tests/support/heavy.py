"""Tests that take seconds of processor time have only some of their cases in `make test`, chosen here.

They are chosen by the test's name: each run has the same ones, and tests that share a parameter do not all
have the same value of it. ``make test-all`` has all of them.
"""

import functools
import zlib
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent.parent
#: one case
ONE = 1_000_000
#: a file, or the folder around it: one case is kept out of this many of each test there
HEAVY = {
    # real HTCondor, with a process for each hook; each DAG has another question, but neighbours are similar
    "condor": ONE,
    "clients": ONE,
    "dag": ONE,
    "dag/test_as_over_a_schedd.py": 2,
    # access points as processes
    "accesspoint": ONE,
    # commands as processes, beside HTCondor's own
    "commands": ONE,
    "commands/test_bad_input.py": 4,
    "commands/test_printing.py": 3,
    # processes that are killed and started again
    "faults": ONE,
    "faults/test_agent_killed.py": 3,
    "faults/test_seeded.py": 4,
    # agents as processes, hooks without one, servers beside one
    "agent/test_agent_process.py": ONE,
    "agent/test_buckets.py": ONE,
    "agent/test_hostile_ads.py": ONE,
    "agent/test_prepared.py": ONE,
    "agent/test_sending.py": ONE,
}


assert all((HERE / name).exists() for name in HEAVY)


def mark_further_cases(items: list[pytest.Item]) -> None:
    """Mark with `all` the further cases of heavy tests.

    A test with two HTCondors keeps cases of each: one of them may be missing.
    """
    tests: dict[tuple[str, object], list[pytest.Function]] = defaultdict(list)
    for item in items:
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
            continue
        if _one_of(item.path) > 1 and item.get_closest_marker("all") is None:
            name = item.nodeid.partition("[")[0]
            tests[name, item.callspec.params.get("suite")].append(item)
    for (name, _), cases in tests.items():
        step = min(_one_of(cases[0].path), len(cases))
        kept = cases[zlib.crc32(name.encode()) % step :: step]
        for item in cases:
            if item not in kept:
                item.add_marker("all")


@functools.cache
def _one_of(path: Path) -> int:
    if not path.is_relative_to(HERE):
        return 1
    file = path.relative_to(HERE)
    return HEAVY.get(file.as_posix()) or HEAVY.get(file.parts[0], 1)
