"""``fetchwork rm``, ``hold``, ``release`` and ``vacate``: each target is changed and has its own line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession


def _targets(jobs: Sequence[str], constraints: Sequence[str], everything: bool) -> Iterator[tuple[str, str]]:
    """Yield each target's name in messages, and the ids or the constraint that select it."""
    from fetchwork.queue.selecting import parse_id

    if everything:
        yield "all jobs", "true"
    elif constraints:
        yield "jobs that the constraint selects", options.jobs_constraint(jobs, constraints)
    else:
        for word in jobs:
            if parse_id(word) is None:
                yield f"jobs of {word}", options.jobs_constraint([word], ())
            else:
                yield f"job {word}" if "." in word else f"jobs of cluster {word}", word


def command(action: str, done: str, not_done: str, text: str) -> click.Command:
    """Make the command of a ``JobAction``."""

    @click.command(cls=options.HTCondorCommand, help=text)
    @click.argument("jobs", metavar="[JOB|OWNER]...", nargs=-1)
    @options.constraint_option
    @click.option("-all", "--all", "everything", is_flag=True, help="All jobs that you may change.")
    @click.option(
        "-reason", "--reason", metavar="TEXT", help="The reason, kept with the job and in its events."
    )
    @click.option(
        "-forcex",
        "--forcex",
        "forced",
        is_flag=True,
        hidden=action != "Remove",
        help="Do not wait for the processes of running jobs.",
    )
    @options.json_option
    @options.performing
    @click.pass_context
    def cli(
        context: click.Context,
        session: AnySession,
        jobs: tuple[str, ...],
        constraints: tuple[str, ...],
        everything: bool,
        reason: str | None,
        forced: bool,
        as_json: bool,
    ) -> None:
        if forced and action != "Remove":
            raise click.UsageError("option '-forcex' is for rm")
        if not (jobs or constraints or everything):
            raise click.UsageError("no jobs named; allowed: job ids, owners, -constraint, -all")
        if everything and (jobs or constraints):
            raise click.UsageError("option '-all' can't be combined with jobs or constraints")
        results = []
        # a wrong word fails before the first change
        for target, spec in list(_targets(jobs, constraints, everything)):
            answer = session.perform("change", action=action, spec=spec, reason=reason)
            if forced:
                # also jobs that were marked before
                left = session.perform("change", action="RemoveX", spec=spec, reason=reason)
                answer["changed"] = max(answer["changed"], left["changed"])
            changed, others = answer["changed"], answer["jobs"] - answer["changed"]
            result = {"jobs": target, "changed": changed, "not_found": answer["missing"], "unchanged": others}
            results.append(result)
            if changed and not as_json:
                output.echo(f"{target}: {changed} {done}" + (f", {others} {not_done}" if others else ""))
            elif not as_json:
                problem = not_done if others else "not in the queue"
                output.echo(f"fetchwork: error: {target}: {problem}", err=True)
        if as_json:
            output.print_json(results)
        if not all(result["changed"] for result in results):
            context.exit(1)

    return cli


rm = command(
    "Remove",
    "marked for removal",
    "being removed already",
    """Remove jobs.

A waiting job is removed at once. A running job is ended by its host, and leaves the
queue when its process is gone: until then its status is X. With -forcex it leaves at once.

\b
Example:
  fetchwork rm 42.0
  fetchwork rm 42 43
  fetchwork rm alice -reason 'wrong input'
  fetchwork rm -constraint 'NumJobStarts > 5'
  fetchwork rm 42.0 -forcex
    """,
)


hold = command(
    "Hold",
    "held",
    "held already, or being removed",
    """Hold jobs.

A running job is ended at its next update. Held jobs wait for a slot again after `fetchwork release`.

\b
Example:
  fetchwork hold 42.0 -reason 'waiting for input'
  fetchwork hold -constraint 'RequestMemory > 8192'
    """,
)


release = command(
    "Release",
    "released",
    "not held",
    """Release held jobs.

\b
Example:
  fetchwork release 42.0
  fetchwork release -constraint 'HoldReasonCode == 6'
    """,
)


vacate = command(
    "Vacate",
    "told to end",
    "not running",
    """End the runs of running jobs, so that they run again.

Each job is ended at its next update, with its own kill signal and within its own vacate time, and then waits
again.

\b
Example:
  fetchwork vacate 42.0
  fetchwork vacate -constraint 'RemoteHost == "slot1@ep17"'
    """,
)
