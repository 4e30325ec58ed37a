"""Readers of events pass transactions that are left open, and skip nothing."""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from fetchwork.pool.postgres import PostgresServer
from fetchwork.queue import Queue
from tests.direct_queue import DirectQueue
from tests.waiting import until

WRITER = "fw_writer"


@pytest.fixture
def now(queue: DirectQueue) -> DirectQueue:
    """The setting is 0: every event that can't be read yet has waited long enough."""
    queue.set("max_reader_lag", 0)
    return queue


@pytest.fixture
def writer(postgres: PostgresServer, queue: DirectQueue) -> Iterator[Callable[[], DirectQueue]]:
    """Makes sessions of an ordinary role with a transaction each."""
    if not queue.value("SELECT count(*) FROM pg_roles WHERE rolname = %s", WRITER):
        postgres.query(f"CREATE ROLE {WRITER} LOGIN PASSWORD 'x' IN ROLE fetchwork_submitter")
    queue.call("grant_owner", role=WRITER, owner="alice")
    opened: list[psycopg.Connection] = []

    def open_session() -> DirectQueue:
        opened.append(psycopg.connect(postgres.conninfo("kept", user=WRITER, password="x")))
        return DirectQueue(opened[-1])

    yield open_session
    for connection in opened:
        connection.close()


class Reader:
    """Reads on behind what it has read; an event that is told twice, or out of turn, fails the test."""

    def __init__(self, conninfo: str) -> None:
        self._queue = Queue(conninfo)
        self._cursor = "0.0"

    def told(self) -> list[str]:
        """The jobs of the new events."""
        jobs = []
        for event in self._queue.events(after=self._cursor, stop_after=0):
            self._cursor = event.cursor
            jobs.append(event.job_id)
        return jobs


@pytest.fixture
def reader(queue: DirectQueue, queue_conninfo: str) -> Iterator[Reader]:
    reader = Reader(queue_conninfo)
    yield reader
    reader._queue.close()


def maintained(queue: DirectQueue, reader: Reader, wanted: list[str]) -> None:
    """As agents do every second, until the reader was told."""
    told: list[str] = []

    def is_told() -> bool:
        queue.call("maintain_queue")
        told.extend(reader.told())
        return told == wanted

    until(is_told, f"{wanted}, not {told}")


def test_a_transaction_that_writes_no_event_is_passed_after_a_while(
    now: DirectQueue, writer: Callable[[], DirectQueue], reader: Reader
) -> None:
    now.set("max_reader_lag", 1000)
    idle = writer()
    idle.rows("SELECT pg_current_xact_id()")
    job = now.submit()
    now.call("maintain_queue")
    assert reader.told() == []  # it might be a slow one
    now.set("max_reader_lag", 0)
    maintained(now, reader, [job])
    # it lives on, and what it writes now stands behind what was read
    late = idle.submit()
    third = now.submit()
    assert reader.told() == []
    idle.connection.commit()
    assert sorted(reader.told()) == sorted([late, third])


def test_one_of_another_database_is_passed(
    now: DirectQueue, postgres: PostgresServer, reader: Reader
) -> None:
    with psycopg.connect(postgres.conninfo("postgres")) as elsewhere:
        elsewhere.execute("SELECT pg_current_xact_id()")
        for _ in range(3):
            maintained(now, reader, [now.submit()])
        elsewhere.execute("SELECT 1")  # and lives


def test_an_old_snapshot_does_not_write_behind_the_readers(
    now: DirectQueue, writer: Callable[[], DirectQueue], reader: Reader
) -> None:
    slow = writer()
    slow.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    slow.rows("SELECT pg_current_xact_id()")  # 1. its snapshot, its id
    maintained(now, reader, [now.submit()])  # 2. is passed
    late = slow.submit()  # 3. in the old snapshot
    slow.connection.commit()
    assert reader.told() == [late]


def test_an_ordinary_transaction_that_has_written_events_is_ended(
    now: DirectQueue, writer: Callable[[], DirectQueue], reader: Reader
) -> None:
    slow = writer()
    slow.submit()  # 1. its event would appear behind the readers
    job = now.submit()
    maintained(now, reader, [job])  # 2. so they do not pass it: it goes
    with pytest.raises(psycopg.OperationalError):
        slow.connection.commit()
    assert now.value("SELECT count(*) FROM fetchwork.job") == 1
    assert reader.told() == []


def test_a_superusers_transaction_that_has_written_events_is_waited_for(
    now: DirectQueue, another: Callable[..., DirectQueue], reader: Reader
) -> None:
    slow = another(autocommit=False)
    first = slow.submit()
    second = now.submit()
    for _ in range(3):
        with now.within(5):
            now.call("maintain_queue")
            now.submit(Owner="bob")  # nobody who writes waits for that
        assert reader.told() == []
    slow.connection.commit()
    assert reader.told()[:2] == [first, second]


def test_nothing_is_done_where_no_reader_is_held_back(
    now: DirectQueue, writer: Callable[[], DirectQueue], reader: Reader
) -> None:
    slow = writer()
    slow.submit()
    now.call("maintain_queue")
    slow.connection.commit()  # lives: there was no other event to be read
    assert len(reader.told()) == 1
