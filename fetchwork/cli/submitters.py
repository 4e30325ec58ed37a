"""``fetchwork submitters``: what condor_userprio shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession


@click.command()
@options.constraint_option
@options.json_option
@options.performing
def cli(session: AnySession, constraints: tuple[str, ...], as_json: bool) -> None:
    """Show who uses how much, and who is next: the smallest priority value is served first.

    Constraints refer to attributes of the submitter: Name, Priority, RunningJobs, AccumulatedUsage, ...

    \b
    Example:
      fetchwork submitters
      fetchwork submitters -constraint 'RunningJobs > 0'
    """
    constraint = options.jobs_constraint((), constraints)
    submitters = list(session.items("view", name="submitters", constraint=constraint))
    if as_json:
        output.print_json(submitters)
        return
    lines = [
        [
            ad["Name"],
            output.number(ad["Priority"]),
            output.number(ad["PriorityFactor"]),
            ad["RunningJobs"],
            ad.get("MaxRunning"),
            output.number(ad["AccumulatedUsage"] / 3600),
        ]
        for ad in submitters
    ]
    heading = ("SUBMITTER", "PRIORITY", "FACTOR", "RUNNING", "LIMIT", "USAGE_HOURS")
    output.table(heading, lines, right=(1, 2, 3, 4, 5))
