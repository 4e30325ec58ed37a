"""Which command is which function."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import fetchwork.condor
import fetchwork.queue
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


def load() -> None:
    """Import what commands import on first use: for a process whose children run them, with fewer rights."""
    # a command that runs alone has no use for it
    import pkgutil

    for package in (fetchwork.condor, fetchwork.queue):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    for name in ("_strptime", "platform", "pwd"):
        importlib.import_module(name)


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
