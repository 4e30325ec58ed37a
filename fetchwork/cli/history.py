"""``fetchwork history``: condor_history with the end of each job, from the database."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output
from fetchwork.cli.progress import looking
from fetchwork.errors import FetchworkError

if TYPE_CHECKING:
    from fetchwork.condor.printing.printedad import PrintedAd, PrintedValue
    from fetchwork.queue.remote import AnySession

#: clusters whose output files wait that are named below the table
SHOWN = 5


@click.command(cls=options.FaceCommand)
@options.words_argument("[JOB|OWNER]...")
@options.constraint_note
@options.passed("-limit", "-match", "--limit", metavar="N", help="Show at most this many jobs.")
@options.passed("-since", "--since", metavar="JOB|EXPR", help="Only jobs that ended after this one.")
@options.forms_note
@options.json_option
@options.reading
@click.pass_context
def cli(context: click.Context, session: AnySession, words: tuple[str, ...], as_json: bool) -> None:
    """Show jobs that have left the queue, most recent first.

    EXIT is the exit code or, with a minus sign, the signal that ended the job. Takes the options of
    condor_history.

    \b
    Example:
      fetchwork history -limit 20
      fetchwork history 42
      fetchwork history -constraint 'ExitCode != 0' -af:j Owner ExitCode LastRemoteHost
    """
    from fetchwork.cli import face
    from fetchwork.condor import history, historyoptions
    from fetchwork.condor.printing.renderers import PrintAs

    clusters: dict[int, None] = {}

    def render_end(value: PrintedValue, ad: PrintedAd) -> PrintedValue:
        clusters[ad.integer("ClusterId") or 0] = None
        signal, code = ad.integer("ExitSignal"), ad.integer("ExitCode")
        return f"{-signal if signal is not None else '' if code is None else code:>4}"

    renderers = {
        "EXIT": PrintAs(str, render_end, reads=("ClusterId", "ExitCode", "ExitSignal")),
        "JOB_DESCRIPTION": face.description(by_dag=True),
    }
    run = face.made("condor_history", words, session, renderers)
    asked = face.told(run, lambda: historyoptions.parse(run))
    if as_json:
        constraint = historyoptions.constraint_of(asked)
        output.print_json_list(looking(session, history.history_items(session, asked, constraint, [])))
        return
    status = face.told(run, lambda: history.show(run, asked, history.WITH_EXIT))
    if clusters:
        with_outputs: set[int] = set()
        # a reader of all jobs, or of several databases, brings no files
        with contextlib.suppress(FetchworkError):
            with_outputs.update(session.perform("output_clusters"))
        if kept := [str(cluster) for cluster in clusters if cluster in with_outputs]:
            some = " ".join(kept[:SHOWN]) + (" ..." if len(kept) > SHOWN else "")
            text = f"The database has output files of {some}: 'fetchwork transfer-data JOB' brings them."
            output.echo(f"\n{text}")
    context.exit(status)
