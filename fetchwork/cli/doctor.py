"""``fetchwork doctor``: checks whether this host can fetch work, and names remedies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options
from fetchwork.cli.output import echo, for_stream, print_json

if TYPE_CHECKING:
    from fetchwork.doctor import Line

_COLOURS = {"ok": "green", "warn": "yellow", "FAIL": "red"}


@click.command("doctor")
@options.host_file_option
@options.json_option
def cli(file: Path | None, as_json: bool) -> int:
    """Check a host: configuration, hooks, agent, database.

    Run it as root or as the agent's account, with CONDOR_CONFIG as condor_master has it. The exit status is 1
    if there is a FAIL; the first one is usually the cause of those after it.

    \b
    Example:
      fetchwork doctor
    """
    from fetchwork import config as host_file
    from fetchwork.doctor import diagnose

    lines = []
    for line in diagnose(file or host_file.default_file()):
        lines.append(line)
        if not as_json:
            _show(line)
    if as_json:
        print_json([line._asdict() for line in lines])
    if not as_json and os.geteuid() != 0 and any(line.verdict == "FAIL" for line in lines):
        # on stdout, where the lines are: on stderr it may come between two of them
        click.echo("not run as root: some of this may be missing rights")
    return int(any(line.verdict == "FAIL" for line in lines))


def _show(line: Line) -> None:
    verdict = click.style(f"{line.verdict:<4}", fg=_COLOURS[line.verdict], bold=line.verdict == "FAIL")
    text = for_stream(" ".join(line.text.split()))
    click.echo(f"{verdict}  {line.subject:<9}  {text}")
    if line.remedy:
        echo(f"{'':17}-> {' '.join(line.remedy.split())}")
