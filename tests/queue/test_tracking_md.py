"""TRACKING.md is true: the tests and benchmarks that it names exist."""

import re
from pathlib import Path

import fetchwork

REPOSITORY = Path(__file__).parents[2]
TEXT = (Path(fetchwork.__file__).parent / "following" / "TRACKING.md").read_text()


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
