"""``fetchwork checkpoints``: the files that jobs saved for their next run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession


@click.command(cls=options.HTCondorCommand)
@click.argument("jobs", metavar="[JOB...]", nargs=-1)
@options.constraint_option
@options.json_option
@click.option(
    "--clean-up",
    is_flag=True,
    help="Delete your checkpoints that are at a checkpoint_destination and that no run needs any more.",
)
@options.performing
def cli(
    session: AnySession, jobs: tuple[str, ...], constraints: tuple[str, ...], as_json: bool, clean_up: bool
) -> None:
    """Show the files that jobs in the queue saved for their next run.

    Checkpoints (checkpoint_exit_code) are numbered from 0; files of an eviction have no number.
    Constraints refer to ClusterId, ProcId, Owner, RunId, CheckpointNumber, LastCkptTime, Files and Bytes.

    With --clean-up the plug-ins of HTCondor's CHECKPOINT_DESTINATION_MAPFILE on this machine delete
    checkpoints of jobs that have left, and those that a later one has replaced. It exits with 1 if one could
    not be deleted.

    \b
    Example:
      fetchwork checkpoints 42.0
      fetchwork checkpoints -constraint 'Bytes > 1000000000'
    """
    if clean_up:
        _clean_up(session)
        return
    constraint = options.jobs_constraint(jobs, constraints)
    saved = list(session.items("view", name="checkpoints", constraint=constraint))
    if as_json:
        output.print_json(saved)
        return
    rows = [
        [
            f"{ad['ClusterId']}.{ad['ProcId']}",
            ad["Owner"],
            ad["RunId"],
            ad.get("CheckpointNumber"),
            output.moment(ad.get("LastCkptTime")),
            ad["Files"],
            ad["Bytes"],
        ]
        for ad in saved
    ]
    output.table(("JOB", "OWNER", "RUN", "NUMBER", "SAVED", "FILES", "BYTES"), rows, right=(2, 3, 5, 6))


def _clean_up(session: AnySession) -> None:
    from fetchwork.queue.outputs.cleanup import clean_up

    failed = False
    for base, problem in clean_up(options.database_of(session)):
        failed = failed or bool(problem)
        output.echo(f"{base}: {problem or 'deleted'}")
    if failed:
        click.get_current_context().exit(1)
