"""``fetchwork prio``: what condor_userprio sets."""

from __future__ import annotations

from typing import Any

import click

from fetchwork.cli import options, output
from fetchwork.queue import Queue


@click.command()
@click.argument("submitter", required=False)
@click.option(
    "--factor", type=click.FloatRange(1), help="Priority factor: twice the factor is half the share."
)
@click.option("--max-running", metavar="N", help="Run at most this many jobs at once; 'none' for no limit.")
@click.option("--reset-usage", is_flag=True, help="Reset the recorded usage.")
@click.option("--limits", is_flag=True, help="Show the concurrency limits instead.")
@click.option("--limit", "limit", metavar="NAME=N", help="Set a concurrency limit; NAME= removes it.")
@options.json_option
@options.connected
def cli(
    queue: Queue,
    submitter: str | None,
    factor: float | None,
    max_running: str | None,
    reset_usage: bool,
    limits: bool,
    limit: str | None,
    as_json: bool,
) -> None:
    """Set a submitter's priority factor or limit.

    A submitter is an accounting group, or an owner without one. Also concurrency limits (HTCondor's
    <NAME>_LIMIT).

    \b
    Example:
      fetchwork prio alice --factor 500
      fetchwork prio group_physics.bob --max-running 200
      fetchwork prio --limit license=20
      fetchwork prio --limits
    """
    changes: dict[str, Any] = {}
    if factor is not None:
        changes["prio_factor"] = factor
    if max_running is not None:
        changes["max_running"] = whole_or_none("--max-running", max_running)
    if reset_usage:
        changes["usage"] = 0
    if changes and submitter is None:
        raise click.UsageError("no submitter named")
    if submitter is not None and not changes:
        raise click.UsageError(
            f"nothing to set for '{submitter}'; allowed: --factor, --max-running, --reset-usage"
        )
    if limit is not None:
        name, _, number = limit.partition("=")
        try:
            maximum = float(number) if number else None
        except ValueError:
            raise click.UsageError(
                f"option '--limit' is '{limit}'; allowed: NAME=NUMBER, or NAME= for none"
            ) from None
        queue.database.query("SELECT fetchwork.set_limit(%s, %s::float8)", [name, maximum])
    if changes:
        queue.database.call("set_submitter", name=submitter, changes=changes)
    if limits or limit is not None:
        rows = queue.database.query("SELECT name, maximum, used FROM fetchwork.limits ORDER BY name")
        heading = ("LIMIT", "MAXIMUM", "IN_USE")
        cells = [[row["name"], output.number(row["maximum"]), output.number(row["used"])] for row in rows]
    else:
        rows = queue.database.query(
            "SELECT name, priorityfactor, maxrunning FROM fetchwork.submitters"
            " WHERE %s::text IS NULL OR name = %s ORDER BY name",
            [submitter, submitter],
        )
        heading = ("SUBMITTER", "FACTOR", "LIMIT")
        cells = [[row["name"], output.number(row["priorityfactor"]), row["maxrunning"]] for row in rows]
    if as_json:
        output.print_json(rows)
    else:
        output.table(heading, cells, right=(1, 2))


def whole_or_none(option: str, text: str) -> int | None:
    """A number, or None for 'none'."""
    if text == "none":
        return None
    if not text.isdigit():
        raise click.UsageError(f"option '{option}' is '{text}'; allowed: a number, or 'none'")
    return int(text)
