"""Database: one connection, for programs that make one call after the other."""

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
#: wraps a list that is a single jsonb value; a dict always is
Json = Jsonb


#: the databases of this process
_all: WeakSet[Database] = WeakSet()


def _after_fork_in_child() -> None:
    for database in list(_all):
        database._forget_threads()


os.register_at_fork(after_in_child=_after_fork_in_child)


class Database:
    """One connection for programs that make one call after the other; made on first use and after a failure.

    Threads may share it: they take turns. A forked child makes a connection of its own. Every method raises
    the exceptions of ``fetchwork.errors``; ``timeout_s`` limits the time that the server may take for a call.
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
        """Close the connection; a later call makes a new one."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def run(self, call: Call[T], *, timeout_s: float | None = None) -> T:
        """The result of a call of a SQL function (``fetchwork.db.calls``)."""
        return call.read(self.query(*call.statement(), timeout_s=timeout_s))

    def carry(self, call: Call[T]) -> T:
        """As ``run``, for a call that sends or returns bytes: they travel in binary, not as text."""
        with self._lock, translated():
            cursor = psycopg.Cursor(self._open(), row_factory=dict_row)
            return call.read(cursor.execute(*call.statement(), binary=True).fetchall())

    def settings(self) -> dict[str, str]:
        """The settings of the connection as libpq found them: in its string, environment and service file.

        Those with libpq's default and the password are not among them.
        """
        with self._lock, translated():
            return self._open().info.get_parameters()

    def query(self, sql: str, params: Sequence[object] = (), *, timeout_s: float | None = None) -> list[Row]:
        """The rows of one statement; ``params`` are the values of its ``%s``."""
        with self._lock, translated():
            cursor = self._open().execute(*timed(sql, params, timeout_s or self._timeout_s))
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []

    def script(self, sql: bytes) -> None:
        """Run the statements of a SQL file."""
        with self._lock, translated():
            # without params, % has no special meaning
            self._open().execute(sql)

    def stream(self, sql: str, params: Sequence[object] = (), *, itersize: int = 1000) -> Iterator[Row]:
        """The rows of a large answer, a few at a time, on a separate connection: other calls may run."""
        connection = connect(self._conninfo)
        try:
            with translated(), connection.transaction(), connection.cursor("fetchwork_stream") as cursor:
                cursor.itersize = itersize
                cursor.execute(sql, params)
                yield from cursor
        finally:
            connection.close()

    @contextlib.contextmanager
    def transaction(self, *, undone: bool = False) -> Iterator[None]:
        """Run the calls inside as one transaction; ``undone``: it is rolled back in any case."""
        with self._lock, translated(), self._open().transaction(force_rollback=undone):
            outer, self._in_transaction = self._in_transaction, threading.get_ident()
            try:
                yield
            finally:
                self._in_transaction = outer

    def notifications(self, channel: str, timeout_s: float) -> bool:
        """Wait for a notification on ``channel`` or the end of the time; returns whether one came.

        Notifications between two calls are not lost. Behind PgBouncer none come, so callers poll too.
        """
        with self._lock, translated():
            connection = self._open()
            connection.execute(f"LISTEN {channel}")
            return any(True for _ in connection.notifies(timeout=timeout_s, stop_after=1))

    def _forget_threads(self) -> None:
        """In a forked child: replace the lock, because a thread that held it does not exist here."""
        self._lock = threading.RLock()
        if self._in_transaction != threading.get_ident():
            self._in_transaction = None

    def _open(self) -> psycopg.Connection[Row]:
        current = self._connection
        # within a transaction a broken connection is kept until the end
        if current is None or (self._in_transaction is None and is_stale(current)):
            self.close()
            self._connection = connect(self._conninfo)
        assert self._connection is not None
        return self._connection
