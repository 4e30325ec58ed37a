"""Translates a driver's error into one of fetchwork's exceptions, by its SQLSTATE."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg

from fetchwork.errors import (
    AlreadyThere,
    DatabaseRefused,
    DatabaseUnavailable,
    Deadlock,
    FetchworkError,
    HostTaken,
    InsufficientPrivilege,
    JobStateConflict,
    NotFound,
    SchemaMismatch,
    SubmitError,
    WrongToken,
)

__all__ = ["translate", "translated"]

_BY_SQLSTATE: dict[str, type[FetchworkError]] = {
    "FWINV": SubmitError,
    "FWDEN": DatabaseRefused,
    "FWTOK": WrongToken,
    "FWCON": JobStateConflict,
    "FWNOT": NotFound,
    "FWTWO": HostTaken,
    "3F000": SchemaMismatch,  # invalid_schema_name
    "42883": SchemaMismatch,  # undefined_function
    "42P01": SchemaMismatch,  # undefined_table
    "42703": SchemaMismatch,  # undefined_column
    "42501": InsufficientPrivilege,
    "42P06": AlreadyThere,  # duplicate_schema
    "23505": AlreadyThere,  # unique_violation: made in a transaction that has just ended
    "57014": DatabaseUnavailable,  # query_canceled: its time was over
    "25006": DatabaseUnavailable,  # read_only_sql_transaction: a standby, or a disk that is nearly full
    "55P03": DatabaseUnavailable,  # lock_not_available
    "40001": DatabaseUnavailable,  # serialization_failure
    "40P01": Deadlock,  # deadlock_detected
}
# connection exceptions, insufficient resources, operator intervention, system errors
_UNAVAILABLE_CLASSES = ("08", "53", "57", "58")


def translate(error: psycopg.Error) -> FetchworkError:
    """The exception that tells a caller how to react to a driver's error."""
    state = error.sqlstate
    message = error.diag.message_primary or next(iter(str(error).splitlines()), type(error).__name__)
    if state is None:
        # libpq noticed this, without a message from the server: the connection is lost, or was never made
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return DatabaseUnavailable(f"database does not answer: {message}")
        return DatabaseRefused(f"database call is wrong: {message}")
    error_type = _BY_SQLSTATE.get(state)
    if error_type is None and state.startswith("XX"):
        # internal errors: some are transient, like those of calls during an upgrade
        return FetchworkError(f"database failed during the call: {message}")
    if error_type is None:
        error_type = DatabaseUnavailable if state.startswith(_UNAVAILABLE_CLASSES) else DatabaseRefused
    if error_type is SchemaMismatch:
        todo = "'fetchwork db status' says which of the two to upgrade"
        if state in ("3F000", "42P01"):
            # there may be no schema
            todo = "'fetchwork db status' says what is there, 'fetchwork db init' makes it in a new database"
        return SchemaMismatch(f"database schema does not fit this fetchwork: {message}; {todo}")
    if issubclass(error_type, DatabaseUnavailable):
        return error_type(f"database can't take the call now: {message}")
    if error_type is InsufficientPrivilege:
        message += _whom_to_ask(message)
    # messages of our own SQL functions need no introduction
    return error_type(message if state.startswith("FW") else f"database refused the call: {message}")


def _whom_to_ask(message: str) -> str:
    """The end of a message of PostgreSQL's about a right that the role lacks on the schema's objects."""
    if message == "permission denied for schema fetchwork":
        return (
            "; the role has no right on the queue yet: an administrator gives it one with 'fetchwork db grant"
            " ROLE OWNER', and an agent's with 'GRANT fetchwork_agent TO ROLE'"
        )
    if message.startswith("permission denied for function"):
        return "; it needs a role with more rights, as an administrator has (fetchwork_admin)"
    return ""


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn a psycopg error inside this block into one of fetchwork's."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error) from error
