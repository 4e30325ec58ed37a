"""``condor_q -better-analyze``: why jobs do not run, from what ``fetchwork.explain`` finds out."""

from __future__ import annotations

from fetchwork.condor.invocation import Invocation
from fetchwork.condor.qoptions import QOptions


def analyze(run: Invocation, options: QOptions) -> int:
    """Explain the jobs that are named; returns the exit status."""
    from fetchwork.errors import FetchworkError, one_line
    from fetchwork.explain.job import analyze as explain
    from fetchwork.explain.judging import VERDICTS
    from fetchwork.queue.session import Session

    if not options.ids:
        run.complain("Error: -better-analyze needs a job id, as 42.0\n")
        return 1
    session = run.session
    if not isinstance(session, Session):
        run.complain("Error: -better-analyze needs a connection string in FETCHWORK_DSN\n")
        return 1
    status = 0
    for cluster, proc in options.ids:
        try:
            result = explain(session.database, cluster, max(proc, 0))
        except FetchworkError as problem:
            run.complain(one_line(str(problem)) + "\n")
            status = 1
            continue
        run.say(f"-- Job {result.job} of {result.owner}, queue {result.queue}\n")
        for reason in result.reasons or ["Nothing prevents it from running."]:
            run.say(f"   {reason}\n")
        if result.verdicts:
            run.say(f"\nOf {result.slots} slots\n")
            for name, number in result.verdicts.items():
                run.say(f"{number:>6} {VERDICTS[name]}\n")
        for clause in result.clauses:
            run.say(f"{clause.true:>6} of them are true of: {clause.text}\n")
    return status
