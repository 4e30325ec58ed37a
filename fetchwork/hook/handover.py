"""What the compiled hook (compiled/client.c) has done so far, where it becomes the hook in Python by exec.

Imported only by a hook that is called as NAME.py: the compiled one stands under NAME then.
"""

import posix
from time import monotonic

_VARIABLE = b"FETCHWORK_HANDOVER"


class Handover:
    """The ``state`` that the compiled hook left, its ``cause`` in words, and when and whence it was called.

    afresh      nothing was asked yet
    unanswered  the agent did not answer, or could not do it
    failed      the same request would fail again
    """

    def __init__(self, state: str, start: float, called_from: str, cause: str) -> None:
        self.state = state
        self.start = start
        self.called_from = called_from
        self.cause = cause


def take() -> Handover | None:
    """Return the handover, if there is one, and take it out of the environment."""
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
