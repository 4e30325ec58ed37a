"""Which command is which function."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from fetchwork.condor.invocation import Invocation

#: command -> the module whose ``main`` it is
COMMANDS = {
    "condor_q": "q",
    "condor_history": "history",
}


def run(invocation: Invocation) -> int:
    """Run a command; returns its exit status. A reader that closes its end ends the command in silence."""
    command: Callable[[Invocation], int] = importlib.import_module(
        f"fetchwork.condor.{COMMANDS[invocation.name]}"
    ).main
    try:
        return command(invocation)
    except BrokenPipeError:
        return 1
