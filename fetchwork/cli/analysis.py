"""How ``fetchwork q --better-analyze`` prints why a job does not run."""

from __future__ import annotations

from fetchwork.cli import output
from fetchwork.explain.job import VERDICTS, Analysis


def show(found: Analysis) -> None:
    """Print one analysis."""
    output.echo(f"-- Job {found.job} of {found.owner}, queue {found.queue}")
    for reason in found.reasons or ["Nothing prevents it from running."]:
        output.echo(f"   {reason}")
    if found.verdicts:
        output.echo(f"\nOf {found.slots} slots")
        for name, number in found.verdicts.items():
            more = "" if name != "resources" else f" ({', '.join(found.resources)})"
            output.echo(f"{number:>6} {VERDICTS[name]}{more}")
    if found.clauses:
        output.echo("\nIts Requirements, on these slots:\n")
        output.table(
            ("TRUE", "FALSE", "UNDEF", "ERROR", "CLAUSE"),
            [
                [one.true, one.false, one.undefined, one.error, one.text + _unknown(one.unknown)]
                for one in found.clauses
            ],
            right=(0, 1, 2, 3),
        )
    if found.refusals:
        output.echo("\nWhat slots say:\n")
        output.table(
            ("SLOTS", "REASON", "FOR EXAMPLE"),
            [[one.slots, one.text, ", ".join(one.examples)] for one in found.refusals],
            right=(0,),
        )
    if found.ahead:
        output.echo("\nWhose turn comes first:\n")
        output.table(
            ("SUBMITTER", "PRIORITY", "RUNNING", "KINDS_WAITING"),
            [
                [
                    one["submitter"],
                    output.number(one["priority"]) if "priority" in one else one["why"],
                    one.get("running"),
                    one["kinds_waiting"],
                ]
                for one in found.ahead
            ],
            right=(2, 3),
        )
    output.echo()


def _unknown(names: list[str]) -> str:
    return f"   <- no slot has {', '.join(names)}" if names else ""
