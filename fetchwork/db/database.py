"""Database: one connection, for programs that do one thing after the other."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from typing import TypeVar
from weakref import WeakSet

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from fetchwork.db.calls.call import Call, Row
from fetchwork.db.connection import connect, is_stale, timed, with_defaults
from fetchwork.db.translate import translated

__all__ = ["Database", "Json"]

T = TypeVar("T")
#: wraps a list that is one jsonb value; a dict is always one
Json = Jsonb


#: the databases of this process
_all: WeakSet[Database] = WeakSet()


def _after_fork_in_child() -> None:
    for database in list(_all):
        database._forget_threads()


os.register_at_fork(after_in_child=_after_fork_in_child)


class Database:
    """One connection for programs that do one thing after the other; made when first needed, and again.

    Safe to share between threads, which then take turns. A process that is forked makes a connection of its
    own. Every method raises the exceptions of ``fetchwork.errors``; ``timeout_s`` bounds what the server may
    take for a call.
    """

    def __init__(
        self, conninfo: str, *, application_name: str = "fetchwork", timeout_s: float | None = None
    ) -> None:
        self._conninfo = with_defaults(conninfo, application_name)
        self._timeout_s = timeout_s
        self._connection: psycopg.Connection[Row] | None = None
        #: the thread whose transaction is open
        self._in_transaction: int | None = None
        self._lock = threading.RLock()
        _all.add(self)

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

    def carry(self, call: Call[T]) -> T:
        """As ``run``, for a call that carries or brings bytes: they travel as they are, not as text."""
        with self._lock, translated():
            cursor = psycopg.Cursor(self._open(), row_factory=dict_row)
            return call.read(cursor.execute(*call.statement(), binary=True).fetchall())

    def query(self, sql: str, params: Sequence[object] = (), *, timeout_s: float | None = None) -> list[Row]:
        """The rows of one statement, whose ``%s`` are params."""
        with self._lock, translated():
            cursor = self._open().execute(*timed(sql, params, timeout_s or self._timeout_s))
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []

    def script(self, sql: bytes) -> None:
        """Run the statements of a file of SQL."""
        with self._lock, translated():
            # without params: a % is a %
            self._open().execute(sql)

    def stream(self, sql: str, params: Sequence[object] = (), *, itersize: int = 1000) -> Iterator[Row]:
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
            outer, self._in_transaction = self._in_transaction, threading.get_ident()
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

    def _forget_threads(self) -> None:
        """In a forked child: another thread that held the lock is not here to release it."""
        self._lock = threading.RLock()
        if self._in_transaction != threading.get_ident():
            self._in_transaction = None

    def _open(self) -> psycopg.Connection[Row]:
        current = self._connection
        # one that breaks in a transaction stays broken to its end
        if current is None or (self._in_transaction is None and is_stale(current)):
            self.close()
            self._connection = connect(self._conninfo)
        assert self._connection is not None
        return self._connection
