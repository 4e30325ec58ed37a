"""Connections: their settings, their making, and their behaviour when the server closes one or we fork."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import select
import socket
from collections.abc import Coroutine, Sequence
from typing import Any, TypeAlias
from weakref import WeakSet

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row
from psycopg.types.json import JsonbDumper, set_json_loads

from fetchwork.db.calls.call import Row
from fetchwork.db.translate import translated
from fetchwork.errors import DatabaseRefused

#: libpq settings that the user's connection string leaves open
DEFAULTS = {
    "connect_timeout": "5",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "client_encoding": "UTF8",
}

#: the type in which psycopg takes composed SQL
Statement: TypeAlias = Any
AnyConnection: TypeAlias = psycopg.Connection[Row] | psycopg.AsyncConnection[Row]

#: every connection that this process has made
_made: WeakSet[AnyConnection] = WeakSet()


def _after_fork_in_child() -> None:
    """Take the parent's connections away from a child that was forked.

    Two processes that share a socket get each other's answers, and a process that closes the connection
    politely ends the other's session. In the child each becomes a connection whose server has gone, silently.
    """
    for connection in list(_made):
        if connection.closed:
            continue
        here, there = socket.socketpair()
        with here, there:
            os.dup2(here.fileno(), connection.fileno(), inheritable=False)


os.register_at_fork(after_in_child=_after_fork_in_child)


def with_defaults(conninfo: str, application_name: str = "fetchwork") -> str:
    """The connection string, with our time limits unless it sets its own."""
    try:
        given = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as error:
        raise DatabaseRefused(
            f"the connection string is wrong: {' '.join(str(error).split())};"
            " allowed: PostgreSQL's, such as 'host=db.example.org dbname=jobs'"
        ) from None
    return make_conninfo(conninfo, **{**DEFAULTS, "application_name": application_name, **given})


def _read_json(text: str | bytes) -> object:
    """The value of a jsonb. If Python can't read it, an object with the reason, under the name NUL.

    Thousands of brackets or digits are valid JSON: an ad that holds them is the problem of its job, and must
    not end the call that reads it with others. jsonb can't hold the name NUL.
    """
    try:
        return json.loads(text)
    except RecursionError:
        return {"\0": "nested deeper than Python reads JSON"}
    except ValueError:
        return {"\0": "a number of thousands of digits"}


def _adapt(connection: AnyConnection) -> None:
    _made.add(connection)
    connection.adapters.register_dumper(dict, JsonbDumper)
    set_json_loads(_read_json, connection)
    # psycopg must not prepare: behind PgBouncer the next call may use another server (fetchwork.db.prepared)
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


async def connect_async(conninfo: str, patience_s: int | None = None) -> psycopg.AsyncConnection[Row]:
    """As ``connect``, for a connection string that has its defaults already; raises the driver's errors."""
    if patience_s is not None:
        conninfo = make_conninfo(conninfo, connect_timeout=patience_s)
    connection = await psycopg.AsyncConnection[Row].connect(
        conninfo, autocommit=True, row_factory=dict_row, cursor_factory=psycopg.AsyncClientCursor
    )
    _adapt(connection)
    return connection


async def slowest_listener(conninfo: str) -> int | None:
    """The process id of the session that keeps PostgreSQL's notification queue more than half full.

    PostgreSQL names it once in five seconds, in a warning to a session that notifies; None if it named none.
    """
    pids: list[str] = []
    with translated():
        async with await connect_async(conninfo) as connection:
            # the detail, in any language, contains one number
            connection.add_notice_handler(
                lambda warning: pids.extend(re.findall(r"\d+", warning.message_detail or ""))
            )
            # this fails if the queue is full, after the warning
            with contextlib.suppress(psycopg.errors.ProgramLimitExceeded):
                await connection.execute(
                    "SELECT set_config('client_min_messages', 'warning', true);"
                    " SELECT pg_notify('fetchwork_work', '')"
                )
    return int(pids[0]) if pids else None


def acting(sql: str, params: Sequence[object], owner: str | None) -> tuple[Statement, list[object]]:
    """A statement with the rights of ``owner`` alone, and its parameters: one message, one transaction."""
    if owner is None:
        return sql, list(params)
    return f"SELECT fetchwork.act_for(%s); {sql}", [owner, *params]


def timed(sql: str, params: Sequence[object], timeout_s: float | None) -> tuple[Statement, list[object]]:
    """A statement that the server ends after ``timeout_s``, and its parameters."""
    if timeout_s is None:
        return sql, list(params)
    timeout_ms = max(1, int(timeout_s * 1000))
    return f"SELECT set_config('statement_timeout', '{timeout_ms}', true); {sql}", list(params)


def is_stale(connection: AnyConnection) -> bool:
    """Whether the server has closed an idle connection; its other messages are kept for the next call."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    try:
        # the end of the stream shows only when the messages before it are read
        while poll.poll(0):
            connection.pgconn.consume_input()
    except psycopg.Error:
        return True
    return False


def cut(connection: psycopg.AsyncConnection[Row]) -> None:
    """Make a task that waits on this connection fail now: the driver reads an end of file."""
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as end,
    ):
        end.shutdown(socket.SHUT_RDWR)


async def apart(
    connection: psycopg.AsyncConnection[Row], asking: Coroutine[None, None, list[Row]]
) -> list[Row]:
    """The driver's answer; a cancelled caller does not wait until the server agrees to the cancellation."""
    work = asyncio.ensure_future(asking)
    try:
        await asyncio.wait({work})
    except asyncio.CancelledError:
        # close the connection once the driver has released it
        if work.done():
            _close_after(work, connection)
        else:
            work.add_done_callback(lambda work: _close_after(work, connection))
            cut(connection)
        raise
    return work.result()


def _close_after(work: asyncio.Future[list[Row]], connection: psycopg.AsyncConnection[Row]) -> None:
    if not work.cancelled():
        work.exception()
    connection.pgconn.finish()
