"""Which command is which function."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from fetchwork.condor.invocation import Invocation
from fetchwork.errors import FetchworkError, one_line

#: command -> the module whose ``main`` it is
COMMANDS = {
    "condor_q": "q",
    "condor_history": "history",
    **dict.fromkeys(
        (
            "condor_rm",
            "condor_hold",
            "condor_release",
            "condor_suspend",
            "condor_continue",
            "condor_vacate_job",
        ),
        "act",
    ),
    "condor_submit": "submit",
    "condor_submit_dag": "submitdag",
    "condor_prio": "prio",
    "condor_qedit": "qedit",
    "condor_wait": "wait",
    "condor_status": "status",
    "condor_userprio": "userprio",
    "condor_tail": "tail",
    "condor_transfer_data": "transferdata",
    "condor_version": "condorversion",
    "condor_config_val": "configval",
}


def run(invocation: Invocation) -> int:
    """Run a command; returns its exit status. A reader that closes its end ends the command in silence."""
    command: Callable[[Invocation], int] = importlib.import_module(
        f"fetchwork.condor.{COMMANDS[invocation.name]}"
    ).main
    try:
        return command(invocation)
    except BrokenPipeError:
        return 0
    except FetchworkError as problem:
        # what a command has no words of HTCondor's for
        invocation.complain(f"Error: {one_line(str(problem))}\n")
        return 1
