"""``condor_q -better-analyze``: why jobs do not run, from what ``fetchwork.explain`` finds out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fetchwork.condor.invocation import Invocation
from fetchwork.condor.qoptions import QOptions

if TYPE_CHECKING:
    from fetchwork.explain.job import Analysis


#: most jobs that are explained when the command names none: one of each autocluster
MOST = 10


def analyze(run: Invocation, options: QOptions) -> int:
    """Explain the jobs that are named, or one idle job of each autocluster; returns the exit status."""
    from fetchwork.errors import FetchworkError, one_line
    from fetchwork.explain.job import analyze as explain
    from fetchwork.explain.job import analyze_idle

    session = run.session
    results: list[Analysis] = []
    more = False
    status = 0
    try:
        if not options.ids:
            results, more = analyze_idle(session, MOST)
    except FetchworkError as problem:
        run.complain(one_line(str(problem)) + "\n")
        return 1
    for cluster, proc in options.ids:
        try:
            results.append(explain(session, cluster, max(proc, 0)))
        except FetchworkError as problem:
            run.complain(one_line(str(problem)) + "\n")
            status = 1
    for result in results:
        _print(run, result)
    if more:
        run.say(f"\nThere are more idle jobs; these are of the {MOST} autoclusters with most.\n")
    return status


def _print(run: Invocation, result: Analysis) -> None:
    from fetchwork.explain.judging import VERDICTS

    run.say(f"-- Job {result.job} of {result.owner}, queue {result.queue}\n")
    if result.alike:
        run.say(f"   It speaks for {result.alike} more idle jobs of its autocluster.\n")
    for reason in result.reasons or ["Nothing prevents it from running."]:
        run.say(f"   {reason}\n")
    if result.verdicts:
        run.say(f"\nOf {result.slots} slots\n")
        for name, number in result.verdicts.items():
            run.say(f"{number:>6} {VERDICTS[name]}\n")
    for clause in result.clauses:
        run.say(f"{clause.true:>6} of them are true of: {clause.text}\n")
