"""A queue to call SQL functions on; whatever a test did to it, the invariants hold afterwards."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.direct_queue import DirectQueue


@pytest.fixture
def queue(connection: psycopg.Connection) -> Iterator[DirectQueue]:
    """The queue of the test's own database."""
    queue = DirectQueue(connection)
    yield queue
    if not connection.closed:
        queue.check()
