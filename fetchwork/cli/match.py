"""``fetchwork match``: the jobs that a slot would get."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession


@click.command()
@click.argument("slot")
@click.option(
    "-limit",
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Show at most this many autoclusters.",
)
@options.json_option
@options.performing
def cli(session: AnySession, slot: str, limit: int, as_json: bool) -> None:
    """Show which waiting jobs a slot would get if it asked now, in order, by autocluster.

    Nothing is claimed. DECIDED_BY says why a line comes after the one before it: the slot's Rank, the order
    of queues in the host file, the submitter's share (effective priority + factor x (slots in use + 1): the
    lowest is next), JobPrio among the jobs of one submitter, age.

    \b
    Example:
      fetchwork match slot1@ep17.example.org
      fetchwork match slot1@ep17
    """
    from fetchwork.explain.slot import REASONS, match

    slot_match = match(session, slot)
    if as_json:
        shown = dataclasses.replace(slot_match, candidates=slot_match.candidates[:limit])
        output.print_json(shown.to_json())
        return
    queues = ", ".join(slot_match.queues) or "no queue"
    output.echo(f"{slot_match.slot} ({slot_match.state}/{slot_match.activity}), draws from {queues}")
    for reason in slot_match.reasons:
        output.echo(reason)
    if slot_match.candidates:
        output.echo()
        output.table(
            ("JOB", "SUBMITTER", "QUEUE", "PRIO", "RANK", "SHARE", "DECIDED_BY"),
            [
                [
                    one.job,
                    one.submitter,
                    one.queue,
                    one.job_prio,
                    output.number(one.slot_rank),
                    output.number(one.share),
                    one.decided_by,
                ]
                for one in slot_match.candidates[:limit]
            ],
            right=(3, 4, 5),
        )
        if len(slot_match.candidates) > limit:
            output.echo(f"and {len(slot_match.candidates) - limit} more")
    elif not slot_match.passed_over:
        output.echo("Nothing waits in its queues.")
    if slot_match.passed_over:
        output.echo("\nWaiting jobs that are not for it, by autocluster")
        for name, number in slot_match.passed_over.items():
            output.echo(f"{number:>6} {REASONS[name]}")
