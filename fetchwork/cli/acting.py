"""What rm, hold, release and vacate have in common: jobs named, something done to each, told in a line."""

from __future__ import annotations

import re
from typing import Any

import click

from fetchwork.cli import options, output
from fetchwork.queue import Queue


def command(action: str, done: str, not_done: str, text: str) -> click.Command:
    """Make a command that does a ``JobAction`` to jobs."""

    @click.command(cls=options.HTCondorCommand, help=text)
    @click.argument("jobs", metavar="[JOB|OWNER]...", nargs=-1)
    @options.constraint_option
    @click.option("-all", "--all", "everything", is_flag=True, help="All jobs that you may change.")
    @click.option(
        "-reason", "--reason", metavar="TEXT", help="The reason, kept with the job and in its events."
    )
    @options.json_option
    @options.connected
    @click.pass_context
    def cli(
        context: click.Context,
        queue: Queue,
        jobs: tuple[str, ...],
        constraints: tuple[str, ...],
        everything: bool,
        reason: str | None,
        as_json: bool,
    ) -> None:
        from fetchwork.classad.bindings import JobAction

        if not jobs and not constraints and not everything:
            raise click.UsageError("no jobs named; allowed: job ids, owners, -constraint, -all")
        if everything and (jobs or constraints):
            raise click.UsageError("option '-all' can't be combined with jobs or constraints")
        targets: list[tuple[str, Any]] = []
        if everything:
            targets.append(("all jobs", "true"))
        elif constraints:
            targets.append(("jobs that the constraint selects", options.jobs_constraint(jobs, constraints)))
        else:
            for word in jobs:
                is_id = re.fullmatch(r"\d{1,9}(\.\d{1,9})?", word)
                what = (
                    f"job {word}" if is_id and "." in word else f"jobs of {'cluster ' if is_id else ''}{word}"
                )
                targets.append((what, word if is_id else options.jobs_constraint([word], ())))
        told = []
        failed = False
        for what, spec in targets:
            result = queue.act(getattr(JobAction, action), spec, reason)
            changed, missing, others = (
                int(result[name]) for name in ("TotalSuccess", "TotalNotFound", "TotalBadStatus")
            )
            told.append({"jobs": what, "changed": changed, "not_found": missing, "unchanged": others})
            failed = failed or not changed
            if as_json:
                continue
            if changed:
                output.echo(f"{what}: {changed} {done}" + (f", {others} {not_done}" if others else ""))
            else:
                problem = f"{not_done}" if others else "not in the queue"
                output.echo(f"fetchwork: error: {what}: {problem}", err=True)
        if as_json:
            output.print_json(told)
        if failed:
            context.exit(1)

    return cli
