"""The manual page fetchwork(1), made from the commands' help.

``hatch_build.py`` puts it into each wheel. There click is installed and no other dependency, so a command's
module imports what it runs on in its functions.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from fetchwork.cli import COMMANDS, main_group

_HEAD = """\
.TH FETCHWORK 1 "" "fetchwork" "User Commands"
.SH NAME
fetchwork \\- a PostgreSQL job queue for HTCondor's fetch-work hooks
.SH SYNOPSIS
.B fetchwork
[\\fB\\-\\-dsn\\fR \\fICONNINFO\\fR] \\fICOMMAND\\fR [\\fIARGUMENT\\fR...]
.SH DESCRIPTION
Slots of HTCondor ask for jobs by hooks; fetchwork keeps the jobs in PostgreSQL and answers.
"""

_TAIL = """\
.SH ENVIRONMENT
.TP
.B FETCHWORK_DSN
the database, where \\-\\-dsn is not given; else PGHOST, PGSERVICE and so on, as libpq knows them
.TP
.B FETCHWORK_DATABASES
the file that lists the databases which \\-name knows, instead of /etc/fetchwork/databases.toml
.TP
.B FETCHWORK_CONFIG
the host file, where \\-\\-config is not given
.TP
.B FETCHWORK_POOL
the directory of the private pool
.SH EXIT STATUS
0 done, 1 failed, 2 wrong usage, 130 interrupted
.SH SEE ALSO
condor_q(1), condor_submit(1), psql(1)
"""


def manual_page() -> str:
    """The page, in the language of man(7)."""
    return _HEAD + "".join(f"{line}\n" for line in _commands()) + _TAIL


def _commands() -> Iterator[str]:
    context = click.Context(main_group, info_name="fetchwork")
    for title, section in COMMANDS.items():
        yield f".SH {title.upper()}"
        for name in section:
            command = main_group.get_command(context, name)
            assert command is not None
            yield from _command(command, f"fetchwork {name}", context)


def _command(command: click.Command, path: str, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, parent=parent, info_name=path.rsplit(maxsplit=1)[-1])
    yield f".SS {_text(path)}"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".B {_text(path)}"
    yield _text(usage)
    yield ".PP"
    yield from _help(command.help or "")
    for param in command.params:
        if isinstance(param, click.Option) and not param.hidden:
            yield ".TP"
            metavar = f" \\fI{_text(param.metavar)}\\fR" if param.metavar else ""
            names = ", ".join(f"\\fB{_text(name)}\\fR" for name in [*param.opts, *param.secondary_opts])
            yield names + metavar
            yield _text(" ".join((param.help or "").split()))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, f"{path} {name}", context)


def _help(text: str) -> Iterator[str]:
    """The paragraphs of a help text; what begins with \\b keeps its lines."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if paragraph.startswith("\b\n"):
            yield from (".PP", ".nf", *(_text(line) for line in paragraph.split("\n")[1:]), ".fi")
        else:
            yield from (".PP", _text(" ".join(paragraph.split())))


def _text(text: str) -> str:
    """Text that troff prints as it is."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
