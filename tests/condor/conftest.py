"""Real HTCondor for tests: a personal pool, in agent and in direct mode, from one Debian suite or several.

``--suites trixie,sid`` names the suites; ``machine`` is the machine's own HTCondor, which an ordinary user
gets where there is one. Without it ``SUITES`` are tested, and ``NEWEST``: by default in the files of
``OF_THE_VERSION``, in agent mode, where the versions differed, and with ``--all`` in all of them. Tests
whose HTCondor cannot be had are skipped, and the last lines of the run say so; under CI that is a failure
for ``SUITES``. Sid moves: where its root can't be made today, the run says so and goes on; a test that fails
there is news. With ``--all`` the life of jobs is tried with compiled hooks as well. The tests of this
directory run on three workers (see tests/conftest.py).
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from fetchwork.errors import HTCondorUnavailable
from fetchwork.pool import PersonalPool
from fetchwork.pool.condorroot import DEFAULT_SUITE, CondorRoot, condor_root
from fetchwork.pool.machine import machine_has_condor
from tests.condor.compiled_hooks import compile_hooks, hook_directory
from tests.conftest import NOT_TESTED

MACHINE = "machine"
SUITES = (DEFAULT_SUITE,)
NEWEST = "sid"
# How slots are made, fetch and fill, how jobs start and end, and what users read of it. Twice all of this
# directory would be half of `make test`; the other files have nothing that differed between 23.9 and 25.14.
OF_THE_VERSION = {"test_jobs", "test_readme_host", "test_scheduling", "test_tracking"}
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is here, and let it begin first: it takes longest."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("condor")
    items.sort(key=lambda item: HERE not in item.path.parents)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One pool after another: all tests of a pool run before the next pool is started."""
    suites = _suites(metafunc.config.getoption("--suites"))
    seldom = NEWEST if NEWEST in suites and not metafunc.config.getoption("--suites") else None
    name = metafunc.module.__name__.rpartition(".")[2]
    if "pool_mode" in metafunc.fixturenames:
        metafunc.parametrize(
            ("suite", "pool_mode"),
            [
                pytest.param(
                    suite,
                    mode,
                    marks=_marks(
                        mode == "compiled"
                        or (suite == seldom and (mode == "direct" or name not in OF_THE_VERSION))
                    ),
                )
                for suite in suites
                for mode in ("agent", "direct", *(["compiled"] if name == "test_jobs" else []))
            ],
            scope="session",
        )
    elif "suite" in metafunc.fixturenames:
        metafunc.parametrize(
            "suite",
            [
                pytest.param(suite, marks=_marks(suite == seldom and name not in OF_THE_VERSION))
                for suite in suites
            ],
            scope="session",
        )


def _marks(only_all: bool) -> list[pytest.MarkDecorator]:
    """Is it left to ``make test-all``?"""
    return [pytest.mark.all] if only_all else []


def _suites(asked: str | None) -> list[str]:
    if asked:
        return asked.split(",")
    if os.geteuid() != 0 and machine_has_condor():
        return [MACHINE]
    return [*SUITES, NEWEST]


def without_htcondor(suite: str, reason: HTCondorUnavailable) -> NoReturn:
    """Skip, or under CI fail where it is one of ``SUITES``."""
    if os.environ.get("CI") == "true" and suite in SUITES:
        pytest.fail(f"CI needs HTCondor: {reason}")
    pytest.skip(f"{NOT_TESTED} of {suite}: {reason}")


@pytest.fixture(scope="session")
def root(suite: str) -> CondorRoot:
    """The pool root of the suite."""
    if suite == MACHINE:
        pytest.skip("wants a root directory with HTCondor, not the machine's own")
    try:
        return condor_root(suite)
    except HTCondorUnavailable as reason:
        without_htcondor(suite, reason)


@pytest.fixture(scope="session")
def make_pool(suite: str, public_directory: Callable[[], Path]) -> Iterator[Callable[..., PersonalPool]]:
    """Starts pools with settings of their own, and stops them at the end of the session."""
    made: list[PersonalPool] = []

    def make(**settings: object) -> PersonalPool:
        of_suite = None if suite == MACHINE else suite
        pool = PersonalPool(public_directory() / "pool", suite=of_suite, **settings)  # type: ignore[arg-type]
        made.append(pool)
        try:
            return pool.start()
        except HTCondorUnavailable as reason:
            without_htcondor(suite, reason)

    yield make
    for pool in made:
        pool.stop()


@pytest.fixture(scope="session")
def pool(pool_mode: str, make_pool: Callable[..., PersonalPool]) -> Iterator[PersonalPool]:
    """The pool that most tests share: 4 static slots; its jobs are those of many tests."""
    started = make_pool(agent=pool_mode != "direct", config="STARTER_UPDATE_INTERVAL = 2\n")
    if pool_mode == "compiled":
        compile_hooks(hook_directory(started))
    yield started
    started.stop()
