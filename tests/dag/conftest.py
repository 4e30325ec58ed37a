"""One pool for DAGs: slots that fetch alice's jobs from the queue, and slots of a schedd for bob's.

HTCondor's condor_dagman runs over both. Alice's access point runs beside the daemons, with the programs of
the same HTCondor. Each HTCondor (``suites``) has such a pool, one after the other; with the newest `make
test` runs cases that the other does not know, `make test-all` all of them.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fetchwork.errors import HTCondorUnavailable
from fetchwork.pool import PersonalPool
from fetchwork.pool.condorroot import DEFAULT_SUITE
from tests.conftest import NOT_TESTED
from tests.dag.sides import Point, Queue, Schedd
from tests.dag.suites import NEWEST, suites
from tests.support.copies import CopiedPool

HERE = Path(__file__).parent
CONFIG = """
DAEMON_LIST = $(DAEMON_LIST) SCHEDD NEGOTIATOR
ALLOW_WRITE = $(ALLOW_WRITE), bob@$(UID_DOMAIN), alice@$(UID_DOMAIN)
# numbers that can be told from others (test_fidelity)
SCHEDD_CLUSTER_INITIAL_VALUE = 7001
START = TARGET.Owner =?= undefined || TARGET.Owner == ifThenElse(SlotID <= 4, "alice", "bob")
NEGOTIATOR_INTERVAL = 1
NEGOTIATOR_MIN_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
SCHEDD_INTERVAL = 1
SCHEDD_MIN_INTERVAL = 1
SEC_DEFAULT_AUTHENTICATION_METHODS = FS, CLAIMTOBE
SEC_CLIENT_AUTHENTICATION_METHODS = FS, CLAIMTOBE
MASTER_BACKOFF_CONSTANT = 1
MASTER_BACKOFF_FACTOR = 1
DAGMAN_USER_LOG_SCAN_INTERVAL = 1
DAGMAN_USE_DIRECT_SUBMIT = False
DAGMAN_AVOID_SLASH_TMP = False
DAGMAN_HOLD_CLAIM_TIME = 0
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test with each HTCondor, with the newest in `make test-all`."""
    if "suite" not in metafunc.fixturenames or hasattr(metafunc.module, "pytest_generate_tests"):
        return
    seldom = NEWEST if not metafunc.config.getoption("--suites") else None
    metafunc.parametrize(
        "suite",
        [
            pytest.param(suite, marks=pytest.mark.all if suite == seldom else [])
            for suite in suites(metafunc.config)
        ],
        scope="session",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests pool by pool: pytest itself would change the pool with each case that both have.

    Tests that kill the pool's parts come last in each.
    """
    order = {suite: number for number, suite in enumerate((DEFAULT_SUITE, NEWEST))}

    def rank(item: pytest.Item) -> tuple[int, bool, Path]:
        params = (
            item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        )
        is_last = item.path.name == "test_faults.py"
        return order.get(str(params.get("suite")), len(order)), is_last, item.path

    here = {path for path in {item.path for item in items} if HERE in path.parents}
    at = [number for number, item in enumerate(items) if item.path in here]
    for number, item in zip(at, sorted((items[number] for number in at), key=rank), strict=True):
        items[number] = item


@pytest.fixture(scope="session")
def pool(suite: str, public_directory: Callable[[], Path]) -> Iterator[PersonalPool]:
    """The pool."""
    started = CopiedPool(
        public_directory() / "pool",
        suite=suite,
        slots=8,
        config=CONFIG,
        host={"slots": {"fetched_only": False}},
    )
    try:
        started.start()
    except HTCondorUnavailable as reason:
        pytest.skip(f"{NOT_TESTED} of {suite}: {reason}")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def point(pool: PersonalPool) -> Iterator[Point]:
    """An access point on the pool's machine."""
    point = Point(pool).start()
    yield point
    point.stop()
    assert "Traceback" not in point.log(), point.log()


@pytest.fixture(scope="session")
def queue(pool: PersonalPool, point: Point) -> Queue:
    """DAGs over the queue."""
    return Queue(pool, point)


@pytest.fixture(scope="session")
def schedd(pool: PersonalPool) -> Schedd:
    """DAGs over a schedd."""
    return Schedd(pool)
