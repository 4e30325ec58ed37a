"""A queue to call SQL functions on; the invariants hold after every test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from fetchwork.pool.postgres import PostgresServer
from tests.support.direct_queue import DirectQueue
from tests.support.invariants import violations
from tests.support.kept import kept_connection, kept_database
from tests.support.pgbouncer import PgBouncer, program

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """With the system's server `make test` has the first case of each test: a version does not differ in a
    single value.
    """
    if config.getoption("--postgres"):
        return
    seen: set[tuple[Path, str]] = set()
    here = {path for path in {item.path for item in items} if HERE in path.parents}
    for item in items:
        if not isinstance(item, pytest.Function) or item.path not in here:
            continue
        if hasattr(item, "callspec") and item.callspec.params.get("postgres") == "system":
            test = (item.path, item.originalname)
            if test in seen:
                item.add_marker("all")
            seen.add(test)


@pytest.fixture(scope="session")
def _bouncers(public_directory: Callable[[], Path]) -> Iterator[Callable[[PostgresServer], PgBouncer]]:
    """A PgBouncer before each server that tests use."""
    started: dict[int, PgBouncer] = {}

    def before(server: PostgresServer) -> PgBouncer:
        if server.port not in started:
            started[server.port] = PgBouncer(public_directory(), server, pool_size=20)
            started[server.port].start()
        return started[server.port]

    yield before
    for bouncer in started.values():
        bouncer.stop()


@pytest.fixture
def queue_conninfo(
    request: pytest.FixtureRequest, postgres: PostgresServer, _bouncers: Callable[[PostgresServer], PgBouncer]
) -> str:
    """A database that has only the schema. A test that makes or drops tables there uses ``conninfo``.

    On the system's server it is reached through PgBouncer, if that is installed; ``--through`` decides
    otherwise.
    """
    direct = kept_database(postgres)
    asked = request.config.getoption("--through")
    of_system = "system" in request.node.name
    if asked == "direct" or (asked is None and not (of_system and program())):
        return direct
    return _bouncers(postgres).conninfo("kept")


@pytest.fixture
def queue(postgres: PostgresServer, queue_conninfo: str) -> Iterator[DirectQueue]:
    """The queue in this database, on a connection in autocommit."""
    with psycopg.connect(queue_conninfo, autocommit=True, prepare_threshold=None) as connection:
        queue = DirectQueue(connection)
        yield queue
        queue.close_others()
        assert violations(kept_connection(postgres)) == []
