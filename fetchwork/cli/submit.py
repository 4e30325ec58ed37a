"""``fetchwork submit``: puts the jobs of a submit description, or job ads, into the queue."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output
from fetchwork.errors import DatabaseUnavailable, SubmitError
from fetchwork.queue.remote import AnySession, RemoteSession

if TYPE_CHECKING:
    from fetchwork.queue.reading.views import Json
    from fetchwork.queue.submitting.submission import Description


@click.command(cls=options.HTCondorCommand)
@click.argument("file", metavar="FILE", default="-")
@click.option(
    "-a",
    "-append",
    "--append",
    "lines",
    metavar="COMMAND",
    multiple=True,
    help="A line to add to the description, before its queue statements.",
)
@click.option("--owner", help="The account on the execute hosts that the jobs run as.  [default: yours]")
@click.option(
    "--queue", "queue_name", metavar="NAME", help="The queue that the jobs go into.  [default: default]"
)
@click.option("-batch-name", "--batch-name", metavar="NAME", help="The name of this batch of jobs.")
@click.option(
    "--ads",
    "are_ads",
    is_flag=True,
    help="FILE holds job ads: JSON, or old-syntax ads separated by blank lines. Assumed for *.ad, *.ads"
    " and *.json.",
)
@click.option(
    "-dry-run", "--dry-run", is_flag=True, help="Check the jobs, print their ads as JSON, submit nothing."
)
@click.option(
    "--key",
    metavar="TEXT",
    help="Your own name for this submission: repeated with the same key, it submits nothing and prints the"
    " first one's cluster.",
)
@click.option(
    "--from-schedd",
    "schedd",
    metavar="NAME",
    is_flag=False,
    flag_value="",
    help="Take over the idle jobs of this schedd, by default the host's: yours, for root all.",
)
@options.constraint_option
@click.option(
    "--originals",
    type=click.Choice(["hold", "remove"]),
    help="With --from-schedd: what becomes of each original, which is held in any case before its copy is"
    " made.  [default: hold]",
)
@click.option(
    "--partly", is_flag=True, help="Move the schedd's idle jobs that can be moved, and leave the others."
)
@options.json_option
@options.performing
def cli(
    session: AnySession,
    file: str,
    lines: tuple[str, ...],
    owner: str | None,
    queue_name: str | None,
    batch_name: str | None,
    are_ads: bool,
    dry_run: bool,
    key: str | None,
    schedd: str | None,
    constraints: tuple[str, ...],
    originals: str | None,
    partly: bool,
    as_json: bool,
) -> None:
    """Put jobs into the queue.

    FILE is an HTCondor submit description, or '-' for standard input. Commands that fetched work can't honour
    are refused by name; either all jobs of FILE are submitted, or none.

    Ads that a schedd printed (condor_q -long), and with --from-schedd the schedd's jobs, are moved: the idle
    ones, each cluster as one. Jobs that can't be moved are listed first, with the reason.

    \b
    Example:
      printf 'executable = /bin/sleep\\narguments = $(Process)\\nqueue 20\\n' > sleep.sub
      fetchwork submit sleep.sub
      fetchwork submit sleep.sub -a 'priority = 5' --owner alice --queue urgent
      fetchwork submit jobs.json --key night-2026-11-27
      condor_q -long > jobs.ads; fetchwork submit --ads jobs.ads
      fetchwork submit --from-schedd ap1.example.org --originals remove
    """
    from fetchwork.cli import fromschedd
    from fetchwork.condor.invocation import KEY_VARIABLE
    from fetchwork.queue.submitting.fromschedd import is_schedds

    # the key of a submission that an access point may have taken; programs of the description must not get it
    given_key = os.environ.pop(KEY_VARIABLE, None)
    if schedd is None and (constraints or originals is not None):
        raise click.UsageError("options '--constraint' and '--originals' go with '--from-schedd'")
    description = _description(file, lines, owner, schedd, constraints, are_ads)
    named = {"FetchWorkQueue": queue_name, "JobBatchName": batch_name}
    extra = {name: value for name, value in named.items() if value is not None}
    if not isinstance(description, str) and (schedd is not None or is_schedds(description)):
        extra |= {} if owner is None else {"Owner": owner}
        there = None if schedd is None else fromschedd.originals_of(schedd or None, originals)
        move = functools.partial(fromschedd.move, session, description, extra=extra, originals=there)
        move(partly=partly, dry_run=dry_run, as_json=as_json)
    elif dry_run:
        _check(session, description, owner, extra)
    else:
        _submit(session, description, owner, extra, key or given_key, as_json)


def _description(
    file: str,
    lines: Sequence[str],
    owner: str | None,
    schedd: str | None,
    constraints: Sequence[str],
    are_ads: bool,
) -> str | list[Json]:
    """The text of a description, with the lines of --append, or ads of a file or a schedd."""
    from fetchwork.cli import fromschedd
    from fetchwork.queue.submitting import descriptions, jobads, statements, submission
    from fetchwork.queue.submitting.unused import unused

    if schedd is not None:
        if lines or file != "-":
            raise click.UsageError("option '--from-schedd' goes with no FILE and no '--append'")
        return fromschedd.jobs_of(schedd or None, constraints)
    if file == "-" and sys.stdin.isatty():
        click.echo("reading from standard input, to its end (Ctrl-D)", err=True)
    text = descriptions.read_file(file)
    if are_ads or Path(file).suffix in (".ad", ".ads", ".json"):
        if lines:
            raise click.UsageError("option '--append' works with a submit description, not with ads")
        return jobads.read_ads(text)
    description = statements.with_commands(text, lines)
    for one in sorted(unused(description), key=lambda one: one.number):
        output.echo(
            f"fetchwork: warning: line {one.number}: '{one.name}' is not a submit command"
            " and is not used anywhere: is it misspelt?",
            err=True,
        )
    missing = descriptions.missing_executable(submission.prepared(description, cluster=1, owner=owner))
    if missing:
        raise SubmitError(
            f"{missing}; allowed: one that is there, or transfer_executable = false"
            " for one that is on the execute hosts only"
        )
    return description


def _check(
    session: AnySession, description: Description, owner: str | None, extra: Mapping[str, str]
) -> None:
    """Print the ads of jobs that are not submitted."""
    from fetchwork.queue.submitting import submission

    jobs = submission.prepared(description, cluster=1, owner=owner, extra=extra)
    try:
        session.check(description, owner=owner, extra=extra)
    except DatabaseUnavailable as error:
        output.echo(f"fetchwork: warning: not checked by the database: {error}", err=True)
    output.print_json_list({**jobs.common, **own} for own in jobs.own)


def _submit(
    session: AnySession,
    description: Description,
    owner: str | None,
    extra: Mapping[str, str],
    key: str | None,
    as_json: bool,
) -> None:
    """Submit jobs, and print the result."""
    from fetchwork.cli.progress import moving
    from fetchwork.queue.submitting.unmet import unmet

    with moving("sending files") as progress:
        result = session.submit(description, owner=owner, extra=extra, progress=progress, key=key)
    cluster = result.cluster()
    if as_json:
        output.print_json({"ClusterId": cluster, "jobs": result.num_procs()})
    else:
        output.echo(f"{result.num_procs()} job(s) submitted to cluster {cluster}.")
        if output.on_terminal():
            commands = (f"q {cluster}", f"wait {cluster}", f"tail -f {cluster}.0", f"rm {cluster}")
            words = "   ".join(f"fetchwork {command}" for command in commands)
            output.echo(f"next steps:  {words}", err=True)
        for problem in result.problems:
            output.echo(f"fetchwork: warning: {problem}", err=True)
    if isinstance(description, str):
        served = isinstance(session, RemoteSession)
        for line in unmet(description, served=served, on_terminal=output.on_terminal()):
            output.echo(f"fetchwork: warning: {line}", err=True)
