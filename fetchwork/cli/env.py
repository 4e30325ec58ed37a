"""``fetchwork env``: HTCondor's commands on the queue, in front of PATH."""

from __future__ import annotations

import os

import click


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--sh", "shell", flag_value="sh", help="Lines for sh, bash and zsh (the default).")
@click.option("--csh", "shell", flag_value="csh", help="Lines for csh and tcsh.")
@click.option("--fish", "shell", flag_value="fish", help="Lines for fish.")
@click.argument("command", metavar="[-- COMMAND [ARG]...]", nargs=-1, type=click.UNPROCESSED)
def cli(shell: str | None, command: tuple[str, ...]) -> None:
    """Put HTCondor's commands on this queue in front of PATH.

    Prints the lines for a shell that do it, or runs a command so. condor_submit, condor_q and the others
    work on the queue of FETCHWORK_DSN. Without these lines HTCondor's own are found, if there are any.

    \b
    Example:
      eval "$(fetchwork env)"
      fetchwork env --fish | source
      fetchwork env -- snakemake --executor cluster-generic ...
    """
    from fetchwork.condor.directory import made

    directory = str(made())
    if command:
        os.environ["PATH"] = os.pathsep.join([directory, os.environ.get("PATH", os.defpath)])
        try:
            os.execvp(command[0], command)  # noqa: S606 - the user's own command line
        except OSError as problem:
            raise click.ClickException(f"cannot run '{command[0]}': {problem.strerror}") from None
    click.echo(_line(shell or _shell(), directory))


def _shell() -> str:
    """The shell that SHELL names."""
    name = os.environ.get("SHELL", "").rpartition("/")[2]
    return {"csh": "csh", "tcsh": "csh", "fish": "fish"}.get(name, "sh")


def _line(shell: str, directory: str) -> str:
    quoted = "'" + directory.replace("'", "'\\''") + "'"
    if shell == "csh":
        return f'setenv PATH {quoted}":$PATH";'
    if shell == "fish":
        return f"set -gx PATH {quoted} $PATH;"
    return f'export PATH={quoted}":$PATH"'
