"""The Python API and its readers of events through PgBouncer's transaction pooling: their tests once more."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fetchwork.pool.postgres import PostgresServer
from fetchwork.queue import Queue

# these tests are collected here again, with another "conninfo"
from tests.queue.test_async import *  # noqa: F403
from tests.queue.test_events import (  # noqa: F401
    test_a_cursor_goes_on_behind_its_event_on_any_connection,
    test_none_waits_for_the_next_event,
)
from tests.queue.test_following import *  # noqa: F403
from tests.queue.test_queue import *  # noqa: F403
from tests.support.kept import kept_database
from tests.support.pgbouncer import PgBouncer, program
from tests.support.sessions import session_of

# a login, a session and a notification of one's own do not exist behind PgBouncer
del test_a_submitter_sees_its_own_jobs_only  # noqa: F821
del test_a_connection_that_was_lost_is_made_again  # noqa: F821
del test_reschedule_wakes_who_waits_for_work  # noqa: F821


@pytest.fixture(scope="session")
def bouncer(postgres: PostgresServer, public_directory: Callable[[], Path]) -> Iterator[PgBouncer]:
    if program() is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI needs PgBouncer: apt-get install pgbouncer")
        pytest.skip("no PgBouncer on this machine")
    bouncer = PgBouncer(public_directory(), postgres)
    bouncer.start()
    yield bouncer
    bouncer.stop()


@pytest.fixture
def conninfo(postgres: PostgresServer, bouncer: PgBouncer) -> str:
    """The database that is restored for each test, through PgBouncer."""
    kept_database(postgres)
    return bouncer.conninfo("kept")


def test_all_of_these_pass_through_it(conninfo: str, queue: Queue) -> None:
    # some of eight open connections share one of the four server sessions
    with contextlib.ExitStack() as stack:
        queues = [queue, *(stack.enter_context(Queue(conninfo)) for _ in range(7))]
        pids = [
            session_of(each).database.query("SELECT pg_backend_pid() AS pid")[0]["pid"] for each in queues
        ]
    assert len(set(pids)) <= 4
