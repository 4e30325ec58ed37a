"""Applies ``sql/`` to a database, and compares a database's schema with the one of this fetchwork.

There is no migration library, because a DBA must be able to apply the same files with psql and leave the same
records. So each migration writes its own row into ``fetchwork.migration`` (a library keeps its own table, and
only when it runs itself). Functions and views are not migrated but replaced as a whole at each upgrade.

``sql/install.sql`` is the only list of the files and their order; psql reads it by ``\\ir``, and so does this
module. Everything is one transaction: a failed upgrade changes nothing. Two upgrades at once are harmless: a
row of ``fetchwork.turn``, which only the schema's owner can lock, makes the second wait, and the second then
has nothing left to do. If two create the schema at once, the second waits for the first, is refused, and
begins again. An upgrade that PostgreSQL ends for a deadlock begins again too: it locks views one after the
other, and queries lock several in another order.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fetchwork.errors import AlreadyThere, Deadlock, FetchworkError, SchemaMismatch

if TYPE_CHECKING:
    from fetchwork.db.database import Database

T = TypeVar("T")

#: an upgrade is ended for a deadlock so many times, each after deadlock_timeout (1 s), before it fails
_TRIES = 10

#: migrations of checkouts before the first release, which are now part of the base
_BEFORE_RELEASE = {"attributes", "event_logs", "restore"}

_OTHER_BASE = (
    "; if a checkout from before the first release made the database, there is no upgrade: make a new"
    " database, and run `fetchwork db init` there"
)

_PACKAGE = Path(__file__).resolve().parents[1]


def sql_directory() -> Path:
    """The directory of the SQL files: inside an installed package, or beside it in a checkout."""
    for directory in (_PACKAGE / "_sql", _PACKAGE.parent / "sql"):
        if (directory / "install.sql").is_file():
            return directory
    raise SchemaMismatch(f"no SQL files beside '{_PACKAGE}': the installation is incomplete")


@dataclass(frozen=True)
class Migration:
    """One numbered file of ``sql/migrations``."""

    version: int
    path: Path


@dataclass(frozen=True)
class Status:
    """A database's migrations (``installed``; empty: no schema) and those of this fetchwork (``known``)."""

    installed: tuple[int, ...]
    known: tuple[int, ...]
    #: names of the installed migrations, by version
    names: Mapping[int, str] = field(default_factory=dict)
    #: whether there is a schema
    is_there: bool = True

    @property
    def pending(self) -> tuple[int, ...]:
        """The migrations that an upgrade would apply."""
        return tuple(version for version in self.known if version not in self.installed)

    @property
    def newer(self) -> bool:
        """Whether the database has a later version than this fetchwork knows."""
        return bool(self.installed) and max(self.installed) > max(self.known)

    @property
    def before_release(self) -> bool:
        """Whether a checkout from before the first release made the database; its migrations are gone."""
        return not _BEFORE_RELEASE.isdisjoint(self.names.values())

    @property
    def problem(self) -> str | None:
        """The reason that no upgrade helps this database, and the remedy; None if an upgrade helps."""
        if self.before_release:
            return (
                f"schema version {max(self.installed)} was made by a checkout from before the first release,"
                " which has no upgrade: make a new database, and run `fetchwork db init` there"
            )
        if not self.newer:
            return None
        return (
            f"the database has schema version {max(self.installed)}, this fetchwork speaks up to"
            f" {max(self.known)}: upgrade fetchwork on this host"
        )


def files() -> tuple[list[Migration], list[Path]]:
    """The migrations, and the files that are applied again at each upgrade, in their order."""
    directory = sql_directory()
    listed = re.findall(r"^\\ir (\S+)$", (directory / "install.sql").read_text(encoding="utf-8"), re.M)
    migrations, replaced = [], []
    for name in listed:
        numbered = re.fullmatch(r"migrations/(\d{4})_\w+\.sql", name)
        if numbered:
            migrations.append(Migration(int(numbered[1]), directory / name))
        else:
            replaced.append(directory / name)
    return migrations, replaced


def latest() -> int:
    """The schema version of this fetchwork."""
    return max(migration.version for migration in files()[0])


def status(conninfo: str) -> Status:
    """Compare a database with this fetchwork.

    Raises DatabaseUnavailable if the database does not answer.
    """
    with _open(conninfo) as database:
        return status_of(database)


class Readiness:
    """Whether a database can serve this fetchwork; it is asked once in ``FRESH_S``, however many ask."""

    FRESH_S = 2.0

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._lock = threading.Lock()
        self._asked_at = -self.FRESH_S
        self._problem: str | None = None

    def problem(self) -> str | None:
        """The reason why it can't, or None; any thread may call this, and waits for the database."""
        with self._lock:
            if time.monotonic() - self._asked_at >= self.FRESH_S:
                self._problem = _unready(self._conninfo)
                self._asked_at = time.monotonic()
            return self._problem


def _unready(conninfo: str) -> str | None:
    try:
        found = status(conninfo)
    except FetchworkError as error:
        return str(error)
    if not found.installed:
        return "the database has no schema 'fetchwork'"
    if found.pending:
        return f"the database has schema {max(found.installed)}, this fetchwork needs {max(found.known)}"
    return found.problem


def init(conninfo: str) -> list[int]:
    """Make the schema in a database that has none; return the applied migrations.

    On a database that has a schema it does the same as upgrade. Raises DatabaseUnavailable, DatabaseRefused
    (no right to create a schema or roles), SchemaMismatch (made by a newer fetchwork).
    """
    return upgrade(conninfo, create=True)


def upgrade(conninfo: str, *, create: bool = False) -> list[int]:
    """Apply missing migrations, and replace functions, views and grants; return the applied migrations.

    Raises as init does, and SchemaMismatch if there is no schema and create is false.
    """
    try:
        return past_deadlocks(lambda: _upgrade(conninfo, create))
    except AlreadyThere:
        return _upgrade(conninfo, create)


def past_deadlocks(transaction: Callable[[], T]) -> T:
    """Do a transaction, again if it was ended for a deadlock, in which case it changed nothing."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(Deadlock):
            return transaction()
    return transaction()


def _upgrade(conninfo: str, create: bool) -> list[int]:
    """As upgrade; raises AlreadyThere if another session has made the schema meanwhile."""
    with _open(conninfo) as database, database.transaction():
        return apply(database, create=create)


def apply(database: Database, *, create: bool = False) -> list[int]:
    """As upgrade, in the transaction of a connection; raises AlreadyThere as its statements do."""
    migrations, replaced = files()
    if status_of(database).installed:
        database.query("SELECT FROM fetchwork.turn WHERE name = 'schema' FOR UPDATE")
    found = status_of(database)
    if not found.installed and not create:
        raise SchemaMismatch("the database has no schema 'fetchwork': run `fetchwork db init`")
    if found.problem is not None:
        raise SchemaMismatch(found.problem)
    applied = [migration for migration in migrations if migration.version in found.pending]
    for path in [*(migration.path for migration in applied), *replaced]:
        try:
            database.script(path.read_bytes())
        except FetchworkError as error:
            name = path.relative_to(sql_directory())
            hint = ""
            differs = isinstance(error, SchemaMismatch) or "cannot change" in str(error)
            if found.installed and differs:
                # until the first release the base is changed in place
                hint = _OTHER_BASE
            raise type(error)(f"cannot apply '{name}': {error}{hint}") from error
    return [migration.version for migration in applied]


def status_of(database: Database) -> Status:
    """As ``status``, on a connection."""
    known = tuple(migration.version for migration in files()[0])
    (there,) = database.query("SELECT to_regclass('fetchwork.migration') IS NOT NULL AS is_there")
    if not there["is_there"]:
        return Status((), known, is_there=False)
    rows = database.query("SELECT version, name FROM fetchwork.migration ORDER BY version")
    names = {row["version"]: row["name"] for row in rows}
    return Status(tuple(names), known, names)


def _open(conninfo: str) -> Database:
    # its import takes as long as all else of `fetchwork --version`
    from fetchwork.db.database import Database

    return Database(conninfo, application_name="fetchwork db")
