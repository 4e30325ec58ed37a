"""Events have the order of their changes, for every reader, and wait for no stranger's transaction."""

import itertools
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest

from fetchwork.pool.postgres import PostgresServer
from fetchwork.queue import Queue
from tests.support.direct_queue import DirectQueue
from tests.support.waiting import PATIENCE_S, until

WRITER = "fw_writer"


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
    """Reads on behind the last event that it has read."""

    def __init__(self, conninfo: str) -> None:
        self._queue = Queue(conninfo)
        self._cursor = "e0.0"

    def told(self) -> list[tuple[str, str]]:
        """The new events: job, and type."""
        told = []
        for event in self._queue.events(after=self._cursor, stop_after=0):
            self._cursor = event.cursor
            told.append((event.job_id, event.type.name))
        return told

    def close(self) -> None:
        self._queue.close()


@pytest.fixture
def reader(queue: DirectQueue, queue_conninfo: str) -> Iterator[Reader]:
    reader = Reader(queue_conninfo)
    yield reader
    reader.close()


def test_events_of_a_job_have_the_order_of_its_changes(
    queue: DirectQueue, writer: Callable[[], DirectQueue], reader: Reader, queue_conninfo: str
) -> None:
    job = queue.submit()
    older = writer()
    older.rows("SELECT pg_current_xact_id()")  # 1. its transaction id is the lower one
    queue.act("hold", job)  # 2. this change comes first
    older.act("release", job)  # 3. and this one behind it
    older.connection.commit()
    assert queue.status(job) == 1
    assert reader.told() == [(job, "SUBMIT"), (job, "JOB_HELD"), (job, "JOB_RELEASED")]


def test_an_old_snapshot_that_writes_late_writes_behind_the_readers(
    queue: DirectQueue, writer: Callable[[], DirectQueue], reader: Reader
) -> None:
    slow = writer()
    slow.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    slow.rows("SELECT pg_current_xact_id()")  # 1. its snapshot, its id
    job = queue.submit()
    assert reader.told() == [(job, "SUBMIT")]  # 2. a reader is beyond both
    late = slow.submit()  # 3. in the old snapshot
    slow.connection.commit()
    assert reader.told() == [(late, "SUBMIT")]


@pytest.mark.parametrize("database", ["kept", "postgres"])
def test_an_open_transaction_delays_no_events_of_others(
    queue: DirectQueue,
    writer: Callable[[], DirectQueue],
    postgres: PostgresServer,
    reader: Reader,
    database: str,
) -> None:
    with psycopg.connect(postgres.conninfo(database)) as stranger:
        stranger.execute("SELECT pg_current_xact_id()")
        for _ in range(3):
            job = queue.submit()
            assert reader.told() == [(job, "SUBMIT")]
        stranger.execute("SELECT 1")  # and lives


def test_an_open_transaction_with_events_delays_its_own_alone(
    queue: DirectQueue, writer: Callable[[], DirectQueue], reader: Reader
) -> None:
    slow = writer()
    late = slow.submit()
    for _ in range(3):
        job = queue.submit()
        assert reader.told() == [(job, "SUBMIT")]
        queue.call("maintain_queue")
    slow.connection.commit()
    assert reader.told() == [(late, "SUBMIT")]
    assert reader.told() == []


def test_while_one_puts_events_into_the_stream_others_leave_it_to_him(
    queue: DirectQueue, reader: Reader
) -> None:
    queue.submit()
    busy = queue.another(autocommit=False)
    assert busy.call("sequence_events")[0]["sequenced"] == 1
    second = queue.submit()
    with queue.within(PATIENCE_S):
        (left,) = queue.call("sequence_events")
    assert (left["until"], left["sequenced"]) == (None, 0)
    busy.connection.rollback()  # the change is rolled back
    assert [job for job, _ in reader.told()] == ["1.0", second]


def test_what_a_caller_of_long_ago_finds_new_has_its_place(queue: DirectQueue) -> None:
    (first,) = queue.call("sequence_events")
    jobs = [queue.submit() for _ in range(3)]
    (second,) = queue.call("sequence_events")
    assert (first["sequenced"], second["sequenced"]) == (0, len(jobs))
    places = "SELECT batch, event_id FROM fetchwork.event ORDER BY 1, 2"
    before = queue.rows(places)
    assert queue.call("sequence_events", since=first["until"])[0]["sequenced"] == 0
    assert queue.rows(places) == before


def test_nothing_is_sequenced_before_a_move_was_noticed(queue: DirectQueue) -> None:
    queue.connection.execute("UPDATE fetchwork.heartbeat SET server = 'this/1', events_server = 'this/1'")
    queue.submit()
    assert queue.call("sequence_events")[0]["sequenced"] == 0
    queue.call("maintain_queue")
    assert queue.call("sequence_events")[0]["sequenced"] == 1


def test_changes_of_many_at_once_are_told_in_their_order_to_every_reader(
    queue: DirectQueue, queue_conninfo: str, reader: Reader
) -> None:
    jobs = queue.submit_many([{}] * 4)
    legal = {("SUBMIT", "JOB_HELD"), ("JOB_HELD", "JOB_RELEASED"), ("JOB_RELEASED", "JOB_HELD")}

    def change(number: int) -> None:
        with psycopg.connect(queue_conninfo, prepare_threshold=None) as connection:
            own = DirectQueue(connection)
            for n in range(15):
                connection.execute("SELECT pg_current_xact_id()")
                for job in jobs:
                    # a job that is held already, or is not, is left alone
                    try:
                        with connection.transaction():
                            own.act("hold" if (n + number) % 2 else "release", job)
                    except psycopg.Error as error:
                        assert str(error.sqlstate).startswith("FW"), error
                connection.commit()

    threads = [threading.Thread(target=change, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    told: list[tuple[str, str]] = []
    while any(thread.is_alive() for thread in threads):
        told += reader.told()
    told += reader.told()
    for job in jobs:
        own = [kind for one, kind in told if one == job]
        assert len(own) > 1
        assert set(itertools.pairwise(own)) <= legal
        assert queue.status(job) == (5 if own[-1] == "JOB_HELD" else 1)
    again = Reader(queue_conninfo)
    assert again.told() == told
    again.close()


def test_ordinary_people_read_what_others_put_there(
    queue: DirectQueue, writer: Callable[[], DirectQueue], postgres: PostgresServer, queue_conninfo: str
) -> None:
    reader = Reader(postgres.conninfo("kept", user=WRITER, password="x"))
    job = queue.submit()
    assert reader.told() == []
    queue.call("sequence_events")
    until(lambda: reader.told() == [(job, "SUBMIT")])
    reader.close()
