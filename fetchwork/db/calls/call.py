"""A call of one SQL function: its name, its arguments, and the conversion of its rows."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar
from uuid import UUID

from fetchwork.errors import SchemaMismatch

__all__ = [
    "Call",
    "JsonObject",
    "Record",
    "Row",
    "done",
    "first_of",
    "given",
    "jsonb",
    "one_of",
    "proof",
    "records_of",
    "value_of",
]

#: a row of PostgreSQL's answer, by column
Row: TypeAlias = dict[str, Any]
#: a jsonb value that is an object: an ad in HTCondor's JSON form, a report, a verdict
JsonObject: TypeAlias = Mapping[str, Any]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R", bound="Record")


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """``fetchwork.function(argument => value, ...)``, to be run by a Database or an AsyncDatabase."""

    function: str
    arguments: Mapping[str, object]
    #: converts the rows to the result
    read: Callable[[list[Row]], T_co]
    #: the class of its rows, unless they are single values
    record: type[Record] | None = None

    def statement(self) -> tuple[str, list[object]]:
        """The SQL of the call, and its parameters."""
        named = ", ".join(f"{name} => {_placeholder(value)}" for name, value in self.arguments.items())
        # names come from this package's own functions; values travel apart
        return f"SELECT * FROM fetchwork.{self.function}({named})", list(self.arguments.values())  # noqa: S608


def jsonb(value: object) -> object:
    """A value as PostgreSQL's jsonb."""
    # imported on use: the client of an access point runs no call, and may run in a Python without the driver
    from psycopg.types.json import Jsonb

    return Jsonb(value)


def _placeholder(value: object) -> str:
    # the driver would send a list of bytes as text, several times as long as the bytes
    return "%b" if isinstance(value, list) and value and isinstance(value[0], bytes) else "%s"


@dataclass(frozen=True, slots=True)
class Record:
    """A row of a SQL function. A field holds the column of its name, or the column that COLUMNS gives it.

    Columns without a field are ignored: a later schema may have more.
    """

    #: the columns of fields whose names differ
    COLUMNS: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def columns(cls) -> list[str]:
        """The columns of the fields, in the order of the fields."""
        return [cls.COLUMNS.get(one.name, one.name) for one in dataclasses.fields(cls)]

    @classmethod
    def from_row(cls, row: Row) -> Self:
        """The record of a row; raises SchemaMismatch if a column is missing."""
        try:
            return cls(*_reader(cls)(row))
        except KeyError as column:
            raise SchemaMismatch(f"database schema does not fit this fetchwork: no column {column}") from None


#: by class: extracts the values of its fields from a row
_READERS: dict[type[Record], Callable[[Row], Sequence[object]]] = {}


def _reader(record: type[Record]) -> Callable[[Row], Sequence[object]]:
    found = _READERS.get(record)
    if found is None:
        columns = record.columns()
        # itemgetter of one name gives a value and not a tuple
        found = itemgetter(*columns) if len(columns) > 1 else lambda row: (row[columns[0]],)
        _READERS[record] = found
    return found


@lru_cache(maxsize=4096)
def proof(token: str | UUID) -> str:
    """The proof that the caller knows a run's token: half of its SHA-256, which is as long as a token.

    Text that is no token is returned unchanged; it proves nothing, and PostgreSQL refuses it.
    """
    try:
        text = str(UUID(str(token)))
    except ValueError:
        return str(token)
    return str(UUID(hashlib.sha256(text.encode()).hexdigest()[:32]))


def given(parameters: Mapping[str, object]) -> dict[str, object]:
    """The ``locals()`` of a function whose parameters are those of its SQL function, as a call's arguments.

    The driver takes lists and dicts for arrays and JSON; a token travels as its proof.
    """
    arguments = dict(parameters)
    for name, value in parameters.items():
        if name == "token" and isinstance(value, str | UUID):
            arguments[name] = proof(value)
        elif isinstance(value, Mapping):
            arguments[name] = dict(value)
        elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
            arguments[name] = list(value)
    return arguments


def records_of(
    record: type[R], function: str, arguments: Mapping[str, object] | None = None
) -> Call[list[R]]:
    """A call that returns any number of rows."""
    return Call(function, arguments or {}, lambda rows: [record.from_row(row) for row in rows], record)


def first_of(record: type[R], function: str, arguments: Mapping[str, object] | None = None) -> Call[R | None]:
    """A call that returns one row or None."""
    return Call(function, arguments or {}, lambda rows: record.from_row(rows[0]) if rows else None, record)


def one_of(record: type[R], function: str, arguments: Mapping[str, object] | None = None) -> Call[R]:
    """A call that always returns one row."""
    return Call(function, arguments or {}, lambda rows: record.from_row(rows[0]), record)


def value_of(function: str, arguments: Mapping[str, object] | None = None) -> Call[Any]:
    """A call that returns one value; the function that makes the call declares the type."""
    return Call(function, arguments or {}, lambda rows: next(iter(rows[0].values())))


def done(function: str, arguments: Mapping[str, object] | None = None) -> Call[None]:
    """A call that returns nothing."""
    return Call(function, arguments or {}, lambda rows: None)
