"""PREPARE_JOB of a job that needs credentials: the agent sends them, and they become files.

Imported only for such a job (``FetchWorkCredentials``). The agent needs the scratch directory: it puts the
files' place into the job's Environment, and renews them there while the job runs.
"""

import posix

from fetchwork.hookerrors import FetchworkError
from fetchwork.sandbox import credentials

_MARK = b"\nFetchWorkCredentials = true\n"
#: the last section of the agent's answer; each line has a credential's name and its content in hex
_SECTION = b"-----credentials\n"


def are_needed(body: bytes) -> bool:
    """Whether the job of an ad needs credentials."""
    return (b"\n" + body + b"\n").find(_MARK) >= 0


def with_directory(body: bytes) -> bytes:
    """Return the ad with the scratch directory; raises FetchworkError if an ad can't hold its name."""
    sandbox = posix.getcwd()
    if not sandbox.isprintable() or '"' in sandbox or "\\" in sandbox:
        raise FetchworkError("the scratch directory has a name that can't be told to the agent")
    line = f'FetchWorkScratch = "{sandbox}"\n'
    return body + (b"" if body.endswith(b"\n") else b"\n") + line.encode("utf-8", "surrogateescape")


def take(answer: bytes) -> bytes:
    """Write the credentials of the agent's answer into files; return the rest of the answer.

    Raises FetchworkError: a job that needs credentials does not start without them.
    """
    rest, section, lines = answer.rpartition(_SECTION)
    if not section:
        raise FetchworkError("the agent has sent no credentials")
    try:
        directory = credentials.make(posix.getcwd())
        for line in lines.splitlines():
            name, _, content = line.decode("ascii").partition(" ")
            credentials.put(directory, name, bytes.fromhex(content))
    except OSError as error:
        raise FetchworkError(f"cannot write the job's credentials: {error.strerror}") from None
    return rest
