"""No event is missed, none comes twice, in any order of commits; a cursor is valid anywhere."""

import pickle
import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from fetchwork.db.calls.call import Call
from fetchwork.errors import NotFound
from fetchwork.following.eventlog import JobEventLog
from fetchwork.queue.ask import Ask, Found, Pause
from fetchwork.queue.events.jobevents import CursorExpired, JobEvent
from fetchwork.queue.events.reader import Reader
from tests.queue.conftest import Queue
from tests.support.direct_queue import DirectQueue
from tests.support.sessions import session_of
from tests.support.waiting import PATIENCE_S, until

Connect = Callable[..., psycopg.Connection]

# no statement here takes that long: one that hangs is a defect, and is ended
pytestmark = pytest.mark.usefixtures("known_kind")


@pytest.fixture
def known_kind(connection: psycopg.Connection) -> None:
    """Submissions of a new kind wait for each other until the first commits; later ones don't."""
    limit = f"statement_timeout = '{PATIENCE_S:.0f}s'"
    connection.execute(f"SET {limit}")
    connection.execute(f"ALTER DATABASE {connection.info.dbname} SET {limit}")
    job = submit_in(connection)
    connection.execute("DELETE FROM fetchwork.event")
    connection.execute("DELETE FROM fetchwork.waiting")
    connection.execute("DELETE FROM fetchwork.job")
    connection.execute("ALTER SEQUENCE fetchwork.cluster_id RESTART")
    connection.execute("DELETE FROM fetchwork.cluster")
    connection.execute("DELETE FROM fetchwork.tally_change")
    assert job == "1.0"


def told(events: Iterator[JobEvent]) -> list[tuple[str, int]]:
    return [(event.job_id, event.type_number) for event in events]


def submit_in(connection: psycopg.Connection) -> str:
    row = connection.execute("SELECT fetchwork.submit(cmd => '/bin/true', owner => 'alice')").fetchone()
    assert row is not None
    return str(row[0])


def test_a_job_s_life_is_seen_in_order_with_all_transitions(queue: Queue) -> None:
    """Polling a schedd shows snapshots, and not the events between them."""
    job = queue.direct.submit()
    run = queue.direct.started()
    queue.direct.heartbeat(run, JobState="Suspended")
    queue.direct.heartbeat(run)
    queue.direct.finish(run, "evict", JobPid=7)
    queue.direct.act("hold", job)
    queue.direct.act("release", job)
    queue.direct.finish(queue.direct.started())
    events = list(queue.events(stop_after=0))
    assert [event.type.name for event in events] == [
        "SUBMIT",
        "EXECUTE",
        "JOB_SUSPENDED",
        "JOB_UNSUSPENDED",
        "JOB_EVICTED",
        "JOB_HELD",
        "JOB_RELEASED",
        "EXECUTE",
        "JOB_TERMINATED",
    ]
    assert events[-1]["TerminatedNormally"] is True
    assert events[-1]["ReturnValue"] == 0
    assert events[1].run_id == run.run_id


def test_events_of_a_slower_transaction_are_not_skipped(queue: Queue, connect: Connect) -> None:
    """Ids are given before commits: the second to write commits first, and is read first."""
    slow, fast = connect(autocommit=False), connect()
    first = submit_in(slow)
    second = submit_in(fast)
    (event,) = queue.events(stop_after=0)
    assert event.job_id == second
    slow.commit()
    assert told(queue.events(after=event.cursor, stop_after=0)) == [(first, 0)]
    assert told(queue.events(stop_after=0)) == [(second, 0), (first, 0)]


def test_the_order_is_the_same_for_every_reader(queue: Queue, connect: Connect) -> None:
    slow, fast = connect(autocommit=False), connect()
    slow.execute("SELECT pg_current_xact_id()")
    second = submit_in(fast)
    first = submit_in(slow)
    slow.commit()
    # events without a place get one in the order in which they were written
    for _ in range(2):
        assert told(queue.events(stop_after=0)) == [(second, 0), (first, 0)]


def test_a_rolled_back_change_never_happened(queue: Queue, connect: Connect) -> None:
    connection = connect(autocommit=False)
    submit_in(connection)
    connection.rollback()
    kept = submit_in(connection)
    connection.commit()
    assert told(queue.events(stop_after=0)) == [(kept, 0)]


def test_many_writers_and_a_reader_that_stops_and_goes_on(queue: Queue, conninfo: str) -> None:
    """Transactions of all lengths overlap; the reader, resumed at each event, sees each job once."""

    def write(number: int) -> None:
        with psycopg.connect(conninfo) as connection:
            for n in range(15):
                submit_in(connection)
                if n % (number + 1) == 0:
                    time.sleep(0.002 * number)
                    connection.commit()

    writers = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for writer in writers:
        writer.start()
    seen: list[str] = []
    cursor = None
    deadline = time.monotonic() + PATIENCE_S
    while len(seen) < 90 and time.monotonic() < deadline:
        for event in queue.events(after=cursor, stop_after=1):
            seen.append(event.job_id)
            cursor = event.cursor
            if len(seen) % 7 == 0:
                break
    for writer in writers:
        writer.join()
    assert sorted(seen, key=float) == [f"{n}.0" for n in range(1, 91)]


def test_readers_of_one_job_or_several_see_only_these(queue: Queue) -> None:
    queue.direct.submit_many([{}] * 3)
    queue.direct.submit_many([{}] * 2)
    start = queue.cursor()
    for job in ("1.0", "1.2", "2.1"):
        queue.direct.act("hold", job)
    assert told(queue.events(job="1.2", stop_after=0)) == [("1.2", 0), ("1.2", 12)]
    assert told(queue.events(after=start, job=1, stop_after=0)) == [("1.0", 12), ("1.2", 12)]
    assert told(queue.events(after=start, job=["1.0", "2"], stop_after=0)) == [("1.0", 12), ("2.1", 12)]
    with pytest.raises(ValueError, match="allowed"):
        queue.events(job="alice", stop_after=0).__next__()


# -- cursors -------------------------------------------------------------------------------------------------


def test_a_cursor_goes_on_behind_its_event_on_any_connection(queue: Queue, conninfo: str) -> None:
    queue.direct.submit_many([{}] * 5)
    events = list(queue.events(stop_after=0))
    with Queue(conninfo) as other:
        for n, event in enumerate(events):
            assert told(other.events(after=event.cursor, stop_after=0)) == told(iter(events[n + 1 :]))


def test_now_is_behind_all_that_was(queue: Queue) -> None:
    queue.direct.submit()
    now = queue.cursor()
    assert told(queue.events(after="now", stop_after=0)) == []
    queue.direct.act("hold", "1.0")
    assert told(queue.events(after=now, stop_after=0)) == [("1.0", 12)]


def test_now_is_before_what_an_open_transaction_has_yet_to_commit(queue: Queue, connect: Connect) -> None:
    slow = connect(autocommit=False)
    job = submit_in(slow)
    now = queue.cursor()
    slow.commit()
    assert told(queue.events(after=now, stop_after=0)) == [(job, 0)]


def age_events(connection: psycopg.Connection, days: int) -> None:
    connection.execute("UPDATE fetchwork.event SET at = at - make_interval(days => %s)", [days])


def test_a_cursor_ahead_of_the_stream_says_so(queue: Queue) -> None:
    queue.direct.scalar("reap")
    queue.direct.submit()
    with pytest.raises(CursorExpired, match=r"cursor 'e4000000000\.7' lies behind the last event"):
        list(queue.events(after="e4000000000.7", stop_after=0))


def test_a_cursor_waits_for_a_move_that_was_not_dealt_with(queue: Queue) -> None:
    queue.direct.scalar("reap")
    queue.direct.connection.execute(
        "UPDATE fetchwork.heartbeat SET server = 'another/1', events_server = 'another/1', running_as = NULL"
    )
    assert list(queue.events(after="e4000000000.7", stop_after=0)) == []
    queue.direct.scalar("reap")
    queue.direct.submit()
    assert len(list(queue.events(after="e4000000000.7", stop_after=0))) == 1


def test_a_cursor_that_fell_off_retention_says_so(queue: Queue) -> None:
    queue.direct.submit_many([{}] * 3)
    old = next(iter(queue.events(stop_after=0))).cursor
    last = list(queue.events(stop_after=0))[-1].cursor
    age_events(queue.direct.connection, 91)
    queue.direct.submit()
    queue.direct.connection.execute("SELECT fetchwork.maintain_tables()")
    with pytest.raises(CursorExpired, match=f"events behind cursor '{old}' are not kept") as caught:
        list(queue.events(after=old, stop_after=0))
    assert isinstance(caught.value, NotFound)
    # the last event before the gap is a good place to go on, and so is the beginning
    assert told(queue.events(after=last, stop_after=0)) == [("2.0", 0)]
    assert told(queue.events(stop_after=0)) == [("2.0", 0)]


def test_a_reader_that_falls_behind_while_it_reads_is_told(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fetchwork.queue.events.reader.PAGE", 2)
    queue.direct.submit_many([{}] * 5)
    reader = queue.events(stop_after=None)
    assert [next(reader).job_id for _ in range(2)] == ["1.0", "1.1"]
    age_events(queue.direct.connection, 91)
    queue.direct.connection.execute("SELECT fetchwork.maintain_tables()")
    with pytest.raises(CursorExpired):
        next(reader)


# -- waiting -------------------------------------------------------------------------------------------------


def test_an_event_that_a_standby_gives_another_place_comes_once(queue: Queue, slots: DirectQueue) -> None:
    reader = Reader()
    session = session_of(queue)
    slots.submit_many([{}] * 3)
    assert len(list(session.each(reader.events(0)))) == 3
    # an asynchronous standby took over: it has the last events, but not their batch
    slots.connection.execute("UPDATE fetchwork.event SET batch = NULL WHERE proc_id > 0")
    slots.submit()
    slots.call("put_events_behind")
    slots.call("sequence_events")
    assert told(session.each(reader.events(0))) == [("2.0", 0)]


def test_stop_after_bounds_the_waiting(queue: Queue) -> None:
    assert list(queue.events(stop_after=0)) == []
    begin = time.monotonic()
    assert list(queue.events(stop_after=0.3)) == []
    assert time.monotonic() - begin >= 0.3


def test_where_nothing_happens_a_reader_asks_for_no_page_until_something_does(queue: Queue) -> None:
    database = session_of(queue).database
    stream = Reader().lines(None)
    pages = 0
    answer: object = None

    def asked() -> object:
        nonlocal pages, answer
        step = stream.send(answer)
        answer = None
        if isinstance(step, Ask):
            pages += 1
            answer = database.query(step.sql, step.params)
        elif isinstance(step, Call):
            answer = database.run(step)
        return step

    for _ in range(3):
        while not isinstance(asked(), Pause):
            pass
    assert pages == 1
    queue.direct.submit()
    until(lambda: isinstance(asked(), Found), "the event")
    assert pages == 2
    stream.close()


def test_none_waits_for_the_next_event(queue: Queue) -> None:
    start = queue.cursor()
    timer = threading.Timer(0.3, queue.direct.submit)
    timer.start()
    event = next(queue.events(after=start))
    timer.join()
    assert event.job_id == "1.0"


# -- by log
# ---------------------------------------------------------------------------------------------------


def test_the_log_of_several_jobs_is_read_from_the_database(
    queue: Queue, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file, no place: HTCondor's event logs are local to the schedd's machine."""
    monkeypatch.chdir(str(tmp_path))
    queue.submit("executable = /bin/true\nlog = all.log\nqueue 2\n", owner="alice")
    queue.direct.submit()
    queue.submit("executable = /bin/true\nlog = $(Process).log\nqueue 2\n", owner="alice")
    queue.submit("executable = /bin/true\nlog = ./x/../all.log\nqueue\n", owner="alice")
    log = JobEventLog("all.log", queue)
    assert told(log.events(stop_after=0))[:2] == [("1.0", 0), ("1.1", 0)]
    assert told(JobEventLog("1.log", queue).events(stop_after=0)) == [("3.1", 0)]
    assert told(JobEventLog("0.log", queue).events(stop_after=0)) == [("3.0", 0)]
    queue.direct.finish(queue.direct.started())
    assert told(log.events(stop_after=0)) == [("1.0", 1), ("1.0", 5)]
    assert told(log.events(stop_after=0)) == []
    with pytest.raises(TypeError):
        log.events(stop_after="1")  # type: ignore[arg-type]


def test_a_log_s_reader_goes_on_where_it_was_even_if_it_stopped_within_a_page(queue: Queue) -> None:
    queue.direct.submit_many([{"UserLog": "/home/alice/a.log"}] * 4)
    with JobEventLog("/home/alice/a.log", queue) as log:
        for event in log.events(stop_after=0):
            if event.proc == 1:
                break
        assert told(log.events(stop_after=0)) == [("1.2", 0), ("1.3", 0)]
        assert log.cursor is not None
    again = JobEventLog("/home/alice/a.log", queue, after=pickle.loads(pickle.dumps(log.cursor)))
    assert told(again.events(stop_after=0)) == []


def test_the_index_of_the_cursor_is_used_whatever_the_reader_s_rights(queue: Queue, connect: Connect) -> None:
    """Else every query of a waiting reader would read all events."""
    queue.direct.submit_many([{}] * 50)
    connection = connect(role="fetchwork_reader")
    connection.execute("SET enable_seqscan = off")
    plan = connection.execute(
        "EXPLAIN SELECT batch, eventid FROM fetchwork.events WHERE batch IS NOT NULL"
        " AND (batch, eventid) > (5, 7) ORDER BY batch, eventid LIMIT 10"
    ).fetchall()
    assert any("Index Cond" in line and "ROW(" in line for (line,) in plan), plan
