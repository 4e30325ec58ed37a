"""``fetchwork edit``: changes attributes of jobs, as condor_qedit does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession


@click.command(cls=options.HTCondorCommand)
@click.argument("job", metavar="JOB|OWNER")
@click.argument("changes", metavar="ATTR VALUE|ATTR=VALUE...", nargs=-1, required=True)
@options.constraint_option
@options.json_option
@options.performing
def cli(
    session: AnySession, job: str, changes: tuple[str, ...], constraints: tuple[str, ...], as_json: bool
) -> None:
    """Change attributes of jobs in the queue.

    VALUE is a ClassAd expression; strings need their double quotes. Attributes that matching uses may change
    too; the job keeps its position in the queue.

    \b
    Example:
      fetchwork edit 42.0 RequestMemory 4096
      fetchwork edit 42.0 JobPrio=7
      fetchwork edit alice JobPrio 10 JobDescription '"second try"' -constraint 'JobStatus == 5'
    """
    from fetchwork.queue.changing import value_of

    pairs = {}
    words = iter(changes)
    for word in words:
        if assigned := re.fullmatch(r"([A-Za-z_]\w*)\s*=(?!=)\s*(.+)", word, re.A | re.S):
            name, value = assigned.groups()
        else:
            name, value = word, next(words, "")
            if not value:
                raise click.UsageError(f"attribute '{name}' has no value")
        pairs[name] = value_of(value)
    spec = job if not constraints and job[:1].isdigit() else options.jobs_constraint([job], constraints)
    changed = session.perform("edit", spec=spec, changes=pairs)
    if as_json:
        output.print_json({"changed": changed})
    else:
        output.echo(f"{changed} job(s) changed: {', '.join(pairs)}")
