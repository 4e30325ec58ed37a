"""Calls by prepared statements: prepared once for each connection, if the pooler in between allows it.

A call is one round trip and one transaction, like others: a pipeline of the time limit and the call itself,
up to one Sync. The second call of a function on a connection prepares it. Values travel as text; PostgreSQL
takes their types from the function's own arguments, as it does for quoted literals. So a function has one
statement for all values.

A pooler may hand each transaction to another server process, which lacks the statements prepared before.
PgBouncer from 1.21 on tracks them, under names of its own, if its max_prepared_statements allows it. So a
connection is probed before its first statement. It may prepare if its server process is the process that
greeted it (a pooler invents the number in the greeting), or if a statement prepared on it has another name at
the server. If this changes during the connection's life (a pooler's settings, an upgrade of the schema), the
server refuses the call as a whole, and the call is sent as text.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Sequence
from functools import cache
from math import isfinite

import psycopg
from psycopg import pq
from psycopg.abc import Buffer
from psycopg.abc import Transformer as AdaptTransformer
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result

from fetchwork.db.calls.call import Row

__all__ = ["KeptStatements", "notified"]

_LIMIT = "SELECT set_config('statement_timeout', %s, true)"
#: the statement is missing, exists already, or returns other columns than when it was prepared
_REFUSALS = (
    psycopg.errors.InvalidSqlStatementName,
    psycopg.errors.DuplicatePreparedStatement,
    psycopg.errors.FeatureNotSupported,
)
_ERRORS = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)


class KeptStatements:
    """The prepared statements of one connection, which one caller at a time uses."""

    def __init__(self, connection: psycopg.AsyncConnection[Row]) -> None:
        self._connection = connection
        self._called: set[str] = set()
        self._names: dict[str, bytes] = {}
        #: whether statements can be kept; None: not known yet
        self._keeps: bool | None = None
        self._direct = False

    async def rows(self, sql: str, params: Sequence[object], timeout_s: float) -> list[Row] | None:
        """The rows of a statement with ``%s`` for params; None: nothing was done, send it as text.

        Raises the driver's errors.
        """
        if self._keeps is None and sql in self._called:
            self._direct = await self._is_direct()
            self._keeps = self._direct or await self._is_tracked()
        if sql not in self._called:
            self._called.add(sql)
            return None
        if not self._keeps:
            return None
        limit = str(max(1, int(timeout_s * 1000)))
        try:
            return await self._run(((_LIMIT, [limit]), (sql, params)))
        except _REFUSALS:
            if self._direct:
                # the server still has the old statements, under names that are not used again
                self._called.clear()
            else:
                self._keeps = False
            self._names.clear()
            return None

    async def _is_direct(self) -> bool:
        try:
            cursor = await self._connection.execute("SELECT pg_backend_pid() AS pid")
            (row,) = await cursor.fetchall()
        except asyncio.CancelledError:
            self._connection.pgconn.finish()
            raise
        return bool(row["pid"] == self._connection.pgconn.backend_pid)

    async def _is_tracked(self) -> bool:
        """Whether the statement has another name at the server: then a pooler keeps track of it."""
        if not psycopg.capabilities.has_send_close_prepared():
            return False
        name = f"fetchwork_probe_{secrets.token_hex(8)}"
        pgconn = self._connection.pgconn
        pgconn.enter_pipeline_mode()
        pgconn.send_prepare(name.encode(), b"SELECT FROM pg_prepared_statements WHERE name = $1")
        pgconn.send_query_prepared(name.encode(), [name.encode()])
        pgconn.send_close_prepared(name.encode())
        _, found, _ = await self._results()
        # if a pooler refuses one of these messages, this answer is missing
        return found.status == pq.ExecStatus.TUPLES_OK and found.ntuples == 0

    async def _run(self, statements: Sequence[tuple[str, Sequence[object]]]) -> list[Row]:
        """Run the statements as one transaction; return the rows of the last."""
        adapt: AdaptTransformer = Transformer(self._connection)
        # convert first: a value that can't become text is the caller's error, before anything is sent
        dumped = [(sql, _dumped(adapt, params)) for sql, params in statements]
        pgconn = self._connection.pgconn
        pgconn.enter_pipeline_mode()
        anew: dict[int, str] = {}
        sent = 0
        for sql, values in dumped:
            name = self._names.get(sql)
            if name is None:
                name = f"fetchwork_{secrets.token_hex(8)}".encode()
                self._names[sql] = name
                anew[sent] = sql
                pgconn.send_prepare(name, _numbered(sql))
                sent += 1
            pgconn.send_query_prepared(name, values)
            sent += 1
        results = await self._results()
        for number, sql in anew.items():
            if results[number].status != pq.ExecStatus.COMMAND_OK:
                del self._names[sql]
        result = self._last(results)
        columns = [(result.fname(n) or b"").decode() for n in range(result.nfields)]
        adapt.set_pgresult(result)
        return adapt.load_rows(0, result.ntuples, lambda row: dict(zip(columns, row, strict=True)))

    async def _results(self) -> list[pq.abc.PGresult]:
        """Send the pipeline; return a result for each of its messages, once all have come."""
        pgconn = self._connection.pgconn
        pgconn.pipeline_sync()
        results: list[pq.abc.PGresult] = []
        unsent = pgconn.flush()
        while True:
            try:
                await _ready(pgconn.socket, write=bool(unsent))
            except asyncio.CancelledError:
                # later results would be taken for the answer to the next call
                pgconn.finish()
                raise
            pgconn.consume_input()
            if unsent:
                unsent = pgconn.flush()
            while not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:
                    # the end of one statement's results
                    continue
                if result.status == pq.ExecStatus.PIPELINE_SYNC:
                    pgconn.exit_pipeline_mode()
                    return results
                results.append(result)

    def _last(self, results: Sequence[pq.abc.PGresult]) -> pq.abc.PGresult:
        """The last result; raises the first error among the results."""
        for result in results:
            if result.status in _ERRORS:
                raise error_from_result(result, self._connection.info.encoding)
        return results[-1]


def _dumped(adapt: AdaptTransformer, params: Sequence[object]) -> list[Buffer | None]:
    """The parameters as text."""
    values: list[Buffer | None] = [None] * len(params)
    others: list[int] = []
    for n, value in enumerate(params):
        text = _array(value) if isinstance(value, list) else None
        if text is None:
            others.append(n)
        else:
            values[n] = text.encode(adapt.encoding)
    dumped = adapt.dump_sequence([params[n] for n in others], [PyFormat.TEXT] * len(others))
    for n, one in zip(others, dumped, strict=True):
        values[n] = one
    return values


def _array(items: list[object]) -> str | None:
    """The text of an array of numbers, texts or objects; None for other arrays, which psycopg converts.

    The text equals psycopg's. psycopg's conversion of lists took half the time of a call with a dozen lists.
    """
    texts: list[str] = []
    for item in items:
        if type(item) is int:
            texts.append(str(item))
        elif item is None:
            texts.append("NULL")
        elif type(item) is float and isfinite(item):
            texts.append(repr(item))
        elif type(item) is str or type(item) is dict:
            text = item if isinstance(item, str) else json.dumps(item)
            if "\0" in text:
                return None
            texts.append('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')
        else:
            return None
    return "{" + ",".join(texts) + "}"


@cache
def _numbered(sql: str) -> bytes:
    """A statement with PostgreSQL's numbered parameters in place of ``%s``."""
    first, *rest = sql.split("%s")
    return "".join([first, *(f"${n}{part}" for n, part in enumerate(rest, 1))]).encode()


async def notified(connection: psycopg.AsyncConnection[Row]) -> list[str]:
    """Wait for notifications and return their payloads; the driver's own method wakes ten times a second."""
    pgconn = connection.pgconn
    await _ready(pgconn.socket, write=False)
    pgconn.consume_input()
    payloads: list[str] = []
    while (note := pgconn.notifies()) is not None:
        payloads.append(note.extra.decode(connection.info.encoding))
    return payloads


async def _ready(socket: int, *, write: bool) -> None:
    """Wait until the socket is readable or, with ``write``, writable."""
    loop = asyncio.get_running_loop()
    came: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not came.done():
            came.set_result(None)

    loop.add_reader(socket, wake)
    if write:
        loop.add_writer(socket, wake)
    try:
        await came
    finally:
        loop.remove_reader(socket)
        if write:
            loop.remove_writer(socket)
