"""``fetchwork env``: HTCondor's commands on the queue, and its Python modules, before all others."""

from __future__ import annotations

import os
from pathlib import Path

import click

import fetchwork.modules

#: the directory of HTCondor's modules over the queue
MODULES = str(Path(fetchwork.modules.__file__).parent)


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--sh", "shell", flag_value="sh", help="Lines for sh, bash and zsh (the default).")
@click.option("--csh", "shell", flag_value="csh", help="Lines for csh and tcsh.")
@click.option("--fish", "shell", flag_value="fish", help="Lines for fish.")
@click.argument("command", metavar="[-- COMMAND [ARG]...]", nargs=-1, type=click.UNPROCESSED)
def cli(shell: str | None, command: tuple[str, ...]) -> None:
    """Put HTCondor's commands and Python modules on this queue before all others.

    Prints the lines for a shell that do it, or runs a command so. condor_submit, condor_q and the others, and
    Python's htcondor and htcondor2, work on the queue of this host's access point, or of FETCHWORK_DSN.
    Without these lines HTCondor's own are found, if there are any.

    \b
    Example:
      eval "$(fetchwork env)"
      fetchwork env --fish | source
      fetchwork env -- snakemake --executor cluster-generic ...
    """
    from fetchwork.condor.directory import made

    directory = str(made())
    if command:
        for name, first in (("PATH", directory), ("PYTHONPATH", MODULES)):
            before = os.environ.get(name, os.defpath if name == "PATH" else "")
            os.environ[name] = os.pathsep.join(filter(None, [first, before]))
        try:
            os.execvp(command[0], command)  # noqa: S606 - the user's own command line
        except OSError as problem:
            raise click.ClickException(f"cannot run '{command[0]}': {problem.strerror}") from None
    click.echo(_lines(shell or _shell(), directory))


def _shell() -> str:
    """The shell that SHELL names."""
    name = os.environ.get("SHELL", "").rpartition("/")[2]
    return {"csh": "csh", "tcsh": "csh", "fish": "fish"}.get(name, "sh")


def _lines(shell: str, directory: str) -> str:
    path, modules = _quoted(directory), _quoted(MODULES)
    if shell == "csh":
        # of an unset variable csh can't ask and use it in one command
        return (
            f'setenv PATH {path}":$PATH"; if ( ! $?PYTHONPATH ) setenv PYTHONPATH {modules};'
            f' if ( "$PYTHONPATH" !~ {modules}* ) setenv PYTHONPATH {modules}":$PYTHONPATH";'
        )
    if shell == "fish":
        return f"set -gx PATH {path} $PATH; set -gx PYTHONPATH {modules} $PYTHONPATH;"
    return f'export PATH={path}":$PATH" PYTHONPATH={modules}"${{PYTHONPATH:+:$PYTHONPATH}}"'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
