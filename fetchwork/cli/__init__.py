"""The command ``fetchwork``: finds commands, prints errors, ends with documented exit codes.

0 done, 1 failed, 2 wrong usage, 130 interrupted. An error is one line on stderr, ``fetchwork: error: ...``;
``--debug`` shows where it came from. A command lives in the module of its name and is imported when it is
called, because ``fetchwork q`` should not pay for the imports of ``fetchwork pool``.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import re
import sys
from collections.abc import Iterable, Sequence
from keyword import iskeyword
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from fetchwork import __version__
from fetchwork.errors import DatabaseUnavailable, FetchworkError

#: section of the help -> command -> the first line of its help
COMMANDS: dict[str, dict[str, str]] = {
    "Jobs": {
        "submit": "Put jobs into the queue.",
        "q": "Show the jobs in the queue.",
        "history": "Show jobs that have left the queue.",
        "rm": "Remove jobs.",
        "hold": "Hold jobs.",
        "release": "Release held jobs.",
        "vacate": "End the runs of running jobs, so that they run again.",
        "suspend": "Stop running jobs where they are.",
        "continue": "Let suspended jobs go on.",
        "edit": "Change attributes of jobs.",
        "runs": "Show every run of a job.",
        "credential": "Store the tokens that jobs show to services.",
        "checkpoints": "Show the files that jobs in the queue saved for their next run.",
        "tail": "Show the end of a job's stdout and stderr.",
        "transfer-data": "Bring the output files of ended jobs to where the jobs were submitted.",
        "dag": "DAGs, run by HTCondor's condor_dagman over the queue.",
    },
    "Following": {
        "watch": "Show the queue and keep it up to date.",
        "wait": "Wait until jobs have ended, and bring their output files back.",
        "events": "Show what happened to jobs.",
        "userlog": "Write HTCondor job event logs from the events.",
    },
    "The pool": {
        "slots": "Show the slots that fetch jobs.",
        "demand": "Show the requests of idle jobs.",
        "match": "Show which waiting jobs a slot would get.",
        "submitters": "Show submitters' usage, and who is next.",
        "prio": "Set a submitter's priority factor or limit.",
        "limit": "Show and set concurrency limits.",
        "group": "Show and set quotas and ceilings of accounting groups.",
        "queues": "Show, make and change queues.",
        "pool": "A private pool: PostgreSQL, agent and HTCondor in one directory.",
        "demo": "Run 20 jobs through a private pool.",
        "simulate": "Simulate the startds and starters of many slots, for load tests.",
    },
    "Administration": {
        "db": "Make, upgrade and maintain the database.",
        "config": "Turn a host file into HTCondor configuration.",
        "host": "Invite hosts, join as one, and revoke one.",
        "hooks": "Install the hooks that HTCondor calls.",
        "agent": "Serve the hooks of this host.",
        "token": "Make, list and revoke tokens of people, for the page and the API.",
        "serve": "Show the queue in a browser, and serve it to programs as JSON (/api/v1).",
        "exporter": "Serve metrics of a database to Prometheus.",
        "access-point": "Serve the people who submit on this host.",
        "env": "Put HTCondor's commands and Python modules on this queue before all others.",
        "doctor": "Check a host: configuration, hooks, agent, database.",
    },
}

#: commands that are in another command's module -> the module
_TOGETHER = {
    **dict.fromkeys(("rm", "hold", "release", "vacate", "suspend", "continue", "edit"), "acting"),
    **dict.fromkeys(("submitters", "prio", "limit"), "submitters"),
    "demo": "pool",
}

#: new objects after which Python searches for unused cycles
GARBAGE = 100_000

EXAMPLE = """\b
Example:
  fetchwork submit sleep.sub
  fetchwork q
  fetchwork wait 42
"""


class _Formatter(click.HelpFormatter):
    """Shows an option that may have one or two dashes once, with one, as HTCondor's tools write it."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(_once(first), text) for first, text in rows], col_max, col_spacing)


def _once(heading: str) -> str:
    """The heading of an option in a help, without the names that differ from others by a dash alone."""
    names = re.findall(r"-[^\s,/\[]+", heading)
    doubles = [name for name in names if name[:2] == "--" and name[1:] in names]
    for name in doubles:
        heading = re.sub(rf", {name}(?=[\s,]|$)|^{name}, ", "", heading)
    return heading


class _Context(click.Context):
    formatter_class = _Formatter


class _Commands(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in COMMANDS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        name = cmd_name.replace("-", "_")
        module = importlib.import_module(f"fetchwork.cli.{_TOGETHER.get(name, name)}")
        # "continue" is a keyword of Python
        variable = name + "_" * iskeyword(name) if name in _TOGETHER else "cli"
        command: click.Command = getattr(module, variable)
        inner = command.commands.values() if isinstance(command, click.Group) else ()
        for each in (command, *inner):
            each.context_class = _Context
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # the name shown in usage lines is the one typed, not that of the function
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            command.name = name
        return name, command, rest

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # without importing them all for their help
        commands = {name: text for section in COMMANDS.values() for name, text in section.items()}
        return [
            *(
                CompletionItem(name, help=text)
                for name, text in commands.items()
                if name.startswith(incomplete)
            ),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl(list(section.items()))


def _show_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from fetchwork.db.schema import latest

        click.echo(f"fetchwork {__version__}, schema {latest()}")
        context.exit()


@click.group(
    cls=_Commands,
    epilog=EXAMPLE,
    context_settings={"help_option_names": ["-h", "--help", "-help"], "max_content_width": 110},
)
@click.option(
    "--dsn",
    "-dsn",
    metavar="CONNINFO",
    help="The database; also FETCHWORK_DSN, or PGHOST, PGSERVICE and so on.",
)
@click.option("--debug", is_flag=True, help="Show where an error came from.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, and that of the schema, and exit.",
)
@click.pass_context
def main_group(context: click.Context, dsn: str | None, debug: bool) -> None:
    """A PostgreSQL job queue for HTCondor's fetch-work hooks."""
    context.meta["fetchwork.dsn"] = dsn
    context.meta["fetchwork.debug"] = debug


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    # imported objects stay, and are fewer: searching them for cycles while they grow takes an agent 30 ms
    gc.set_threshold(GARBAGE, *gc.get_threshold()[1:])
    if isinstance(sys.stdout, io.TextIOWrapper):
        # texts of other users may have characters that the locale lacks
        sys.stdout.reconfigure(errors="replace")
    status = run(list(sys.argv[1:] if arguments is None else arguments))
    # Python's last search for cycles, through all the modules, costs a short command 15 ms and finds nothing
    gc.freeze()
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit status."""
    words = list(arguments)
    debug = "--debug" in words
    if debug:
        # accepted after the command too: people add it there after an error
        words = ["--debug", *(word for word in words if word != "--debug")]
    try:
        status: object = main_group.main(words, prog_name="fetchwork", standalone_mode=False)
        sys.stdout.flush()
    except click.NoSuchOption as error:
        path = error.ctx.command_path if error.ctx else "fetchwork"
        _say(f"{_no_such_option(error, words)}\n  help: {path} --help")
        return 2
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "fetchwork"
        _say(f"{_one_line(error.format_message())}\n  help: {path} --help")
        return 2
    except (click.Abort, KeyboardInterrupt):
        # the shell has shown ^C already
        return 130
    except BrokenPipeError:
        # the reader of the output has closed it, so Python's flush at exit must go elsewhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (FetchworkError, click.ClickException, OSError) as error:
        if debug:
            raise
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
        if isinstance(error, DatabaseUnavailable) and not _database_is_named(words):
            message += (
                "; no database is named, so it is sought on this machine: give --dsn, FETCHWORK_DSN,"
                " or libpq's PGHOST and PGDATABASE"
            )
        _say(_one_line(message) if not isinstance(error, FetchworkError) else message)
        return 1
    return status if isinstance(status, int) else 0


def _database_is_named(words: Sequence[str]) -> bool:
    """Whether a database is named: to libpq, or by the command's host file."""
    return (
        bool({"agent", "config", "doctor", "hooks", "pool"}.intersection(words))
        or any(word.startswith(("--dsn", "-dsn")) for word in words)
        or any(value and name.startswith(("FETCHWORK_DSN", "PG")) for name, value in os.environ.items())
    )


def _no_such_option(error: click.NoSuchOption, words: Sequence[str]) -> str:
    """Return the option as it was typed: for '-long' click names only the '-l' that it could not read."""
    known = {
        name
        for param in (error.ctx.command.params if error.ctx else [])
        for name in param.opts
        if name[0] == "-"
    }
    letter = error.option_name
    typed = next(
        (
            word
            for word in words
            if word.startswith("-")
            and word.partition("=")[0] not in known
            and (word.startswith(letter) or (len(letter) == 2 and letter[1] in word[1:]))
        ),
        letter,
    )
    once = sorted(name for name in known if not (name[:2] == "--" and name[1:] in known))
    allowed = f"; allowed: {' '.join(once)}" if once else ""
    return f"no such option '{typed}'{allowed}"


def _say(message: str) -> None:
    from fetchwork.cli import output

    # it may quote texts of other users
    output.echo(f"fetchwork: error: {message}", err=True)


def _one_line(message: str) -> str:
    return " ".join(message.split()).rstrip(".")
