"""The exceptions of fetchwork, divided by the caller's possible reactions."""

# ruff: noqa: PLC0414 - tells mypy that these names are exported

from fetchwork.hookerrors import MAX_LINE as MAX_LINE
from fetchwork.hookerrors import AgentUnavailable as AgentUnavailable
from fetchwork.hookerrors import ConfigError as ConfigError
from fetchwork.hookerrors import FetchworkError as FetchworkError
from fetchwork.hookerrors import ProtocolError as ProtocolError
from fetchwork.hookerrors import join_bindings as join_bindings
from fetchwork.hookerrors import one_line as one_line


class ClassAdError(FetchworkError, ValueError):
    """A ClassAd or an expression can't be read or written.

    It is also a ValueError, which HTCondor's bindings raise for an invalid constraint.
    """


class SubmitError(FetchworkError):
    """A job was refused at submit: it asks for what fetched work can't honour, or is malformed."""


class CredentialError(FetchworkError):
    """A credential can't be sealed, opened or renewed, or a key file can't be used."""


class AccessPointUnavailable(FetchworkError):
    """The access point does not answer, or ended before it answered."""


class DatabaseUnavailable(FetchworkError):
    """The database does not answer or can't take the call now; come back later."""


class BucketUnavailable(DatabaseUnavailable):
    """The bucket that stores large files does not answer, or answers wrongly; come back later."""


class BucketRefused(BucketUnavailable):
    """The bucket answers, but refuses the request about this one object."""


class HostTaken(DatabaseUnavailable):
    """Another live agent uses this host's name; this agent waits until the other one's lease is over."""


class Deadlock(DatabaseUnavailable):
    """PostgreSQL ended the transaction, because two sessions waited for each other; the next may succeed."""


class DatabaseRefused(FetchworkError):
    """The database refused the call and would refuse it again: a right is missing, or a value is bad."""


class WrongToken(DatabaseRefused):
    """The token does not belong to this run: the database was restored and gave the number to another run."""


class AlreadyThere(DatabaseRefused):
    """The object exists already: another session has just made it."""


class InsufficientPrivilege(DatabaseRefused):
    """The database role lacks a right; the same call will succeed once an administrator has granted it."""


class JobStateConflict(FetchworkError):
    """The job or run is not in a state that allows this; the same call would fail again."""


class NotFound(FetchworkError):
    """No such job, run, owner or queue."""


class SchemaMismatch(FetchworkError):
    """The database's schema is not the one that this fetchwork speaks."""


#: errors that do not lie in the call: it can be made again once the database is back, upgraded or granted
NOT_NOW = (DatabaseUnavailable, InsufficientPrivilege, SchemaMismatch)


class PoolError(FetchworkError):
    """A private pool, or a part of one, can't be made, started or stopped."""


class HTCondorUnavailable(PoolError):
    """This machine has no usable HTCondor; functions that don't need it still work."""
