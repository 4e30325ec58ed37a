"""The exceptions that a hook may raise; ``fetchwork.errors`` has them too, and all others.

A hook makes these classes at each of its starts, so they are few, and this module imports nothing that Python
has not loaded already.
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


class ProtocolError(FetchworkError):
    """Bytes on the agent's socket are not the agent's protocol."""


class AgentUnavailable(FetchworkError):
    """The agent does not answer; another try may succeed."""
