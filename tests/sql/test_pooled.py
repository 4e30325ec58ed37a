"""The tests of SQL on the system's server use PgBouncer: no statement of the schema leaves session state."""

import os

import pytest

from tests.support.direct_queue import DirectQueue
from tests.support.pgbouncer import program


def test_calls_leave_no_state_in_the_session(queue: DirectQueue) -> None:
    if program() is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI needs PgBouncer: apt-get install pgbouncer")
        pytest.skip("no PgBouncer on this machine: the tests of SQL do not pass through it")
    state = "SELECT name, setting FROM pg_settings WHERE source = 'session' AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'TimeZone')"
    before = queue.rows(state)
    queue.submit_many([{"ConcurrencyLimits": "x"}, {}])
    queue.scalar("set_limit", name="x", maximum=1)
    run = queue.started()
    queue.heartbeat(run)
    queue.finish(run)
    queue.call("maintain_queue")
    queue.call("maintain_tables")
    assert queue.rows(state) == before
    assert queue.value("SELECT count(*) FROM pg_prepared_statements") == 0
    assert queue.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
    assert queue.value("SELECT count(*) FROM pg_class WHERE relpersistence = 't'") == 0
    assert queue.value("SELECT count(*) FROM pg_listening_channels()") == 0
