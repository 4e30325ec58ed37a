"""The HTCondor versions of DAG tests: Debian's current one, and the newest."""

import pytest

from fetchwork.pool.condorroot import DEFAULT_SUITE

NEWEST = "sid"
#: the major version of HTCondor in a suite
MAJOR = {DEFAULT_SUITE: 23, NEWEST: 25}


def suites(config: pytest.Config) -> list[str]:
    """The suites of ``--suites``, or both."""
    asked: str | None = config.getoption("--suites")
    return asked.split(",") if asked else [DEFAULT_SUITE, NEWEST]
