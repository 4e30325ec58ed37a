"""A queue to call SQL functions on; whatever a test did to it, the invariants hold afterwards.

A new database for each of several hundred tests would take longer than the tests. The queue's database is kept instead and put
back to how it was: all rows deleted, those that came with the schema inserted again, sequences at their start. A test that makes
or drops tables, roles or databases takes ``conninfo``, which is a database of its own.
"""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from fetchwork.pool.postgres import PostgresServer
from tests.conftest import TEMPLATE
from tests.direct_queue import DirectQueue

_SAVE = """
DO $$
DECLARE
    its record;
BEGIN
    CREATE SCHEMA as_installed;
    FOR its IN SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'fetchwork'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition LOOP
        EXECUTE format('CREATE TABLE as_installed.%1$I AS SELECT * FROM fetchwork.%1$I', its.relname);
    END LOOP;
END
$$
"""

# foreign keys are off, so that the tables' order does not matter
_PUT_BACK = """
DO $$
DECLARE
    its record;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR its IN SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'as_installed'::regnamespace LOOP
        EXECUTE format('DELETE FROM fetchwork.%1$I', its.relname);
        EXECUTE format('INSERT INTO fetchwork.%1$I OVERRIDING SYSTEM VALUE SELECT * FROM as_installed.%1$I', its.relname);
    END LOOP;
    FOR its IN SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'fetchwork'::regnamespace AND c.relkind = 'S' LOOP
        EXECUTE format('ALTER SEQUENCE fetchwork.%I RESTART', its.relname);
    END LOOP;
    UPDATE fetchwork.heartbeat SET reaped_at = clock_timestamp();
END
$$
"""


@pytest.fixture(scope="session")
def _kept_databases() -> dict[int, str]:
    """The database that is put back and used again, by server."""
    return {}


@pytest.fixture
def queue_conninfo(postgres: PostgresServer, _kept_databases: dict[int, str]) -> str:
    """A database with the schema and nothing else, which other tests have used before."""
    if postgres.port not in _kept_databases:
        postgres.query(f'CREATE DATABASE kept TEMPLATE "{TEMPLATE}"')
        postgres.query(_SAVE, "kept")
        _kept_databases[postgres.port] = postgres.conninfo("kept")
    conninfo = _kept_databases[postgres.port]
    with psycopg.connect(conninfo) as connection:
        connection.execute(_PUT_BACK)
    return conninfo


@pytest.fixture
def queue(queue_conninfo: str) -> Iterator[DirectQueue]:
    """The queue in it, by a connection in autocommit."""
    with psycopg.connect(queue_conninfo, autocommit=True, application_name="test") as connection:
        queue = DirectQueue(connection)
        yield queue
        queue.check()


@pytest.fixture
def another(queue: DirectQueue, queue_conninfo: str) -> Iterator[Callable[..., DirectQueue]]:
    """Opens further sessions with the same queue, for races; in autocommit unless asked otherwise."""
    opened: list[psycopg.Connection] = []

    def open_session(*, autocommit: bool = True) -> DirectQueue:
        opened.append(psycopg.connect(queue_conninfo, autocommit=autocommit, application_name="test"))
        return DirectQueue(opened[-1])

    yield open_session
    for connection in opened:
        connection.close()
