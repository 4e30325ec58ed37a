"""Answers for administrators: a database's server, its roles' rights, and hosts awaited after a move."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from fetchwork.db.calls.call import Record
from fetchwork.db.database import Database


def may_submit(database: Database, role: str) -> bool:
    """Whether a role has the rights of ``fetchwork_submitter``."""
    rows = database.query(
        "SELECT pg_has_role(oid, 'fetchwork_submitter', 'USAGE') AS may FROM pg_roles WHERE rolname = %s",
        [role],
    )
    return any(row["may"] for row in rows)


def location(conninfo: str) -> str:
    """The database that a connection string names, its server, and the role."""
    with Database(conninfo) as database:
        (row,) = database.query(
            "SELECT current_database() AS name, current_user AS role, host(inet_server_addr()) AS host"
        )
    return f"database '{row['name']}' on {row['host'] or 'this machine'}, role {row['role']}"


def quoted(name: str) -> str:
    """A role's name, quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Unsettled(Record):
    """A host that blocks claims after the database has moved or was restored (sql/views/unsettled.sql).

    It has not reported its runs yet. Without a name it stands for all hosts that this database does not know.
    """

    machine: str | None
    moved_at: datetime.datetime
    until_at: datetime.datetime


def unsettled(conninfo: str) -> list[Unsettled]:
    """The hosts that block claims, by name; raises DatabaseUnavailable, DatabaseRefused."""
    with Database(conninfo) as database:
        return [
            Unsettled.from_row(row)
            for row in database.query(
                "SELECT machine, moved_at, until_at FROM fetchwork.unsettled ORDER BY machine NULLS LAST"
            )
        ]
