"""The exceptions of fetchwork, cut by what a caller can do about them.

Hook executables import this module, so it imports nothing that Python has not loaded already.
"""

import sys

#: characters of one line for a person: of an error, and of the header that carries it
MAX_LINE = 1000


def one_line(text: str, limit: int = MAX_LINE) -> str:
    """Return ``text`` with its control characters as spaces, cut at ``limit`` characters."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= limit else text[: limit - 3] + "..."


class _Base(Exception):
    """Stands between FetchworkError and Exception: a class with none but built-in bases can get no other."""


class FetchworkError(_Base):
    """Something fetchwork could not do; the text is one line for a person.

    In a program that has imported HTCondor's bindings it is an HTCondorException too, so that what catches
    theirs catches these.
    """

    def __init__(self, message: str | None = None) -> None:
        join_bindings()
        super().__init__(message or (self.__doc__ or "").split("\n", 1)[0])


def join_bindings() -> None:
    """Make the HTCondorException of each series of the bindings that was imported a base of FetchworkError.

    Not by an import: the hooks raise these errors too, and may not pay for it.
    """
    for series in ("htcondor2", "htcondor"):
        base = getattr(sys.modules.get(series), "HTCondorException", None)
        if base is not None and not issubclass(FetchworkError, base):
            FetchworkError.__bases__ = (*FetchworkError.__bases__, base)


class ConfigError(FetchworkError):
    """The configuration is wrong; every problem is one line of ``problems``."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class ClassAdError(FetchworkError, ValueError):
    """A ClassAd, or an expression, can't be read or can't be written.

    It is a ValueError too, which HTCondor's bindings raise for a constraint that is none.
    """


class SubmitError(FetchworkError):
    """A job was refused at submit: it asks for what fetched work can't honour, or is malformed."""


class CredentialError(FetchworkError):
    """A credential can't be sealed, opened or renewed, or a key file can't be used."""


class ProtocolError(FetchworkError):
    """Bytes on the agent's socket are not the agent's protocol."""


class AgentUnavailable(FetchworkError):
    """The agent does not answer; another try, or direct mode, may succeed."""


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
