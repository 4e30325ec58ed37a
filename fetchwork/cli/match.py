"""``fetchwork match``: what a slot would get."""

from __future__ import annotations

import click

from fetchwork.cli import options, output
from fetchwork.queue import Queue


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
@options.connected
def cli(queue: Queue, slot: str, limit: int, as_json: bool) -> None:
    """Show which waiting jobs a slot would get if it asked now, in order, by autocluster.

    Nothing is claimed. DECIDED_BY says why a line comes after the one before it: the slot's Rank, the order
    of queues in the host file, the submitter's share (effective priority + factor x (slots in use + 1): the
    lowest is next), JobPrio among the jobs of one submitter, age.

    \b
    Example:
      fetchwork match slot1@ep17.example.org
      fetchwork match slot1@ep17
    """
    from fetchwork.explain import slot as slotmatch

    found = slotmatch.match(queue.database, slot)
    if as_json:
        output.print_json({**found.to_json(), "candidates": found.to_json()["candidates"][:limit]})
        return
    output.echo(
        f"{found.slot} ({found.state}/{found.activity}), draws from {', '.join(found.queues) or 'no queue'}"
    )
    for reason in found.reasons:
        output.echo(reason)
    if found.candidates:
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
                for one in found.candidates[:limit]
            ],
            right=(3, 4, 5),
        )
        if len(found.candidates) > limit:
            output.echo(f"and {len(found.candidates) - limit} more")
    elif not found.passed_over:
        output.echo("Nothing waits in its queues.")
    if found.passed_over:
        output.echo("\nWaiting jobs that are not for it, by autocluster")
        for name, number in found.passed_over.items():
            output.echo(f"{number:>6} {slotmatch.REASONS[name]}")
