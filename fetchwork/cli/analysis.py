"""The output of ``fetchwork q --better-analyze``: why a job does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fetchwork.cli import output

if TYPE_CHECKING:
    from fetchwork.explain.job import Analysis


def show(analysis: Analysis) -> None:
    """Print one analysis."""
    from fetchwork.explain.judging import VERDICTS

    output.echo(f"-- Job {analysis.job} of {analysis.owner}, queue {analysis.queue}{alike(analysis.alike)}")
    for reason in analysis.reasons or ["Nothing prevents it from running."]:
        output.echo(f"   {reason}")
    if analysis.verdicts:
        output.echo(f"\nOf {analysis.slots} slots")
        for name, number in analysis.verdicts.items():
            more = "" if name != "resources" else f" ({', '.join(analysis.resources)})"
            output.echo(f"{number:>6} {VERDICTS[name]}{more}")
    if analysis.clauses:
        output.echo("\nIts Requirements, on these slots:\n")
        output.table(
            ("TRUE", "FALSE", "UNDEF", "ERROR", "CLAUSE"),
            [
                [one.true, one.false, one.undefined, one.error, one.text + _unknown(one.unknown)]
                for one in analysis.clauses
            ],
            right=(0, 1, 2, 3),
        )
    if analysis.refusals:
        output.echo("\nReasons of the slots:\n")
        output.table(
            ("SLOTS", "REASON", "FOR EXAMPLE"),
            [[one.slots, one.text, ", ".join(one.examples)] for one in analysis.refusals],
            right=(0,),
        )
    if analysis.ahead:
        output.echo("\nSubmitters whose turn comes first:\n")
        output.table(
            ("SUBMITTER", "PRIORITY", "RUNNING", "AUTOCLUSTERS"),
            [
                [
                    one.submitter,
                    one.why or output.number(one.priority),
                    one.running,
                    one.autoclusters_waiting,
                ]
                for one in analysis.ahead
            ],
            right=(2, 3),
        )
    output.echo()


def alike(number: int) -> str:
    """Return the text for the number of other jobs that a job stands for."""
    return f", and {number} idle job{'s' * (number != 1)} like it" if number else ""


def _unknown(names: list[str]) -> str:
    return f"   <- no slot has {', '.join(names)}" if names else ""
