"""``condor_q -better-analyze``: why jobs do not run, from what ``fetchwork.explain`` finds out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fetchwork.condor.arguments import text_of
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.q.qoptions import QOptions, constraint_of
from fetchwork.errors import FetchworkError, NotFound, one_line

if TYPE_CHECKING:
    from fetchwork.explain.job import Analysis
    from fetchwork.queue.remote import AnySession

#: most jobs that one call explains
MOST = 10


def explained(session: AnySession, constraint: str) -> tuple[list[Analysis], str]:
    """Explain the selected jobs; without a constraint, one idle job of each autocluster.

    The text says which jobs are left out, if any. Raises NotFound if no job is selected.
    """
    from fetchwork.explain.job import analyze as explain
    from fetchwork.explain.job import analyze_idle

    if not constraint:
        results, more = analyze_idle(session, MOST)
        return results, "autoclusters with idle jobs; these are those with most" if more else ""
    # one more, to know whether there are more
    ids = ["ClusterId", "ProcId"]
    jobs = list(session.items("jobs", constraint=constraint, projection=ids, limit=MOST + 1))
    if not jobs:
        raise NotFound("no such job in the queue; 'fetchwork history' has those that left it")
    results = [explain(session, job["ClusterId"], job["ProcId"]) for job in jobs[:MOST]]
    return results, f"jobs; these are the first {MOST}" if len(jobs) > MOST else ""


def analyze(run: Invocation, options: QOptions) -> int:
    """Print the explanations of the jobs that the options name; returns the exit status."""
    try:
        results, more = explained(run.session, text_of(constraint_of(options)))
    except FetchworkError as problem:
        return run.failed(one_line(str(problem)) + "\n", problem)
    if not results:
        run.say("No job is idle.\n")
    for result in results:
        _print(run, result)
    if more:
        run.say(f"There are more {more}.\n")
    return 0


def _print(run: Invocation, analysis: Analysis) -> None:
    from fetchwork.explain.judging import VERDICTS

    alike = f", and {analysis.alike} idle job{'s' * (analysis.alike != 1)} like it" if analysis.alike else ""
    run.say(f"-- Job {analysis.job} of {analysis.owner}, queue {analysis.queue}{alike}\n")
    for reason in analysis.reasons or ["Nothing prevents it from running."]:
        run.say(f"   {reason}\n")
    if analysis.verdicts:
        run.say(f"\nOf {analysis.slots} slots\n")
        for name, number in analysis.verdicts.items():
            more = "" if name != "resources" else f" ({', '.join(analysis.resources)})"
            run.say(f"{number:>6} {VERDICTS[name]}{more}\n")
    clauses = [
        [one.true, one.false, one.undefined, one.error, one.text + _unknown(one.unknown)]
        for one in analysis.clauses
    ]
    _table(run, "Its Requirements, on these slots:", ["TRUE", "FALSE", "UNDEF", "ERROR", "CLAUSE"], clauses)
    refusals = [[one.slots, one.text, ", ".join(one.examples)] for one in analysis.refusals]
    _table(run, "Reasons of the slots:", ["SLOTS", "REASON", "FOR EXAMPLE"], refusals)
    ahead = [
        [one.submitter, one.why or f"{one.priority or 0:.2f}", one.running, one.autoclusters_waiting]
        for one in analysis.ahead
    ]
    heading = ["SUBMITTER", "PRIORITY", "RUNNING", "AUTOCLUSTERS"]
    _table(run, "Submitters whose turn comes first:", heading, ahead)
    run.say("\n")


def _unknown(names: list[str]) -> str:
    return f"   <- no slot has {', '.join(names)}" if names else ""


def _table(run: Invocation, title: str, heading: list[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows, if there are any, as a table; numbers are aligned to the right."""
    if not rows:
        return
    run.say(f"\n{title}\n\n")
    lines: list[Sequence[object]] = [heading, *rows]
    widths = [max(len(str(line[n])) for line in lines) for n in range(len(heading))]
    for line in lines:
        cells = (
            f"{cell!s:>{width}}" if isinstance(rows[0][n], int) else f"{cell!s:<{width}}"
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        run.say("  ".join(cells).rstrip() + "\n")
