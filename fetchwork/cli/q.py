"""``fetchwork q``: condor_q for all jobs that the role may see, with totals by group, analyses and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output
from fetchwork.cli.progress import looking

if TYPE_CHECKING:
    from fetchwork.queue.reading.summaries import TotalsBy
    from fetchwork.queue.remote import AnySession


@click.command(cls=options.FaceCommand)
@options.words_argument("[JOB|OWNER]...")
@options.constraint_note
@options.passed("-nobatch", "--nobatch", help="A line for each job.")
@options.passed("-dag", "--dag", help="A line for each job; those of DAGs below them, by node.")
@options.passed("-hold", "--hold", help="Held jobs, with the reason.")
@options.passed("-run", "--run", help="Running jobs, with the slot.")
@options.passed("-idle", "--idle", help="Idle jobs, with their requests.")
@options.passed(
    "-better-analyze",
    "-analyze",
    "--better-analyze",
    help="Explain why jobs do not run; without a job, one idle job of each autocluster.",
)
@options.passed("-totals", "--totals", help="Print only the totals.")
@options.passed("-limit", "--limit", metavar="N", help="Show at most this many jobs.")
@options.forms_note
@click.option(
    "--by",
    type=click.Choice(["owner", "autocluster", "queue"]),
    help="Totals by owner, autocluster or queue.",
)
@options.json_option
@options.reading
@click.pass_context
def cli(
    context: click.Context, session: AnySession, words: tuple[str, ...], by: TotalsBy | None, as_json: bool
) -> None:
    """Show the jobs in the queue.

    Without options, all jobs that your role may see, one line for each batch or cluster. Takes the options
    of condor_q.

    \b
    Example:
      fetchwork q
      fetchwork q 42 -nobatch
      fetchwork q alice -hold
      fetchwork q alice -dag
      fetchwork q -constraint 'RequestMemory > 4096 && JobPrio > 0' -af:j Cmd RequestMemory
      fetchwork q --totals
      fetchwork q --better-analyze 42.0
    """
    from fetchwork.cli import face
    from fetchwork.condor.arguments import octets, text_of
    from fetchwork.condor.q import analysis, qoptions
    from fetchwork.condor.q import command as q

    run = face.made("condor_q", ["-allusers", *words], session)
    asked = face.told(run, lambda: qoptions.parse(run.words()))
    face.checked(asked.all_of)
    constraint = text_of(qoptions.constraint_of(asked))
    if by is not None:
        if constraint:
            raise click.UsageError(
                "option '--by' can't be combined with jobs or constraints: it counts all jobs"
            )
        _totals(session, by, as_json)
    elif as_json and asked.analyze:
        output.print_json([result.to_json() for result in analysis.explained(session, constraint)[0]])
    elif as_json and asked.totals:
        counted = session.perform("summary", constraint=constraint)
        output.print_json([{name.lower(): value for name, value in counted.items() if name != "MyType"}])
    elif as_json:
        jobs = session.items("jobs", constraint=constraint or "true", limit=asked.limit)
        output.print_json_list(looking(session, jobs))
    else:
        run.renderers = {"JOB_DESCRIPTION": face.description(by_dag=asked.dag)}
        # the jobs alone that are named: condor_q asks for those of a DAG too
        asked.partial = asked.partial or any(proc >= 0 for _, proc in asked.ids)
        asked.all_of, asked.any_of, asked.ids = ([octets(constraint)] if constraint else []), [], []
        asked.global_ = asked.global_ or options.is_everywhere(session)
        asked.alone = not asked.global_
        if asked.dag and asked.batch is None:
            asked.batch = False
        context.exit(face.told(run, lambda: q.show(run, asked)))


def _totals(session: AnySession, by: TotalsBy, as_json: bool) -> None:
    """Print the totals of the whole queue, which are kept."""
    rows = session.perform("totals", by=by)
    if as_json:
        output.print_json(rows)
    else:
        keys = [key for key in rows[0] if key not in ("completed", "removed")] if rows else [by]
        output.table([key.upper() for key in keys], [[row[key] for key in keys] for row in rows])
