"""Calls of SQL functions: errors by the caller's reaction, time limits that hold, broken connections."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, NoReturn
from uuid import uuid4

import psycopg
import pytest

from fetchwork.classad.jsonform import from_json
from fetchwork.db import connection
from fetchwork.db import pool as db_pool
from fetchwork.db.calls.call import Call, Row
from fetchwork.db.connection import with_defaults
from fetchwork.db.database import Database, Json
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import (
    ClassAdError,
    DatabaseRefused,
    DatabaseUnavailable,
    FetchworkError,
    InsufficientPrivilege,
    JobStateConflict,
    NotFound,
    SchemaMismatch,
    SubmitError,
    WrongToken,
)
from fetchwork.pool.postgres import PostgresServer
from tests.agent.conftest import Jobs, Rows
from tests.support.waiting import PATIENCE_S, until_async

#: its port, and the events that a client came and left
DeafServer = tuple[int, asyncio.Event, asyncio.Event]


@pytest.fixture
async def pool(conninfo: str) -> AsyncIterator[AsyncDatabase]:
    async with AsyncDatabase(conninfo, size=2) as pool:
        yield pool


async def backend(pool: AsyncDatabase) -> int:
    return int((await pool.query("SELECT pg_backend_pid() AS pid"))[0]["pid"])


async def test_changed_conninfo_is_that_of_every_further_call(conninfo: str, pool: AsyncDatabase) -> None:
    other = pool.another()
    await backend(pool)
    await backend(other)
    pool.use(f"{conninfo} application_name=changed")
    for each in (pool, other):
        (row,) = await each.query("SELECT current_setting('application_name') AS name")
        assert row["name"] == "changed"
    await other.close()


@dataclass(frozen=True, slots=True)
class _Echo(Call[Any]):
    """A call of a statement that is no function of fetchwork."""

    expression: str = ""

    def statement(self) -> tuple[str, list[object]]:
        return f"SELECT {self.expression}", list(self.arguments.values())


RAISE = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{}', MESSAGE = 'the words'; END $$"


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("FWINV", SubmitError),
        ("FWDEN", DatabaseRefused),
        ("FWTOK", WrongToken),
        ("FWCON", JobStateConflict),
        ("FWNOT", NotFound),
        ("42883", SchemaMismatch),
        ("3F000", SchemaMismatch),
        ("42501", InsufficientPrivilege),
        ("XX000", FetchworkError),
        ("23505", DatabaseRefused),
        ("22P02", DatabaseRefused),
        ("53300", DatabaseUnavailable),
        ("57P03", DatabaseUnavailable),
        ("25006", DatabaseUnavailable),
        ("40P01", DatabaseUnavailable),
        ("08006", DatabaseUnavailable),
    ],
)
def test_error_says_what_the_caller_can_do(jobs: Jobs, state: str, kind: Any) -> None:
    with pytest.raises(kind, match="the words"):
        jobs.database.query(RAISE.format(state))


@pytest.mark.parametrize(
    ("what", "to_do"),
    [
        ("schema fetchwork", "an administrator gives it one with 'fetchwork db grant ROLE OWNER'"),
        ("function set_submitter", "a role with more rights"),
    ],
)
def test_a_right_that_the_role_lacks_is_told_with_who_gives_it(jobs: Jobs, what: str, to_do: str) -> None:
    text = RAISE.format("42501").replace("the words", f"permission denied for {what}")
    with pytest.raises(InsufficientPrivilege, match=f"permission denied for {what}; .*{to_do}"):
        jobs.database.query(text)


def test_words_of_the_schema_are_not_wrapped(jobs: Jobs) -> None:
    with pytest.raises(SubmitError) as caught:
        jobs.database.query(RAISE.format("FWINV"))
    assert str(caught.value) == "the words"


def test_nobody_at_the_address_is_unavailable_and_tells_no_password() -> None:
    with (
        pytest.raises(DatabaseUnavailable) as caught,
        Database("host=127.0.0.1 port=1 dbname=x password=hunter2") as database,
    ):
        database.query("SELECT 1")
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_values_arrive_as_their_types(jobs: Jobs) -> None:
    row = jobs.database.query(
        "SELECT %s::jsonb AS one, %s::jsonb AS many, %s::jsonb[] AS each, %s::text[] AS texts, %s AS none",
        [{"a": "it's \\ \n"}, Json([1, {"b": None}]), [{"c": 1}, {}], ["x,y", '"'], None],
    )[0]
    assert row == {
        "one": {"a": "it's \\ \n"},
        "many": [1, {"b": None}],
        "each": [{"c": 1}, {}],
        "texts": ["x,y", '"'],
        "none": None,
    }


@pytest.mark.parametrize("value", ["9" * 5000, f'{{"A": {"[" * 3000}{"]" * 3000}}}'])
def test_json_that_python_cannot_read_is_the_problem_of_its_ad(jobs: Jobs, value: str) -> None:
    rows = jobs.database.query("SELECT %s::jsonb AS ad UNION ALL SELECT '{}'", [value])
    assert len(rows) == 2
    assert rows[1]["ad"] == {}
    if value[0] == "9" or sys.version_info < (3, 12):
        with pytest.raises(ClassAdError, match=r"of thousands of digits|nested deeper"):
            from_json(rows[0]["ad"])


def test_server_ends_what_takes_too_long_and_the_connection_stays(jobs: Jobs) -> None:
    pid = jobs.database.query("SELECT pg_backend_pid() AS pid")
    with pytest.raises(DatabaseUnavailable):
        jobs.database.query("SELECT pg_sleep(60)", timeout_s=0.2)
    assert jobs.database.query("SELECT pg_backend_pid() AS pid") == pid
    assert jobs.database.query("SHOW statement_timeout") == [{"statement_timeout": "0"}]


def test_connection_that_the_server_closed_is_replaced_before_it_is_used(jobs: Jobs, conninfo: str) -> None:
    pid = jobs.database.query("SELECT pg_backend_pid() AS pid")[0]["pid"]
    with Database(conninfo) as other:
        other.query("SELECT pg_terminate_backend(%s, 60000)", [pid], timeout_s=PATIENCE_S)
    assert jobs.database.query("SELECT pg_backend_pid() AS pid")[0]["pid"] != pid


def test_transaction_is_all_or_nothing(jobs: Jobs) -> None:
    jobs.database.query("CREATE TABLE t (n integer)")
    with pytest.raises(NotFound), jobs.database.transaction():
        jobs.database.query("INSERT INTO t VALUES (1)")
        jobs.database.query(RAISE.format("FWNOT"))
    assert jobs.database.query("SELECT * FROM t") == []


def test_threads_take_turns(jobs: Jobs) -> None:
    answers = []

    def ask(n: int) -> None:
        answers.append(jobs.database.query("SELECT %s + (SELECT 0 FROM pg_sleep(0.01)) AS n", [n])[0]["n"])

    threads = [threading.Thread(target=ask, args=[n]) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == list(range(10))


def test_stream_brings_all_rows_and_calls_go_on_meanwhile(jobs: Jobs) -> None:
    stream = jobs.database.stream("SELECT generate_series(1, %s) AS n", [5000], itersize=100)
    assert next(stream) == {"n": 1}
    assert jobs.database.query("SELECT 1 AS one") == [{"one": 1}]
    assert sum(1 for _ in stream) == 4999


def test_notification_between_two_waits_is_not_lost(jobs: Jobs, conninfo: str) -> None:
    assert jobs.database.notifications("fetchwork_test", 0.01) is False
    with Database(conninfo) as other:
        other.query("NOTIFY fetchwork_test")
    assert jobs.database.notifications("fetchwork_test", PATIENCE_S) is True


def test_own_settings_of_a_connection_string_win() -> None:
    words = with_defaults("host=x connect_timeout=77 application_name=mine")
    assert "connect_timeout=77" in words
    assert "application_name=mine" in words
    assert "keepalives_idle=" in words


def in_child(work: Callable[[], object]) -> str:
    """The result of work in a forked child, or the name of the exception that it raised there."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                answer = str(work())
            except BaseException as error:
                answer = type(error).__name__
            os.write(writes, answer.encode())
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as end:
        answer = end.read()
    os.waitpid(child, 0)
    return answer


def own_pid(database: Database) -> int:
    return int(database.query("SELECT pg_backend_pid() AS pid")[0]["pid"])


def test_forked_child_has_a_connection_of_its_own(jobs: Jobs) -> None:
    before = own_pid(jobs.database)
    theirs = in_child(lambda: own_pid(jobs.database))
    assert theirs.isdigit()
    assert int(theirs) != before
    assert own_pid(jobs.database) == before


def test_child_that_closes_the_database_leaves_the_parents_connection(jobs: Jobs) -> None:
    before = own_pid(jobs.database)
    assert in_child(jobs.database.close) == "None"
    assert own_pid(jobs.database) == before


def test_child_forked_in_a_transaction_can_neither_use_nor_end_it(jobs: Jobs) -> None:
    jobs.database.query("CREATE TABLE t (n integer)")
    with jobs.database.transaction():
        jobs.database.query("INSERT INTO t VALUES (1)")
        assert in_child(lambda: own_pid(jobs.database)) == "DatabaseUnavailable"

        def leave() -> None:
            with jobs.database.transaction():
                pass

        assert in_child(leave) == "DatabaseUnavailable"
        jobs.database.query("INSERT INTO t VALUES (2)")
    assert len(jobs.database.query("SELECT * FROM t")) == 2


def test_child_forked_while_a_thread_holds_the_database_goes_on(jobs: Jobs) -> None:
    own_pid(jobs.database)
    holds, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        with jobs.database.transaction():
            holds.set()
            may_go.wait(PATIENCE_S)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert holds.wait(PATIENCE_S)
        assert in_child(lambda: own_pid(jobs.database)).isdigit()
    finally:
        may_go.set()
        thread.join()


def test_forked_workers_and_their_parent_ask_at_once(conninfo: str) -> None:
    with Database(conninfo) as shared:
        own_pid(shared)
        with multiprocessing.get_context("fork").Pool(4, _shared.append, (shared,)) as workers:
            answers = workers.imap_unordered(_echo, range(200))
            mine = [shared.query("SELECT %s::integer AS n", [n])[0]["n"] for n in range(200)]
            assert sorted(answers) == list(range(200))
        assert mine == list(range(200))


#: in a worker: its parent's database
_shared: list[Database] = []


def _echo(n: int) -> int:
    return int(_shared[0].query("SELECT %s::integer AS n", [n])[0]["n"])


async def test_calls_share_as_many_connections_as_allowed(pool: AsyncDatabase, jobs: Jobs) -> None:
    # no call ends before the pool has all its connections
    jobs.database.query("SELECT pg_advisory_lock(1)")
    locking = "SELECT pg_backend_pid() AS pid, pg_advisory_xact_lock_shared(1)"
    calls = [asyncio.ensure_future(pool.query(locking, timeout_s=PATIENCE_S)) for _ in range(6)]
    waits = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    await until_async(lambda: len(jobs.database.query(waits)) == 2)
    jobs.database.query("SELECT pg_advisory_unlock(1)")
    rows = await asyncio.gather(*calls)
    assert len({row[0]["pid"] for row in rows}) == 2


def sleeping(database: Database) -> int:
    """The number of calls of ``pg_sleep`` that run in the test's database."""
    sql = """
        SELECT count(*) AS n FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
            AND state = 'active' AND query LIKE '%%SELECT pg_sleep(%%'
    """
    return int(database.query(sql)[0]["n"])


async def test_call_without_a_free_connection_gives_up_in_its_time(pool: AsyncDatabase, jobs: Jobs) -> None:
    slow = [asyncio.ensure_future(pool.query("SELECT pg_sleep(600)", timeout_s=700)) for _ in range(2)]
    await until_async(lambda: sleeping(jobs.database) == 2)
    with pytest.raises(DatabaseUnavailable, match="no database connection became free"):
        await pool.query("SELECT 1", timeout_s=0.2)
    assert not any(call.done() for call in slow)
    for call in slow:
        call.cancel()
    await asyncio.wait(slow)


async def test_bytes_travel_as_they_are_and_other_values_as_their_types(pool: AsyncDatabase) -> None:
    sent = bytes(range(256)) * 5000
    token = uuid4()
    arguments = {"data": sent, "run_id": 2**40, "token": token, "sha256": None, "datas": [sent, b""]}

    def read(rows: list[Row]) -> list[object]:
        return list(rows[0].values())

    with_types = "%s::bytea AS a, %s::bigint AS b, %s::uuid AS c, %s::text AS d, %s::bytea[] AS e"
    call = _Echo("echo", arguments, read, expression=with_types)
    assert await pool.carry(call) == [sent, 2**40, token, None, [sent, b""]]
    assert await pool.run(call) == [sent, 2**40, token, None, [sent, b""]]


async def test_a_call_with_bytes_gives_up_in_its_time_and_leaves_a_pool_that_works(
    pool: AsyncDatabase,
) -> None:
    sleeping: Call[object] = _Echo("sleep", {"s": PATIENCE_S}, lambda rows: rows, expression="pg_sleep(%s)")
    # it has a connection: its time limit does not end before its call is sent
    assert await backend(pool)
    with pytest.raises(DatabaseUnavailable, match="does not answer"):
        await pool.carry(sleeping, timeout_s=0.1)
    assert await backend(pool)


async def test_deaf_server_holds_no_call_beyond_its_time(
    pool: AsyncDatabase, postgres: PostgresServer
) -> None:
    pid = await backend(pool)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(DatabaseUnavailable, match="does not answer"):
            await pool.query("SELECT 1", timeout_s=0.3)
        # the other connection is replaced: the deaf one is not used again
        assert await backend(pool) != pid
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_cancelled_call_leaves_a_pool_that_works(pool: AsyncDatabase, jobs: Jobs) -> None:
    call = asyncio.ensure_future(pool.query("SELECT pg_sleep(60)"))
    await until_async(lambda: sleeping(jobs.database))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await pool.query("SELECT 1 AS one", timeout_s=PATIENCE_S) == [{"one": 1}]


async def test_call_that_is_cancelled_when_its_answer_has_come_closes_its_connection(
    pool: AsyncDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetchall = psycopg.AsyncCursor.fetchall
    used: list[psycopg.AsyncConnection[Any]] = []

    async def cancelled(cursor: psycopg.AsyncCursor[Any]) -> list[Any]:
        rows = await fetchall(cursor)
        used.append(cursor.connection)
        call.cancel()
        return rows

    call = asyncio.ensure_future(pool.query("SELECT 1"))
    with monkeypatch.context() as patched:
        patched.setattr(psycopg.AsyncCursor, "fetchall", cancelled)
        with pytest.raises(asyncio.CancelledError):
            await call
    assert [connection.closed for connection in used] == [True]
    assert await pool.query("SELECT 1 AS one", timeout_s=PATIENCE_S) == [{"one": 1}]


async def test_cancelled_call_of_a_kept_statement_closes_its_connection(conninfo: str, jobs: Jobs) -> None:
    pool = AsyncDatabase(conninfo, size=1)
    for _ in range(3):
        await pool.query("SELECT pg_sleep(%s)", [0], kept=True)
    (connection,) = pool._open
    call = asyncio.ensure_future(pool.query("SELECT pg_sleep(%s)", [600], timeout_s=700, kept=True))
    await until_async(lambda: sleeping(jobs.database))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert connection.closed
    await pool.close()


async def test_call_whose_connection_breaks_is_repeated_only_where_that_is_harmless(
    pool: AsyncDatabase, jobs: Jobs
) -> None:
    async def broken(**more: Any) -> Rows:
        call = asyncio.ensure_future(
            pool.query(
                "SELECT pg_sleep(CASE WHEN count(*) > 0 THEN 0 ELSE 600 END) FROM t",
                timeout_s=PATIENCE_S,
                **more,
            )
        )
        await until_async(lambda: sleeping(jobs.database))
        jobs.database.query("INSERT INTO t VALUES (1)")
        jobs.database.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%%CASE WHEN count%%' "
            "AND pid <> pg_backend_pid() AND datname = current_database()"
        )
        return await call

    jobs.database.query("CREATE TABLE t (n integer)")
    assert await broken()
    jobs.database.query("DELETE FROM t")
    with pytest.raises(DatabaseUnavailable):
        await broken(again=False)


def quick_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every pause ends at once; return the lengths that they would have had."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def sleep_a_little(delay: float) -> None:
        if delay != 0.02:  # 0.02 s is a test's own waiting
            pauses.append(delay)
        await sleep(0.01)

    monkeypatch.setattr(asyncio, "sleep", sleep_a_little)
    return pauses


async def test_connecting_pauses_between_tries_and_comes_back_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = quick_pauses(monkeypatch)

    async def refuse(conninfo: str, patience_s: float | None) -> NoReturn:
        raise psycopg.OperationalError("refused")

    monkeypatch.setattr(db_pool, "connect_async", refuse)
    pool = AsyncDatabase("host=nowhere")
    call = asyncio.ensure_future(pool.query("SELECT 1", timeout_s=PATIENCE_S))
    await until_async(lambda: len(pauses) >= 10)
    assert "refused" in (pool.problem or "")
    call.cancel()
    await pool.close()
    # the first pause is short; each may be twice as long as the one before, up to a limit
    assert pauses[0] <= db_pool.FIRST_PAUSE_S * 2
    assert max(pauses[4:]) > db_pool.FIRST_PAUSE_S * 2
    assert max(pauses) <= db_pool.LONGEST_PAUSE_S


async def test_many_callers_share_one_try_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    async def try_for_ever(conninfo: str, patience_s: float | None) -> NoReturn:
        tries.append(conninfo)
        await asyncio.Event().wait()
        raise AssertionError("never")

    monkeypatch.setattr(db_pool, "connect_async", try_for_ever)
    pool = AsyncDatabase("host=nowhere")
    calls = [pool.query("SELECT 1", timeout_s=0.5) for _ in range(20)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(answer) for answer in answers} == {DatabaseUnavailable}
    assert len(tries) == 1
    await pool.close()


async def test_attempt_to_connect_outlives_the_call_that_wanted_it(
    monkeypatch: pytest.MonkeyPatch, conninfo: str
) -> None:
    tries = []
    answer = asyncio.Event()
    connect = connection.connect_async

    async def slowly(conninfo: str, patience_s: int | None) -> Any:
        tries.append(conninfo)
        await answer.wait()
        return await connect(conninfo, patience_s)

    monkeypatch.setattr(db_pool, "connect_async", slowly)
    async with AsyncDatabase(conninfo) as pool:
        for _ in range(3):
            with pytest.raises(DatabaseUnavailable):
                await pool.query("SELECT 1", timeout_s=0.3)
        answer.set()
        assert await pool.query("SELECT 1 AS one", timeout_s=PATIENCE_S) == [{"one": 1}]
    assert len(tries) == 1


async def test_server_that_is_too_slow_is_tried_less_often_and_with_more_patience(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses = quick_pauses(monkeypatch)
    patience = []

    async def run_out_of_time(conninfo: str, patience_s: float | None) -> NoReturn:
        patience.append(patience_s)
        raise psycopg.errors.ConnectionTimeout("connection timeout expired")

    monkeypatch.setattr(db_pool, "connect_async", run_out_of_time)
    async with AsyncDatabase("host=nowhere connect_timeout=5") as pool:
        call = asyncio.ensure_future(pool.query("SELECT 1", timeout_s=PATIENCE_S))
        await until_async(lambda: len(pauses) >= 10)
        call.cancel()
    assert patience[:5] == [None, 10, 20, 40, 60]
    assert pauses[0] <= db_pool.FIRST_SLOW_PAUSE_S
    assert max(pauses[3:]) > db_pool.FIRST_SLOW_PAUSE_S
    assert max(pauses) <= db_pool.LONGEST_SLOW_PAUSE_S


async def test_notifications_begin_with_a_sign_that_they_arrive(pool: AsyncDatabase, jobs: Jobs) -> None:
    heard = []

    async def listen() -> None:
        async with contextlib.aclosing(pool.notifications("fetchwork_test")) as notes:
            async for payload in notes:
                heard.append(payload)
                if len(heard) == 1:
                    await asyncio.to_thread(jobs.database.query, "NOTIFY fetchwork_test, 'work'")
                else:
                    return

    await asyncio.wait_for(listen(), PATIENCE_S)
    assert heard == ["", "work"]


@pytest.fixture
async def deaf_server() -> AsyncIterator[DeafServer]:
    """A server that accepts clients and never answers; its port, and events for a client's coming and end."""
    came, gone = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set()
        await reader.read()
        gone.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1], came, gone
    server.close()


async def test_attempt_that_outlived_its_call_leaves_nothing_open(deaf_server: DeafServer) -> None:
    port, came, gone = deaf_server
    pool = AsyncDatabase(f"host=127.0.0.1 port={port} user=nobody sslmode=disable")
    with pytest.raises(DatabaseUnavailable):
        await pool.query("SELECT 1", timeout_s=0.2)
    await asyncio.wait_for(came.wait(), PATIENCE_S)
    await pool.close()
    await asyncio.wait_for(gone.wait(), PATIENCE_S)


async def test_call_in_flight_does_not_open_again_what_was_closed(deaf_server: DeafServer) -> None:
    port, came, gone = deaf_server
    pool = AsyncDatabase(f"host=127.0.0.1 port={port} user=nobody sslmode=disable")
    call = asyncio.ensure_future(pool.query("SELECT 1"))
    await came.wait()
    await pool.close()
    with pytest.raises(DatabaseUnavailable, match="connection is closed"):
        await asyncio.wait_for(call, PATIENCE_S)
    await asyncio.wait_for(gone.wait(), PATIENCE_S)
