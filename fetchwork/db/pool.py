"""AsyncDatabase: a few connections shared by the tasks of one event loop.

Theory of operation
-------------------
A call is one round trip: ``set_config('statement_timeout', ..., true)`` and the call itself, which PostgreSQL
runs as one transaction. So the server ends calls whose callers no longer wait, a call's settings end with its
transaction, and PgBouncer's transaction pooling works. The two statements travel as text in one message. A
call that a connection repeats is prepared if prepared statements work there (``fetchwork.db.prepared``).

A server may also be deaf: the connection is open but no byte comes. To give up a call, psycopg asks the
server to cancel it and waits for its consent. ``AsyncDatabase`` instead shuts the socket down when the time
is over, so the driver fails at once.

The pool is our own because psycopg_pool reconnects on a schedule of its own (1, 2, 4, ... seconds, up to
minutes), while the agent promises the first fetch within 2 s of the database's return. Here a connection is
made when a call needs one. After a failure there is at most one attempt at a time, after a random pause below
1.5 s; so a thousand agents that lost the same database come back spread over that time. A connection that the
server closed while it was idle is noticed before it is used.

If a thousand agents return at once, the server may need longer to admit one than a call's time. If each agent
gave up then and began anew, all that work would be wasted and no agent would ever get in (seen with 1 000
agents on a busy machine). So an attempt goes on after the call that wanted it has given up, and the next call
uses its connection. After an attempt or a call ran out of time, the next attempt waits longer beforehand and
has more time. A refusal costs the server nothing and changes neither.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from fetchwork.db.calls.call import Call, Row
from fetchwork.db.connection import (
    Statement,
    acting,
    apart,
    connect_async,
    cut,
    is_stale,
    slowest_listener,
    timed,
    with_defaults,
)
from fetchwork.db.prepared import KeptStatements, notified
from fetchwork.db.translate import translate, translated
from fetchwork.errors import DatabaseUnavailable, FetchworkError

__all__ = ["AsyncDatabase"]

T = TypeVar("T")
#: runs a call on a connection, within so many seconds
_Answered: TypeAlias = Callable[[psycopg.AsyncConnection[Row], float], Awaitable[list[Row]]]

#: pauses before another attempt: after a refusal, and after an attempt that ran out of time
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.5
FIRST_SLOW_PAUSE_S = 1.0
LONGEST_SLOW_PAUSE_S = 5.0
#: the longest time for an attempt, after many ran out of time (the first has connect_timeout)
LONGEST_PATIENCE_S = 60
#: extra time in which the server may itself report that a call's time is over
SERVER_S = 0.25


class AsyncDatabase:
    """A few connections shared by the tasks of one event loop; see the module's docstring.

    ``timeout_s`` of a call limits everything that it may wait for: a free connection, the making of one, the
    answer. DatabaseUnavailable says that the time is over, or why the call failed sooner.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        size: int = 2,
        application_name: str = "fetchwork",
        timeout_s: float = 10.0,
    ) -> None:
        self._application_name = application_name
        self._conninfo = with_defaults(conninfo, application_name)
        self._timeout_s = timeout_s
        self._turn = asyncio.Semaphore(size)
        self._attempt: asyncio.Task[FetchworkError | None] | None = None
        self._closed = False
        self._freed = asyncio.Event()
        self._idle: list[psycopg.AsyncConnection[Row]] = []
        self._open: set[psycopg.AsyncConnection[Row]] = set()
        #: connections of an earlier conninfo, to be closed after their calls
        self._outdated: set[psycopg.AsyncConnection[Row]] = set()
        #: databases made by ``another``
        self._others: weakref.WeakSet[AsyncDatabase] = weakref.WeakSet()
        #: the kept statements of each open connection
        self._kept: dict[psycopg.AsyncConnection[Row], KeptStatements] = {}
        # consecutive failed attempts, and consecutive attempts and calls that ran out of time
        self._failures = 0
        self._slow = 0
        self._retry_at = 0.0
        #: monotonic time of the last answer, and the present problem, if there is one
        self.answered_at = time.monotonic()
        self.problem: str | None = None

    def another(self) -> AsyncDatabase:
        """The same database over a separate connection."""
        other = AsyncDatabase(self._conninfo, size=1, timeout_s=self._timeout_s)
        self._others.add(other)
        return other

    def use(self, conninfo: str) -> None:
        """Make new connections by another conninfo of the same database; close the old ones after use."""
        self._conninfo = with_defaults(conninfo, self._application_name)
        self._outdated |= self._open
        self._failures = 0
        self._retry_at = 0.0
        for other in self._others:
            other.use(conninfo)

    async def __aenter__(self) -> AsyncDatabase:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection for good; calls in flight fail."""
        self._closed = True
        # a cancelled attempt keeps its connection, and the server awaits the login, while a reference exists
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()
            await asyncio.wait({attempt})
        for connection in self._open:
            cut(connection)
        # calls in flight fail now and close their own connections
        while self._idle:
            await self._discard(self._idle.pop())

    async def run(
        self,
        call: Call[T],
        *,
        timeout_s: float | None = None,
        again: bool = True,
        acting_for: str | None = None,
    ) -> T:
        """The result of a call of a SQL function (``fetchwork.db.calls``).

        With ``again`` a call whose connection broke is repeated on another one within its time: right if
        repeating the call has no further effect. ``acting_for``: with the rights of this account alone.
        """
        sql, params = call.statement()
        if acting_for is not None:
            return call.read(
                await self.query(sql, params, timeout_s=timeout_s, again=again, acting_for=acting_for)
            )
        return call.read(await self._answer(self._by_kept(sql, params), timeout_s, again=again))

    def _by_kept(self, sql: str, params: Sequence[object]) -> _Answered:
        async def answered(connection: psycopg.AsyncConnection[Row], left_s: float) -> list[Row]:
            try:
                rows = await self._kept[connection].rows(sql, params, left_s)
            except asyncio.CancelledError:
                connection.pgconn.finish()
                raise
            return await _execute(connection, *timed(sql, params, left_s)) if rows is None else rows

        return answered

    async def query(
        self,
        sql: str,
        params: Sequence[object] = (),
        *,
        timeout_s: float | None = None,
        again: bool = True,
        acting_for: str | None = None,
        kept: bool = False,
    ) -> list[Row]:
        """The rows of one statement; ``params`` are the values of its ``%s``.

        ``kept``: prepare the statement and keep it with its connection; for a text that is used often.
        """
        if kept and acting_for is None:
            return await self._answer(self._by_kept(sql, params), timeout_s, again=again)
        acted, given = acting(sql, params, acting_for)

        def answered(connection: psycopg.AsyncConnection[Row], left_s: float) -> Awaitable[list[Row]]:
            return _execute(connection, *timed(acted, given, left_s))

        return await self._answer(answered, timeout_s, again=again)

    async def carry(self, call: Call[T], *, timeout_s: float | None = None) -> T:
        """As ``run``, for a call that sends or returns bytes: they travel in binary, not as text.

        The server does not know the caller's time limit; it finds the connection closed.
        """
        statement = call.statement()

        def answered(connection: psycopg.AsyncConnection[Row], _: float) -> Awaitable[list[Row]]:
            return _carried(connection, *statement)

        return call.read(await self._answer(answered, timeout_s, again=True))

    async def _answer(self, answered: _Answered, timeout_s: float | None, *, again: bool) -> list[Row]:
        end = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        try:
            if self._turn.locked():
                async with asyncio.timeout(_left(end)):
                    await self._turn.acquire()
            else:
                await self._turn.acquire()
        except TimeoutError:
            raise DatabaseUnavailable("no database connection became free in time") from None
        try:
            while True:
                connection = await self._connection(end)
                try:
                    return await self._run(connection, answered, end)
                except DatabaseUnavailable:
                    if not (again and connection.closed and _left(end) > 0):
                        raise
        finally:
            self._turn.release()

    async def notifications(self, channel: str) -> AsyncGenerator[str, None]:
        """The notifications on ``channel``, on a separate connection; ends with DatabaseUnavailable.

        The first item is '' and shows that notifications do arrive: behind PgBouncer it never comes. A caller
        that may leave early uses ``contextlib.aclosing``, which closes the connection.
        """
        with translated():
            connection = await connect_async(self._conninfo)
            async with connection:
                probe = f"probe {os.getpid()} {random.getrandbits(64)}"
                await connection.execute(f"LISTEN {channel}")
                # on another connection: during a connection's own query PgBouncer would let the probe through
                await self.query("SELECT pg_notify(%s, %s)", [channel, probe])
                while True:
                    for payload in await notified(connection):
                        if payload == probe:
                            yield ""
                        elif not payload.startswith("probe "):
                            yield payload

    async def slowest_listener(self) -> int | None:
        """As ``connection.slowest_listener``, on a separate connection."""
        return await slowest_listener(self._conninfo)

    async def _connection(self, end: float) -> psycopg.AsyncConnection[Row]:
        try:
            connection = await self._idle_one()
            if connection is not None:
                return connection
            async with asyncio.timeout(_left(end)):
                while not self._closed:
                    error = await self._attempt_or_freed()
                    if error and (not isinstance(error, DatabaseUnavailable) or self._retry_at >= end):
                        raise error
                    connection = await self._idle_one()
                    if connection is not None:
                        return connection
                raise DatabaseUnavailable("database connection is closed")
        except TimeoutError:
            problem = self.problem or "database does not answer: no connection in the time of the call"
            raise DatabaseUnavailable(problem) from None

    async def _idle_one(self) -> psycopg.AsyncConnection[Row] | None:
        while self._idle and not self._closed:
            connection = self._idle.pop()
            if connection not in self._outdated and not is_stale(connection):
                return connection
            await self._discard(connection)
        return None

    async def _attempt_or_freed(self) -> FetchworkError | None:
        """Wait until a connection was made or returned; the error if the attempt failed."""
        if self._attempt is None:
            self._attempt = asyncio.ensure_future(self._connect())
        attempt = self._attempt
        self._freed.clear()
        freed = asyncio.ensure_future(self._freed.wait())
        try:
            # an attempt outlives a call that gives up on it
            await asyncio.wait({attempt, freed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            freed.cancel()
        if not attempt.done():
            return None
        if self._attempt is attempt:
            self._attempt = None
        return None if attempt.cancelled() else attempt.result()

    async def _connect(self) -> FetchworkError | None:
        """Make one connection, after the pause that is due, and add it to the idle ones."""
        pause = self._retry_at - time.monotonic()
        if pause > 0:
            await asyncio.sleep(pause)
        try:
            with translated():
                connection = await connect_async(self._conninfo, self._patience_s())
        except FetchworkError as error:
            self.problem = str(error)
            self._failed(slow=isinstance(error.__cause__, psycopg.errors.ConnectionTimeout))
            return error
        self._failures = 0
        self._open.add(connection)
        self._kept[connection] = KeptStatements(connection)
        self._idle.append(connection)
        return None

    def _patience_s(self) -> int | None:
        if not self._slow:
            return None
        first = int(conninfo_to_dict(self._conninfo).get("connect_timeout") or 0)
        # 0 means no limit
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
        self, connection: psycopg.AsyncConnection[Row], answered: _Answered, end: float
    ) -> list[Row]:
        timeout_s = max(0.001, _left(end))
        over = False

        def give_up() -> None:
            nonlocal over
            over = True
            cut(connection)

        timer = asyncio.get_running_loop().call_later(timeout_s + SERVER_S, give_up)
        try:
            rows = await answered(connection, timeout_s)
        except psycopg.Error as error:
            if over:
                await self._discard(connection)
                if timeout_s >= FIRST_SLOW_PAUSE_S:
                    self._failed(slow=True)
                raise DatabaseUnavailable(
                    f"database does not answer: nothing came in {timeout_s:.1f} s"
                ) from None
            translation = translate(error)
            if isinstance(error, psycopg.errors.ReadOnlySqlTransaction) and not connection.closed:
                # this server is no longer the primary: the next connection may find the new one
                await self._discard(connection)
                self.problem = str(translation)
            elif connection.closed:
                self.problem = str(translation)
                await self._discard(connection)
            else:
                self._put_back(connection)
            raise translation from error
        except Exception:
            # a parameter can't be sent
            await self._discard(connection)
            raise
        except BaseException:
            # cancelled: the code that waited for the connection closes it
            self._forget(connection)
            raise
        finally:
            timer.cancel()
        self._put_back(connection)
        return rows

    def _put_back(self, connection: psycopg.AsyncConnection[Row]) -> None:
        self.answered_at = time.monotonic()
        self.problem = None
        self._slow = 0
        self._idle.append(connection)
        self._freed.set()

    async def _discard(self, connection: psycopg.AsyncConnection[Row]) -> None:
        self._forget(connection)
        await connection.close()

    def _forget(self, connection: psycopg.AsyncConnection[Row]) -> None:
        self._open.discard(connection)
        self._outdated.discard(connection)
        self._kept.pop(connection, None)


async def _execute(
    connection: psycopg.AsyncConnection[Row], sql: Statement, params: list[object]
) -> list[Row]:
    async def execute() -> list[Row]:
        cursor = await connection.execute(sql, params)
        while cursor.nextset():
            pass
        return await cursor.fetchall() if cursor.description else []

    return await apart(connection, execute())


async def _carried(connection: psycopg.AsyncConnection[Row], sql: str, params: Sequence[object]) -> list[Row]:
    async def carry() -> list[Row]:
        cursor = psycopg.AsyncCursor(connection, row_factory=dict_row)
        return await (await cursor.execute(sql, params, binary=True)).fetchall()

    return await apart(connection, carry())


def _left(end: float) -> float:
    return max(0.0, end - time.monotonic())
