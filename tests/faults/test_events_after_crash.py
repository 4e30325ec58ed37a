"""Readers of events whose cursor is younger than what PostgreSQL still knows after a crash."""

import psycopg

from fetchwork.pool.postgres import PostgresServer
from fetchwork.queue import Queue
from tests.faults.conftest import new_database

# as claims are: PostgreSQL forgets the last of them in a crash, and gives their numbers out again
FORGOTTEN = "DO $$ BEGIN FOR n IN 1 .. 500 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"


def test_event_after_a_crash_is_behind_every_cursor_from_before(fragile_server: PostgresServer) -> None:
    conninfo = new_database(fragile_server)
    submit = "SELECT fetchwork.submit(cmd => '/bin/true', owner => 'alice')"
    with Queue(conninfo) as queue:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute(submit)
            connection.execute("SET synchronous_commit = off")
            connection.execute(FORGOTTEN)
            cursor = queue.cursor()
            fragile_server.crash()
        fragile_server.start()
        with psycopg.connect(conninfo, autocommit=True) as connection:
            ((job,),) = connection.execute(submit).fetchall()
        assert [event.job_id for event in queue.events(after=cursor, stop_after=0)] == [job]
