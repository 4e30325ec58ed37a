"""The state in which the compiled hook (compiled/client.c) becomes the hook in Python by exec.

Only a hook that is called as NAME.py imports this: the compiled hook is then installed as NAME.
"""

import posix
from time import monotonic

_VARIABLE = b"FETCHWORK_HANDOVER"


class Handover:
    """The compiled hook's ``state``, the ``cause`` in words, its start time, and the directory of its call.

    afresh      the agent was not asked
    unanswered  the agent did not answer, or its error may be temporary
    failed      the same request would fail again
    """

    def __init__(self, state: str, start: float, called_from: str, cause: str) -> None:
        self.state = state
        self.start = start
        self.called_from = called_from
        self.cause = cause


def take() -> Handover | None:
    """Return the handover, if there is one, and remove it from the environment."""
    value = posix.environ.pop(_VARIABLE, None)
    if value is None:
        return None
    state, start, called_from, cause = value.split(b"\n", 3)
    return Handover(
        state.decode(),
        min(float(start), monotonic()),
        called_from.decode("utf-8", "surrogateescape"),
        cause.decode("utf-8", "replace"),
    )
