"""Readers of events after a crash of PostgreSQL."""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from fetchwork.pool.postgres import PostgresServer
from fetchwork.queue import Queue
from tests.faults.conftest import new_database
from tests.support.direct_queue import EXITED, Claimed, DirectQueue

# like claims: PostgreSQL forgets the last of these numbers in a crash, and gives them out again
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


@pytest.fixture
def forgetful_server(fragile_server: PostgresServer) -> Iterator[PostgresServer]:
    """A server that writes asynchronous commits to the disk late, and loses them in a crash."""

    def alter(statement: str) -> None:
        with psycopg.connect(fragile_server.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())
            connection.execute("SELECT pg_reload_conf()")

    fragile_server.start()
    alter("ALTER SYSTEM SET wal_writer_delay = '10s'")
    yield fragile_server
    fragile_server.start()
    alter("ALTER SYSTEM RESET wal_writer_delay")


def end_by_claim(queue: DirectQueue, run: Claimed) -> None:
    """The slot asks for work, so its run is over."""
    queue.claim()


def end_by_report(queue: DirectQueue, run: Claimed) -> None:
    queue.of(run, "finish", hook_reason="exit", report={**EXITED, "ExitCode": 0})


def end_by_eviction(queue: DirectQueue, run: Claimed) -> None:
    queue.of(run, "finish", hook_reason="evict", report=EXITED)


def end_by_silence(queue: DirectQueue, run: Claimed) -> None:
    queue.pass_time(100_000)
    queue.connection.execute("UPDATE fetchwork.heartbeat SET reaped_at = clock_timestamp()")
    queue.call("maintain_queue")


def end_by_user(queue: DirectQueue, run: Claimed) -> None:
    queue.act("hold", run.job)
    queue.of(run, "finish", hook_reason="remove", report=EXITED)
    queue.act("release", run.job)


def end_by_starter(queue: DirectQueue, run: Claimed) -> None:
    queue.of(run, "starter_gone")


def suspend(queue: DirectQueue, run: Claimed) -> None:
    queue.call("heartbeat", run_id=run.run_id, token=run.token, report={"JobState": "Suspended"})


ENDS = [end_by_claim, end_by_report, end_by_eviction, end_by_silence, end_by_user, end_by_starter, suspend]


@pytest.mark.parametrize("end", ENDS)
def test_whoever_has_read_an_event_finds_it_again_after_a_crash(
    forgetful_server: PostgresServer, end: Callable[[DirectQueue, Claimed], None]
) -> None:
    conninfo = new_database(forgetful_server)
    with Queue(conninfo) as reader:

        def told() -> list[tuple[str, str, int]]:
            return [(e.cursor, e.job_id, e.type) for e in reader.events(after="e0.0", stop_after=0)]

        with psycopg.connect(conninfo, autocommit=True) as connection:
            queue = DirectQueue(connection)
            queue.submit_many([{}, {}])
            run = queue.started()
            before = len(told())
            end(queue, run)
            read = told()
            forgetful_server.crash()
        assert len(read) > before
        forgetful_server.start()
        assert told() == read
        with psycopg.connect(conninfo, autocommit=True) as connection:
            DirectQueue(connection).check()
            job = DirectQueue(connection).submit()
        # and later events follow it
        assert [event.job_id for event in reader.events(after=read[-1][0], stop_after=0)][-1:] == [job]
