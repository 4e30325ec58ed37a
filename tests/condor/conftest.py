"""Real HTCondor for tests: a personal pool, with few and with all hooks, from one Debian suite or several.

``--suites trixie,sid`` names the suites; ``machine`` is the machine's own HTCondor, which an ordinary user
gets if it is installed. Without it all is tested with each of ``SUITES``; tests that are marked `newest`, and
by ``--all`` all of them, with ``NEWEST`` too. Tests whose HTCondor cannot be had are skipped, and the last
lines of the run say so; under CI that is a failure for ``SUITES``. Sid moves: if its root cannot be made
today, the run says so and goes on; a test that fails there is a new finding. With ``--all`` the life of jobs
is tried with compiled hooks as well. The tests of this directory run on five workers (see tests/conftest.py).
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from fetchwork.errors import HTCondorUnavailable
from fetchwork.pool import PersonalPool
from fetchwork.pool.condorroot import DEFAULT_SUITE, CondorRoot, condor_root
from fetchwork.pool.machine import machine_has_condor
from tests.condor.compiled_hooks import compile_hooks, hook_directory
from tests.condor.file_jobs import FileJobs
from tests.condor.pool_jobs import jobs_in
from tests.conftest import NOT_TESTED
from tests.support.copies import CopiedPool
from tests.support.sandboxes import STORE_PLUGIN

MACHINE = "machine"
SUITES = (DEFAULT_SUITE,)
NEWEST = "sid"
#: also tried by `make test` when HTCondor calls all hooks: an agent that may signal jobs does without some
ALSO_WITH_ALL_HOOKS = (
    "test_exit_code_is_on_record_with_the_slot_and_the_time_it_took",
    "test_vacated_job_is_idle_again_and_completes_in_a_second_run",
    "test_removed_running_job_is_removed_when_its_process_is_gone",
    "test_job_removed_between_claim_and_prepare_job_never_starts",
    "test_jobs_that_cannot_start_are_held_with_the_cause_and_the_slots_go_on",
    "test_job_of_a_killed_starter_is_idle_again_before_its_lease_ends",
    "test_postgresql_may_crash_while_jobs_run_and_end",
    "test_orphan_is_found_when_all_daemons_were_killed",
)
MakePool = Callable[..., PersonalPool]
#: of an agent that may not signal jobs: HTCondor calls all hooks, for each job
ALL_HOOKS = {"agent": {"root_part": False}}
HERE = Path(__file__).parent
#: a master that restarts killed daemons at once
RESTARTS = """
MASTER_BACKOFF_CONSTANT = 1
MASTER_BACKOFF_FACTOR = 1
"""
#: and starters that report their jobs' usage soon
QUICK = f"STARTER_UPDATE_INTERVAL = 2\n{RESTARTS}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Mark the tests of this directory.

    With all hooks ``ALSO_WITH_ALL_HOOKS`` is tried, with the newest HTCondor the tests marked `newest`; by
    ``--all`` all tests run with each.
    """
    here = {path for path in {item.path for item in items} if HERE in path.parents}
    for item in items:
        if item.path in here:
            item.add_marker("condor")
            if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
                continue
            params = item.callspec.params
            seldom = item.originalname not in ALSO_WITH_ALL_HOOKS
            if params.get("pool_mode") == "all_hooks" and seldom and not config.getoption("--suites"):
                item.add_marker("all")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One pool after another: all tests of a pool run before the next pool is started."""
    if "suite" in metafunc.fixturenames:
        asked = metafunc.config.getoption("--suites")
        suites: list[Any] = list(_suites(asked))
        if not asked and metafunc.definition.get_closest_marker("newest") is None:
            # HTCondor behaves the same in both, and a run of everything finds out if it does not
            suites = [pytest.param(one, marks=pytest.mark.all) if one == NEWEST else one for one in suites]
        metafunc.parametrize("suite", suites, scope="session")
    if "pool_mode" in metafunc.fixturenames:
        has_all_hooks = metafunc.module.__name__.endswith(".test_jobs")
        compiled = [pytest.param("compiled", marks=pytest.mark.all)] if has_all_hooks else []
        breaks = metafunc.module.__name__.endswith(".test_worst_day")
        chains = [pytest.param("chains", marks=pytest.mark.all)] if breaks else []
        metafunc.parametrize("pool_mode", ["agent", "all_hooks", *compiled, *chains], scope="session")


def _suites(asked: str | None) -> list[str]:
    if asked:
        return asked.split(",")
    if os.geteuid() != 0 and machine_has_condor():
        return [MACHINE]
    return [*SUITES, NEWEST]


def without_htcondor(suite: str, reason: HTCondorUnavailable) -> NoReturn:
    """Skip the test; under CI fail it if the suite is one of ``SUITES``."""
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


@contextlib.contextmanager
def _pools(suite: str, directory: Callable[[], Path]) -> Iterator[MakePool]:
    """Starts pools with settings of their own, and stops them at the end."""
    made: list[PersonalPool] = []

    def make(**settings: object) -> PersonalPool:
        of_suite = None if suite == MACHINE else suite
        pool = CopiedPool(directory() / "pool", suite=of_suite, **settings)  # type: ignore[arg-type]
        made.append(pool)
        try:
            return pool.start()
        except HTCondorUnavailable as reason:
            without_htcondor(suite, reason)

    yield make
    for pool in made:
        pool.stop()


@pytest.fixture(scope="module")
def make_pool(suite: str, public_directory: Callable[[], Path]) -> Iterator[MakePool]:
    """Starts pools of one module: a pool without jobs takes processor time too."""
    with _pools(suite, public_directory) as make:
        yield make


@pytest.fixture(scope="session")
def make_lasting_pool(suite: str, public_directory: Callable[[], Path]) -> Iterator[MakePool]:
    """Starts pools of several modules."""
    with _pools(suite, public_directory) as make:
        yield make


@pytest.fixture(scope="session")
def pool(pool_mode: str, make_lasting_pool: MakePool) -> Iterator[PersonalPool]:
    """The pool that most tests share: 4 static slots; its jobs are those of many tests."""
    started = make_lasting_pool(host=ALL_HOOKS if pool_mode == "all_hooks" else {}, config=QUICK)
    if pool_mode == "compiled":
        compile_hooks(hook_directory(started))
    yield started
    started.stop()


@pytest.fixture(scope="session")
def file_pool(suite: str, make_lasting_pool: MakePool) -> PersonalPool:
    """A host that shares nothing, and has a plugin of its site's own."""
    plugins = "FILETRANSFER_PLUGINS = $(FILETRANSFER_PLUGINS), /tmp/site_plugin\n"
    pool = make_lasting_pool(config=QUICK + plugins, host={"files": {"shared": []}})
    plugin = pool.directory / "tmp/site_plugin"
    plugin.write_text(STORE_PLUGIN)
    plugin.chmod(0o755)
    return pool


@pytest.fixture
def jobs(file_pool: PersonalPool) -> Iterator[FileJobs]:
    """Its jobs; modules that have another pool have such a fixture of their own."""
    with jobs_in(file_pool, FileJobs) as jobs:
        yield jobs
