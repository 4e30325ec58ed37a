"""``fetchwork demand``: the requests of idle jobs."""

from __future__ import annotations

import time
from typing import IO, TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession


@click.command()
@click.argument("queues", metavar="[QUEUE]...", nargs=-1)
@click.option(
    "--slot-ad",
    type=click.File("rb"),
    metavar="FILE",
    help="Print how many slots with this ad (condor_status -long, '-' for standard input) they would fill.",
)
@options.json_option
@options.performing
def cli(session: AnySession, queues: tuple[str, ...], slot_ad: IO[bytes] | None, as_json: bool) -> None:
    """Show the requests of idle jobs, most jobs first: the slots that are missing.

    OLDEST is how long the first of them has waited, as days+hours:minutes:seconds. With --slot-ad, slots and
    jobs are matched as an agent does it; jobs share the resources of a partitionable slot. Programs read the
    view fetchwork.demand_now.

    \b
    Example:
      fetchwork demand
      fetchwork demand default
      fetchwork demand --slot-ad pilot.ad
    """
    named = list(queues) or None
    if slot_ad is not None:
        _print_fill(session, slot_ad.read(), named, as_json)
        return
    lines = session.perform("demand", queues=named)
    if as_json:
        output.print_json(lines)
        return
    now = time.time()
    output.table(
        ("QUEUE", "CPUS", "MEMORY", "DISK", "GPUS", "IDLE", "OLDEST", "REQUIREMENTS"),
        [
            [
                line["queue"],
                output.number(line["request_cpus"]) if line["request_cpus"] is not None else None,
                line["request_memory_mib"],
                line["request_disk_kib"],
                output.number(line["request_gpus"]) if line["request_gpus"] is not None else None,
                line["idle"],
                output.run_time(now - line["oldest_qdate"]) if line["oldest_qdate"] is not None else None,
                line["requirements"],
            ]
            for line in lines
        ],
        right=(1, 2, 3, 4, 5, 6),
    )


def _print_fill(session: AnySession, text: bytes, queues: list[str] | None, as_json: bool) -> None:
    from fetchwork.classad.ads import parse_old
    from fetchwork.explain.demand import REASONS, fill

    filled = fill(session, parse_old(text), queues)
    if as_json:
        output.print_json(filled.to_json())
        return
    slots = "1 slot" if filled.slots == 1 else f"{filled.slots} slots"
    jobs = "1 idle job" if filled.jobs == 1 else f"{filled.jobs} idle jobs"
    output.echo(f"{jobs} would fill {slots} like this one")
    for name, number in filled.passed_over.items():
        output.echo(f"{number:>6} idle {'job' if number == 1 else 'jobs'} {REASONS[name]}")
