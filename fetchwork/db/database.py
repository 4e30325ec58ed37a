"""PostgreSQL as fetchwork uses it: connections, named calls of SQL functions, driver errors translated.

The only module that imports psycopg. ``Database`` is for the Python API and the commands, ``AsyncDatabase``
for the agent and the handlers; both speak the same three verbs::

    database.call("submit_many", ads=[...])        # rows of fetchwork.submit_many(...)
    database.scalar("hold", constraint=...)        # the one value of its one row
    database.query("SELECT ... FROM fetchwork.jobs WHERE ClusterId = %s", [42])

Theory of operation
-------------------
A call is one round trip: a simple-protocol message of ``set_config('statement_timeout', ..., true)`` and the
call itself, which PostgreSQL runs as one transaction. So the server ends what the caller no longer waits for,
nothing of a call outlives its transaction, and PgBouncer's transaction pooling needs no allowance.

A server may also be deaf: the connection stands, no byte comes. psycopg's way to give up on a call asks the
server to cancel and waits for its consent. ``AsyncDatabase`` instead shuts the socket down when the time is
over, upon which the driver fails at once.

The pool is our own, because psycopg_pool's reconnects in a schedule of its own (1, 2, 4, ... seconds, up to
minutes), while the agent promises the first fetch within 2 s of the database's return. Here a connection is
made when a call wants one, after a failure at most one try at a time, with a pause of random length below
1.5 s; so a thousand agents that lost the same database come back spread over that time. A connection that the
server closed while it lay idle is noticed before it is used.

A server that a thousand agents return to may need longer to let one of them in than any call has time. If
each gave up then and began anew, all its work would be for nothing and nobody would ever get in (seen with
1 000 agents on a busy machine). So an attempt goes on when the call that wanted it has given up, and the next
call finds its fruit. Where an attempt or a call did run out of time, the next attempt waits longer beforehand
and has more time. A refusal costs nobody anything and changes neither.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import select
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb, JsonbDumper

from fetchwork.db.calls.call import Call, Row
from fetchwork.errors import (
    DatabaseRefused,
    DatabaseUnavailable,
    FetchworkError,
    InsufficientPrivilege,
    JobStateConflict,
    NotFound,
    SchemaMismatch,
    SubmitError,
)

__all__ = ["AsyncDatabase", "Database", "Json", "Row", "connect", "translated", "with_defaults"]

T = TypeVar("T")
#: wraps a list that is one jsonb value; a dict is always one
Json = Jsonb

#: libpq settings for what the user's connection string leaves open
DEFAULTS = {
    "connect_timeout": "5",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "client_encoding": "UTF8",
}
#: pauses before another attempt: after a refusal, and where the time was over
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.5
FIRST_SLOW_PAUSE_S = 1.0
LONGEST_SLOW_PAUSE_S = 5.0
#: for an attempt, once many have run out of time (the first has connect_timeout)
LONGEST_PATIENCE_S = 60

_BY_SQLSTATE: dict[str, type[FetchworkError]] = {
    "FWINV": SubmitError,
    "FWDEN": DatabaseRefused,
    "FWCON": JobStateConflict,
    "FWNOT": NotFound,
    "3F000": SchemaMismatch,  # invalid_schema_name
    "42883": SchemaMismatch,  # undefined_function
    "42P01": SchemaMismatch,  # undefined_table
    "42703": SchemaMismatch,  # undefined_column
    "42501": InsufficientPrivilege,
    "57014": DatabaseUnavailable,  # query_canceled: its time was over
    "25006": DatabaseUnavailable,  # read_only_sql_transaction: a standby, or a disk that is nearly full
    "55P03": DatabaseUnavailable,  # lock_not_available
    "40001": DatabaseUnavailable,  # serialization_failure
    "40P01": DatabaseUnavailable,  # deadlock_detected
}
# connection exceptions, insufficient resources, operator intervention, system errors
_UNAVAILABLE_CLASSES = ("08", "53", "57", "58")


def translate(error: psycopg.Error) -> FetchworkError:
    """The exception of our own that tells a caller what to do about a driver's error."""
    state = error.sqlstate
    message = error.diag.message_primary or next(iter(str(error).splitlines()), type(error).__name__)
    if state is None:
        # libpq found it without the server's word: the connection is gone, or never came to be
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return DatabaseUnavailable(f"database does not answer: {message}")
        return DatabaseRefused(f"database call is wrong: {message}")
    kind = _BY_SQLSTATE.get(state)
    if kind is None and state.startswith("XX"):
        # internal errors: some pass, like those of calls during an upgrade
        return FetchworkError(f"database failed over the call: {message}")
    if kind is None:
        kind = DatabaseUnavailable if state.startswith(_UNAVAILABLE_CLASSES) else DatabaseRefused
    if kind is SchemaMismatch:
        return SchemaMismatch(f"database has another schema than this fetchwork wants: {message}")
    if kind is DatabaseUnavailable:
        return DatabaseUnavailable(f"database can't take the call now: {message}")
    # the schema's own words need no introduction
    return kind(message if state.startswith("FW") else f"database refused the call: {message}")


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Inside this block a psycopg error becomes one of fetchwork's."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error) from error


def with_defaults(conninfo: str, application_name: str = "fetchwork") -> str:
    """The connection string with our time limits wherever it has none of its own."""
    with translated():
        given = conninfo_to_dict(conninfo)
        return make_conninfo(conninfo, **{**DEFAULTS, "application_name": application_name, **given})


def _adapt(connection: psycopg.Connection[Row] | psycopg.AsyncConnection[Row]) -> None:
    connection.adapters.register_dumper(dict, JsonbDumper)
    # the server must not remember statements: behind PgBouncer the next call may meet another server process
    connection.prepare_threshold = None


def connect(conninfo: str, application_name: str = "fetchwork") -> psycopg.Connection[Row]:
    """A connection in autocommit whose rows are dicts and whose dicts are jsonb."""
    with translated():
        connection = psycopg.Connection[Row].connect(
            with_defaults(conninfo, application_name),
            autocommit=True,
            row_factory=dict_row,
            cursor_factory=psycopg.ClientCursor,
        )
        _adapt(connection)
        return connection


async def _connect_async(conninfo: str, patience_s: int | None = None) -> psycopg.AsyncConnection[Row]:
    if patience_s is not None:
        conninfo = make_conninfo(conninfo, connect_timeout=patience_s)
    connection = await psycopg.AsyncConnection[Row].connect(
        conninfo, autocommit=True, row_factory=dict_row, cursor_factory=psycopg.AsyncClientCursor
    )
    _adapt(connection)
    return connection


def _statement(function: str, arguments: Mapping[str, Any]) -> tuple[str, list[Any]]:
    named = ", ".join(f"{name} => %s" for name in arguments)
    # names come from this package's own callers; values travel apart
    return f"SELECT * FROM fetchwork.{function}({named})", list(arguments.values())  # noqa: S608


def _timed(sql: str, params: Sequence[Any], timeout_s: float | None) -> tuple[Any, list[Any]]:
    if timeout_s is None:
        return sql, list(params)
    timeout_ms = max(1, int(timeout_s * 1000))
    return f"SELECT set_config('statement_timeout', '{timeout_ms}', true); {sql}", list(params)


def _only_value(rows: list[Row]) -> Any:
    return next(iter(rows[0].values())) if rows else None


def _is_stale(connection: psycopg.Connection[Row] | psycopg.AsyncConnection[Row]) -> bool:
    """True if the server has closed an idle connection; what else it has said is kept for the next call."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    try:
        # the end of the stream is found by the read behind what came before it
        while poll.poll(0):
            connection.pgconn.consume_input()
    except psycopg.Error:
        return True
    return False


class Database:
    """One connection for programs that do one thing after the other; made when first needed, and again.

    Safe to share between threads, which then take turns. Every method raises the exceptions of
    ``fetchwork.errors``; ``timeout_s`` bounds what the server may take for a call.
    """

    def __init__(
        self, conninfo: str, *, application_name: str = "fetchwork", timeout_s: float | None = None
    ) -> None:
        self._conninfo = with_defaults(conninfo, application_name)
        self._timeout_s = timeout_s
        self._connection: psycopg.Connection[Row] | None = None
        self._in_transaction = False
        self._lock = threading.RLock()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a later call makes another."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def run(self, call: Call[T], *, timeout_s: float | None = None) -> T:
        """The result of a call of a SQL function (``fetchwork.db.calls``)."""
        return call.read(self.query(*call.statement(), timeout_s=timeout_s))

    def call(self, function: str, /, *, timeout_s: float | None = None, **arguments: Any) -> list[Row]:
        """The rows of ``fetchwork.function(argument => value, ...)``."""
        return self.query(*_statement(function, arguments), timeout_s=timeout_s)

    def scalar(self, function: str, /, *, timeout_s: float | None = None, **arguments: Any) -> Any:
        """The only value of ``call``; None without a row."""
        return _only_value(self.call(function, timeout_s=timeout_s, **arguments))

    def query(self, sql: str, params: Sequence[Any] = (), *, timeout_s: float | None = None) -> list[Row]:
        """The rows of one statement, whose ``%s`` are params."""
        with self._lock, translated():
            cursor = self._open().execute(*_timed(sql, params, timeout_s or self._timeout_s))
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []

    def script(self, sql: bytes) -> None:
        """Run the statements of a file of SQL."""
        with self._lock, translated():
            # without params: a % is a %
            self._open().execute(sql)

    def stream(self, sql: str, params: Sequence[Any] = (), *, itersize: int = 1000) -> Iterator[Row]:
        """The rows of a large answer, a few at a time; on a connection of its own, so calls may go on."""
        connection = connect(self._conninfo)
        try:
            with translated(), connection.transaction(), connection.cursor("fetchwork_stream") as cursor:
                cursor.itersize = itersize
                cursor.execute(sql, params)
                yield from cursor
        finally:
            connection.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """The calls inside are one transaction."""
        with self._lock, translated(), self._open().transaction():
            outer, self._in_transaction = self._in_transaction, True
            try:
                yield
            finally:
                self._in_transaction = outer

    def notifications(self, channel: str, timeout_s: float) -> bool:
        """Wait until something is notified on ``channel`` or the time is over; tells which.

        What is notified between two calls is not lost. Behind PgBouncer nothing comes, so callers poll too.
        """
        with self._lock, translated():
            connection = self._open()
            connection.execute(f"LISTEN {channel}")
            return any(True for _ in connection.notifies(timeout=timeout_s, stop_after=1))

    def _open(self) -> psycopg.Connection[Row]:
        current = self._connection
        # one that breaks in a transaction stays broken to its end
        if current is None or (not self._in_transaction and _is_stale(current)):
            self.close()
            self._connection = connect(self._conninfo)
        assert self._connection is not None
        return self._connection


class AsyncDatabase:
    """A few connections shared by the tasks of one event loop; see the top of the module.

    ``timeout_s`` of a call bounds everything it may wait for: a free connection, the connection's making, the
    answer. DatabaseUnavailable says that it was over, or why sooner.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        size: int = 2,
        application_name: str = "fetchwork",
        timeout_s: float = 10.0,
    ) -> None:
        self._conninfo = with_defaults(conninfo, application_name)
        self._timeout_s = timeout_s
        self._turn = asyncio.Semaphore(size)
        self._attempt: asyncio.Task[FetchworkError | None] | None = None
        self._closed = False
        self._freed = asyncio.Event()
        self._idle: list[psycopg.AsyncConnection[Row]] = []
        self._open: set[psycopg.AsyncConnection[Row]] = set()
        # in a row: attempts that failed, and attempts and calls that ran out of time
        self._failures = 0
        self._slow = 0
        self._retry_at = 0.0
        #: monotonic time of the last answer, and the problem since then, if there is one
        self.answered_at = time.monotonic()
        self.problem: str | None = None

    def another(self) -> AsyncDatabase:
        """The same database over a connection of its own."""
        return AsyncDatabase(self._conninfo, size=1, timeout_s=self._timeout_s)

    async def __aenter__(self) -> AsyncDatabase:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection, for good; calls in flight fail."""
        self._closed = True
        # a cancelled attempt keeps its connection, and the server waits for the login, until nobody keeps it
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()
            await asyncio.wait({attempt})
        for connection in self._open:
            _cut(connection)
        # the others are closed by the calls that hold them, which fail now
        while self._idle:
            await self._discard(self._idle.pop())

    async def run(self, call: Call[T], *, timeout_s: float | None = None, again: bool = True) -> T:
        """The result of a call of a SQL function (``fetchwork.db.calls``).

        With ``again`` a call whose connection broke is repeated on another within its time: right wherever
        the same call twice does what it does once.
        """
        return call.read(await self.query(*call.statement(), timeout_s=timeout_s, again=again))

    async def call(
        self, function: str, /, *, timeout_s: float | None = None, again: bool = True, **arguments: Any
    ) -> list[Row]:
        """The rows of ``fetchwork.function(argument => value, ...)``.

        With ``again`` a call whose connection broke is repeated on another within its time: right wherever
        the same call twice does what it does once.
        """
        return await self.query(*_statement(function, arguments), timeout_s=timeout_s, again=again)

    async def scalar(
        self, function: str, /, *, timeout_s: float | None = None, again: bool = True, **arguments: Any
    ) -> Any:
        """The only value of ``call``; None without a row."""
        return _only_value(await self.call(function, timeout_s=timeout_s, again=again, **arguments))

    async def query(
        self, sql: str, params: Sequence[Any] = (), *, timeout_s: float | None = None, again: bool = True
    ) -> list[Row]:
        """The rows of one statement, whose ``%s`` are params."""
        end = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        try:
            async with asyncio.timeout(_left(end)):
                await self._turn.acquire()
        except TimeoutError:
            raise DatabaseUnavailable("database call found no free connection in its time") from None
        try:
            while True:
                connection = await self._connection(end)
                try:
                    return await self._run(connection, sql, params, end)
                except DatabaseUnavailable:
                    if not (again and connection.closed and _left(end) > 0):
                        raise
        finally:
            self._turn.release()

    async def stream(
        self, sql: str, params: Sequence[Any] = (), *, itersize: int = 1000
    ) -> AsyncIterator[Row]:
        """The rows of a large answer, a few at a time; on a connection of its own."""
        with translated():
            connection = await _connect_async(self._conninfo)
            async with (
                connection,
                connection.transaction(),
                connection.cursor("fetchwork_stream") as cursor,
            ):
                cursor.itersize = itersize
                await cursor.execute(sql, params)
                async for row in cursor:
                    yield row

    async def notifications(self, channel: str) -> AsyncIterator[str]:
        """What is notified on ``channel``, on a connection of its own; ends with DatabaseUnavailable.

        The first item is '' and says that notifications do arrive: behind PgBouncer it never comes.
        """
        with translated():
            connection = await _connect_async(self._conninfo)
            async with connection:
                probe = f"probe {os.getpid()} {random.getrandbits(64)}"
                await connection.execute(f"LISTEN {channel}")
                # not on this connection: PgBouncer hands it what comes while its own query is answered
                await self.query("SELECT pg_notify(%s, %s)", [channel, probe])
                async for note in connection.notifies():
                    if note.payload == probe:
                        yield ""
                    elif not note.payload.startswith("probe "):
                        yield note.payload

    async def _connection(self, end: float) -> psycopg.AsyncConnection[Row]:
        try:
            async with asyncio.timeout(_left(end)):
                while not self._closed:
                    while self._idle:
                        connection = self._idle.pop()
                        if not _is_stale(connection):
                            return connection
                        await self._discard(connection)
                    error = await self._attempt_or_freed()
                    if error and (not isinstance(error, DatabaseUnavailable) or self._retry_at >= end):
                        raise error
                raise DatabaseUnavailable("database is not asked any more")
        except TimeoutError:
            problem = self.problem or "database does not answer: no connection in the time of the call"
            raise DatabaseUnavailable(problem) from None

    async def _attempt_or_freed(self) -> FetchworkError | None:
        """Wait until a connection was made or put back; the error if the attempt failed."""
        if self._attempt is None:
            self._attempt = asyncio.ensure_future(self._connect())
        attempt = self._attempt
        self._freed.clear()
        freed = asyncio.ensure_future(self._freed.wait())
        try:
            # an attempt outlives the call that gives up on it
            await asyncio.wait({attempt, freed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            freed.cancel()
        if not attempt.done():
            return None
        if self._attempt is attempt:
            self._attempt = None
        return None if attempt.cancelled() else attempt.result()

    async def _connect(self) -> FetchworkError | None:
        """Make one connection, after the pause that is due, and put it among the idle ones."""
        pause = self._retry_at - time.monotonic()
        if pause > 0:
            await asyncio.sleep(pause)
        try:
            with translated():
                connection = await _connect_async(self._conninfo, self._patience_s())
        except FetchworkError as error:
            self.problem = str(error)
            self._failed(slow=isinstance(error.__cause__, psycopg.errors.ConnectionTimeout))
            return error
        self._failures = 0
        self._open.add(connection)
        self._idle.append(connection)
        return None

    def _patience_s(self) -> int | None:
        if not self._slow:
            return None
        first = int(conninfo_to_dict(self._conninfo).get("connect_timeout") or 0)
        # 0 is for ever
        return first and max(first, min(LONGEST_PATIENCE_S, first * 2 ** min(self._slow, 10)))

    def _failed(self, *, slow: bool) -> None:
        if slow:
            self._slow += 1
            longest = min(LONGEST_SLOW_PAUSE_S, FIRST_SLOW_PAUSE_S * 2 ** min(self._slow - 1, 10))
        else:
            self._failures += 1
            longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self._failures, 10))
        self._retry_at = time.monotonic() + random.uniform(0.3, 1.0) * longest  # noqa: S311

    async def _run(
        self, connection: psycopg.AsyncConnection[Row], sql: str, params: Sequence[Any], end: float
    ) -> list[Row]:
        timeout_s = max(0.001, _left(end))
        work = asyncio.ensure_future(_execute(connection, *_timed(sql, params, timeout_s)))
        try:
            # the server gets the time to say itself that the time is over
            await asyncio.wait({work}, timeout=timeout_s + 0.25)
        finally:
            if not work.done():
                self._open.discard(connection)
                # closed when the driver has let go of it
                work.add_done_callback(lambda work: _close_after(work, connection))
                _cut(connection)
        if not work.done():
            if timeout_s >= FIRST_SLOW_PAUSE_S:
                self._failed(slow=True)
            raise DatabaseUnavailable(f"database does not answer: nothing came in {timeout_s:.1f} s")
        try:
            rows = work.result()
        except psycopg.Error as error:
            translation = translate(error)
            if connection.closed:
                self.problem = str(translation)
                await self._discard(connection)
            else:
                self._put_back(connection)
            raise translation from error
        self._put_back(connection)
        return rows

    def _put_back(self, connection: psycopg.AsyncConnection[Row]) -> None:
        self.answered_at = time.monotonic()
        self.problem = None
        self._slow = 0
        self._idle.append(connection)
        self._freed.set()

    async def _discard(self, connection: psycopg.AsyncConnection[Row]) -> None:
        self._open.discard(connection)
        await connection.close()


async def _execute(connection: psycopg.AsyncConnection[Row], sql: Any, params: list[Any]) -> list[Row]:
    cursor = await connection.execute(sql, params)
    while cursor.nextset():
        pass
    return await cursor.fetchall() if cursor.description else []


def _close_after(work: asyncio.Future[Any], connection: psycopg.AsyncConnection[Row]) -> None:
    if not work.cancelled():
        work.exception()
    connection.pgconn.finish()


def _left(end: float) -> float:
    return max(0.0, end - time.monotonic())


def _cut(connection: psycopg.AsyncConnection[Row]) -> None:
    """Make whoever waits on a connection fail now: the driver reads an end of file."""
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as end,
    ):
        end.shutdown(socket.SHUT_RDWR)
