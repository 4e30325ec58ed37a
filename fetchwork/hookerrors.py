"""The exceptions that a hook may raise; ``fetchwork.errors`` exports them too, with all others.

A hook creates these classes each time it starts. So they are few, and this module imports only modules that
Python has loaded already.
"""

import sys

#: characters of one line for a person: of an error, and of the header that carries the error
MAX_LINE = 1000


def one_line(text: str, limit: int = MAX_LINE) -> str:
    """Return ``text`` with its control characters as spaces, cut at ``limit`` characters."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= limit else text[: limit - 3] + "..."


class _Base(Exception):
    """Stands above FetchworkError: Python can't add a base to a class whose bases are all built in."""


class FetchworkError(_Base):
    """Fetchwork could not do something; the text is one line for a person.

    In a program that has imported HTCondor's bindings it is also an HTCondorException, so handlers of their
    exceptions catch it.
    """

    def __init__(self, message: str | None = None) -> None:
        join_bindings()
        super().__init__(message or (self.__doc__ or "").split("\n", 1)[0])


def join_bindings() -> None:
    """Make HTCondorException a base of FetchworkError, for each series of the bindings that is imported.

    This does not import the bindings: hooks raise these errors too, and must not pay for an import.
    """
    for series in ("htcondor2", "htcondor"):
        base = getattr(sys.modules.get(series), "HTCondorException", None)
        if base is not None and not issubclass(FetchworkError, base):
            FetchworkError.__bases__ = (*FetchworkError.__bases__, base)


class ConfigError(FetchworkError):
    """The configuration is wrong; ``problems`` has one line for each problem."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class ProtocolError(FetchworkError):
    """Bytes on the agent's socket do not follow the agent's protocol."""


class AgentUnavailable(FetchworkError):
    """The agent does not answer; another try may succeed."""
