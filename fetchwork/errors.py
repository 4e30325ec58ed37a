"""The exceptions of fetchwork, cut by what a caller can do about them."""

# ruff: noqa: PLC0414 - tells mypy that they are here for others

from fetchwork.hookerrors import MAX_LINE as MAX_LINE
from fetchwork.hookerrors import AgentUnavailable as AgentUnavailable
from fetchwork.hookerrors import ConfigError as ConfigError
from fetchwork.hookerrors import FetchworkError as FetchworkError
from fetchwork.hookerrors import ProtocolError as ProtocolError
from fetchwork.hookerrors import join_bindings as join_bindings
from fetchwork.hookerrors import one_line as one_line


class ClassAdError(FetchworkError, ValueError):
    """A ClassAd, or an expression, can't be read or can't be written.

    It is a ValueError too, which HTCondor's bindings raise for a constraint that is none.
    """


class SubmitError(FetchworkError):
    """A job was refused at submit: it asks for what fetched work can't honour, or is malformed."""


class CredentialError(FetchworkError):
    """A credential can't be sealed, opened or renewed, or a key file can't be used."""


class AccessPointUnavailable(FetchworkError):
    """The access point does not answer, or ended before it did."""


class DatabaseUnavailable(FetchworkError):
    """The database does not answer or can't take the call now; come back later."""


class BucketUnavailable(DatabaseUnavailable):
    """The bucket that has the bytes of large files does not answer, or not as it should; come back later."""


class BucketRefused(BucketUnavailable):
    """The bucket answers, and does not do what it was asked with this one object."""


class HostTaken(DatabaseUnavailable):
    """Another live agent has this host's name; this one waits until that one's lease is over."""


class DatabaseRefused(FetchworkError):
    """The database refused the call and would refuse it again: a missing right, or a bad value."""


class WrongToken(DatabaseRefused):
    """The token is not that of this run: another run has its number, since a restore of the database."""


class AlreadyThere(DatabaseRefused):
    """What was to be made exists: somebody else made it a moment ago."""


class InsufficientPrivilege(DatabaseRefused):
    """The database role lacks a right; the same call will succeed once an administrator has granted it."""


class JobStateConflict(FetchworkError):
    """The job or run is not in a state that allows this; the same call would fail again."""


class NotFound(FetchworkError):
    """No such job, run, owner or queue."""


class SchemaMismatch(FetchworkError):
    """The database's schema is not the one that this fetchwork speaks."""


#: says nothing against the call: once the database is back, upgraded or granted it can be made again
NOT_NOW = (DatabaseUnavailable, InsufficientPrivilege, SchemaMismatch)


class PoolError(FetchworkError):
    """A private pool, or a part of one, can't be made, started or stopped."""


class HTCondorUnavailable(PoolError):
    """HTCondor can't be had on this machine; what does not need it works."""
