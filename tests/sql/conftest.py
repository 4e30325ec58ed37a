"""A queue to call SQL functions on; whatever a test did to it, the invariants hold afterwards."""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from fetchwork.pool.postgres import PostgresServer
from tests.direct_queue import DirectQueue
from tests.kept import kept_database


@pytest.fixture
def queue_conninfo(postgres: PostgresServer) -> str:
    """A database with the schema and nothing else. For a test that makes or drops tables there is ``conninfo``."""
    return kept_database(postgres)


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
