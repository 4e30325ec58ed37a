"""``fetchwork events``: the event stream on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output
from fetchwork.codes import EventType

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession

_ENDINGS = (EventType.JOB_EVICTED, EventType.JOB_TERMINATED)


@click.command()
@click.argument("jobs", metavar="[JOB]...", type=options.JOB_ID, nargs=-1)
@click.option("-f", "--follow", is_flag=True, help="Keep waiting for new events.")
@click.option(
    "--after", metavar="CURSOR", help="Show only events after this cursor; 'now' for new events only."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Wait this long for new events, then end.",
)
@click.option("--cursor", "show_cursor", is_flag=True, help="Print each event's cursor first.")
@click.option("--log-format", is_flag=True, help="Print entries of an HTCondor event log.")
@options.json_option
@options.performing
def cli(
    session: AnySession,
    jobs: tuple[str, ...],
    follow: bool,
    after: str | None,
    timeout: float | None,
    show_cursor: bool,
    log_format: bool,
    as_json: bool,
) -> None:
    """Show what happened to jobs, in order.

    Every event has a cursor. Given to --after, it lets a later call on any machine continue after that event.
    With --json each line is an event.

    \b
    Example:
      fetchwork events 42
      fetchwork events --follow --after now
      fetchwork events --json --after 812.4071 --timeout 10
    """
    from fetchwork.queue.events.jobevents import Cursor, JobEvent

    stop_after = timeout if timeout is not None else None if follow else 0
    try:
        if after is not None and after != "now":
            Cursor.parse(after)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    for text in session.items("events", after=after, job=list(jobs) or None, stop_after=stop_after):
        event = JobEvent(text)
        if as_json:
            line = output.to_json(
                {"cursor": event.cursor, "epoch": event.epoch, "run_id": event.run_id, **event.to_json()}
            )
        elif log_format:
            line = event.log_entry.rstrip("\n")
        else:
            first, *more = str(event).splitlines()
            detail = "; ".join(
                part.strip()
                for part in more[:1]
                if event.type_number not in (*_ENDINGS, EventType.IMAGE_SIZE)
            )
            if event.type_number in _ENDINGS:
                detail = more[0].strip().partition(") ")[2]
            # the event's name instead of its number
            _, _, rest = first.partition(") ")
            line = f"{rest[:19]}  {event.job_id:<10} {event.type.name:<15} {rest[20:]} {detail}".rstrip()
        output.echo(f"{event.cursor} {line}" if show_cursor else line)
        # a follower needs each line at once
        sys.stdout.flush()
