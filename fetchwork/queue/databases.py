"""The databases of a pool with several servers, by name. Each database is the counterpart of a schedd.

The file that FETCHWORK_DATABASES names, else /etc/fetchwork/databases.toml, lists them::

    [database.main]
    conninfo = "host=db1.example.org dbname=jobs"
    replica = "host=db1-replica.example.org dbname=jobs"

    [database.physics]
    conninfo = "host=db2.example.org dbname=jobs"

The first is the default if no name is given. ``replica``, a standby of the database, is read by commands that
show jobs and history. Job ids belong to a database: two databases may each have a job 42.0.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fetchwork.errors import ConfigError

VARIABLE = "FETCHWORK_DATABASES"
FILE = "/etc/fetchwork/databases.toml"
_SETTINGS = ("conninfo", "replica")


@dataclass(frozen=True, slots=True)
class NamedDatabase:
    """One database; ``replica`` is the connection string of its standby, if it has one."""

    name: str
    conninfo: str
    replica: str | None = None

    def for_reading(self) -> str:
        """The connection string for commands that only read."""
        return self.replica if self.replica is not None else self.conninfo


def known() -> list[NamedDatabase]:
    """The databases of this machine, in the file's order; empty without a file. Raises ConfigError."""
    named = os.environ.get(VARIABLE)
    path = Path(named or FILE)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if named:
            raise ConfigError([f"{path}: no such file, which {VARIABLE} names"]) from None
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: {error}"]) from None
    try:
        return list(_read(path, tomllib.loads(text)))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{path}: {error}"]) from None


def named(name: str) -> NamedDatabase:
    """The database with this name; raises ConfigError."""
    databases = known()
    for database in databases:
        if database.name == name:
            return database
    names = ", ".join(f"'{database.name}'" for database in databases)
    listed = os.environ.get(VARIABLE) or FILE
    raise ConfigError([f"there is no database '{name}'; allowed: {names or f'none, {listed} lists them'}"])


def _read(path: Path, document: dict[str, object]) -> Iterator[NamedDatabase]:
    tables = document.get("database")
    if set(document) != {"database"} or not isinstance(tables, dict) or not tables:
        raise ConfigError([f"{path}: allowed: tables [database.NAME], one at least"])
    for name, table in tables.items():
        section = f"{path}: [database.{name}]"
        if not isinstance(table, dict) or not isinstance(table.get("conninfo"), str):
            raise ConfigError([f"{section}: no conninfo; allowed: a connection string"])
        for key, value in table.items():
            if key not in _SETTINGS or not isinstance(value, str):
                raise ConfigError([f"{section}: {key}; allowed: the texts {', '.join(_SETTINGS)}"])
        yield NamedDatabase(name, table["conninfo"], table.get("replica"))
