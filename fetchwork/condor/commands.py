"""The table of commands and their functions."""

from __future__ import annotations

import functools
import importlib
import io
import itertools
import os
import sys
from collections.abc import Callable
from types import ModuleType

import fetchwork.condor
import fetchwork.queue
from fetchwork.condor.arguments import Said, Usage, is_option
from fetchwork.condor.invocation import KEY_VARIABLE, Invocation
from fetchwork.condor.texts import help_of
from fetchwork.errors import FetchworkError, one_line

#: command -> the module whose ``main`` it is, or the module and the function
COMMANDS = {
    "condor_q": "q.command",
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
    "condor_status": "status.command",
    "condor_userprio": "userprio",
    "condor_tail": "tail",
    "condor_transfer_data": "transferdata",
    "condor_version": "texts:condor_version",
    "condor_config_val": "configval",
    "condor_ssh_to_job": "texts:refuse",
}

#: fetchwork's own command line, and those of its commands that an access point runs: questions to the queue
#: and changes of it that are soon over
COMMAND_LINE = "fetchwork"
SERVED = frozenset(("q", "history", "rm", "hold", "release", "vacate", "suspend", "continue", "submit"))


def load() -> None:
    """Import what commands import on first use, for a process whose children run them with fewer rights."""
    # a command that runs alone has no use for it
    import pkgutil

    for package in (fetchwork.condor, fetchwork.queue, _command_line()):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    for name in ("_strptime", "difflib", "platform", "pwd"):
        importlib.import_module(name)


#: commands that print their help on stdout after an error too
_HELP_ON_STDOUT = ("condor_q", "condor_history")
#: commands whose -name is that of a schedd: here of a database
_OF_A_SCHEDD = frozenset(
    {
        name
        for name in COMMANDS
        if COMMANDS[name] in ("q.command", "history", "act", "submit", "prio", "qedit")
    }
    | {"condor_tail", "condor_transfer_data", "condor_submit_dag"}
)


def _on_named(invocation: Invocation) -> None:
    """Let ``-name`` choose a database, where this machine knows one of that name (``queue.databases``).

    Any other name is passed over: programs name the schedd that they are used to.
    """
    words = list(invocation.argv[1:])
    for word, name in itertools.pairwise(words):
        if is_option(word, "name", 2) or word == "-n":
            from fetchwork.queue import databases
            from fetchwork.queue.remote import opened

            if any(known.name == name for known in databases.known()):
                invocation.connect = functools.partial(opened, None, name=name)
            return


def _command_line() -> ModuleType:
    # imported by name: no room may import the command line
    return importlib.import_module("fetchwork.cli")


def _run_command_line(invocation: Invocation) -> int:
    """Run the command line of fetchwork on the streams of an invocation."""
    if invocation.key and invocation.argv[1:2] == ["submit"]:
        os.environ[KEY_VARIABLE] = invocation.key
    streams = sys.stdin, sys.stdout, sys.stderr
    made = [
        io.TextIOWrapper(stream, "utf-8", "surrogateescape", line_buffering=stream.isatty())
        for stream in (invocation.stdin, invocation.stdout, invocation.stderr)
    ]
    sys.stdin, sys.stdout, sys.stderr = made
    try:
        status: int = _command_line().run(invocation.argv[1:])
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        for stream in made:
            # flush to the invocation's own stream, and leave that open
            stream.detach()
    return status


def run(invocation: Invocation) -> int:
    """Run a command; returns its exit status. A reader that closes its end ends the command in silence."""
    if invocation.name == COMMAND_LINE:
        return _run_command_line(invocation)
    module, _, function = COMMANDS[invocation.name].partition(":")
    command: Callable[[Invocation], int] = getattr(
        importlib.import_module(f"fetchwork.condor.{module}"), function or "main"
    )
    try:
        if invocation.name in _OF_A_SCHEDD:
            _on_named(invocation)
        return command(invocation)
    except BrokenPipeError:
        return 0
    except Said as said:
        (invocation.complain if said.stderr else invocation.say)(said.text)
        return 0
    except Usage as problem:
        invocation.complain(problem.text)
        if problem.help:
            say = invocation.say if invocation.name in _HELP_ON_STDOUT else invocation.complain
            say(help_of(invocation.name))
        return 1
    except FetchworkError as problem:
        # an error for which HTCondor has no words
        invocation.complain(f"Error: {one_line(str(problem))}\n")
        return 1
