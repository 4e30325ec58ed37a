"""SQL functions by name: those that only people call, and those that a test calls with odd arguments."""

from typing import Any

from fetchwork.db.calls.call import Call, Row
from fetchwork.db.database import Database


def call(database: Database, function: str, **arguments: object) -> list[Row]:
    """The rows of ``fetchwork.function(argument => value, ...)``."""
    return database.run(Call(function, arguments, lambda rows: rows))


def scalar(database: Database, function: str, **arguments: object) -> Any:
    """The single value of ``call``; None without a row."""
    rows = call(database, function, **arguments)
    return next(iter(rows[0].values())) if rows else None
