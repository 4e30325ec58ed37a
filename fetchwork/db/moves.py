"""What claims wait for after the database has moved or was restored (sql/views/unsettled.sql)."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from fetchwork.db.calls.call import Record
from fetchwork.db.database import Database


@dataclass(frozen=True, slots=True)
class Unsettled(Record):
    """A host that has not said what runs on it; without a name, all that this database does not know."""

    machine: str | None
    moved_at: datetime.datetime
    until_at: datetime.datetime


def unsettled(conninfo: str) -> list[Unsettled]:
    """The hosts that claims wait for, by name; raises DatabaseUnavailable, DatabaseRefused."""
    with Database(conninfo) as database:
        return [
            Unsettled.from_row(row)
            for row in database.query(
                "SELECT machine, moved_at, until_at FROM fetchwork.unsettled ORDER BY machine NULLS LAST"
            )
        ]
