"""``fetchwork slots``: shows the slots as condor_status does, from the database."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.queue.reading.views import Json
    from fetchwork.queue.remote import AnySession

PROJECTION = [
    "Name",
    "Machine",
    "State",
    "Activity",
    "SlotType",
    "Cpus",
    "Memory",
    "JobId",
    "RemoteOwner",
    "LastFetchWorkSpawned",
    "FetchWorkLastAnswer",
]


@click.command()
@click.argument("hosts", metavar="[HOST|SLOT]...", nargs=-1)
@options.constraint_option
@click.option(
    "--hosts",
    "by_host",
    is_flag=True,
    help="A line for each host: its agent, and whether it is a black hole.",
)
@options.json_option
@options.performing
def cli(
    session: AnySession, hosts: tuple[str, ...], constraints: tuple[str, ...], by_host: bool, as_json: bool
) -> None:
    """Show the slots that fetch jobs, as of their last fetch.

    LAST_ANSWER: the job that was offered; 'waiting' while the agent lets the fetch wait for work; 'nothing';
    'busy'; or another reason why the slot got no job. Constraints refer to attributes of the slot, or with
    --hosts of the host: Machine, Alive, BlackHole, ...

    \b
    Example:
      fetchwork slots
      fetchwork slots ep17
      fetchwork slots -constraint 'State == "Unclaimed" && Memory > 8192'
      fetchwork slots --hosts
    """
    from fetchwork.queue.constraints.constraint import joined

    names = [f"Machine == {_quoted(host)}" for host in hosts]
    if not by_host:
        names += [f"Name == {_quoted(host)}" for host in hosts]
    constraint = joined([*([" || ".join(names)] if names else []), *constraints])
    view, projection = ("hosts", []) if by_host else ("slots", PROJECTION)
    rows = list(session.items("view", name=view, constraint=constraint, projection=projection))
    if as_json:
        output.print_json(rows)
    elif by_host:
        _print_hosts(rows)
    else:
        _print_slots(rows)


def _quoted(text: str) -> str:
    from fetchwork.classad.ads import quote

    return quote(text)


def _print_hosts(hosts: Sequence[Json]) -> None:
    now = time.time()
    lines = [
        [
            ad["Machine"],
            ad.get("AgentVersion", "none"),
            "yes" if ad.get("Alive") else "no",
            output.run_time(now - ad["LastHeardFrom"]),
            ad["Runs"],
            ("black hole: " if ad["BlackHole"] else "") + " ".join(str(ad.get("BadReason", "")).split()),
        ]
        for ad in hosts
    ]
    output.table(("MACHINE", "AGENT", "ALIVE", "SILENT_FOR", "RUNS", "PROBLEM"), lines, right=(4,))


def _print_slots(slots: Sequence[Json]) -> None:
    now = time.time()
    lines = [
        [
            ad["Name"],
            ad.get("State"),
            ad.get("Activity"),
            output.number(ad.get("Cpus")),
            output.number(ad.get("Memory"), 0),
            ad.get("JobId"),
            ad.get("RemoteOwner"),
            output.run_time(now - ad["LastFetchWorkSpawned"]),
            ad.get("FetchWorkLastAnswer"),
        ]
        for ad in slots
    ]
    heading = ("NAME", "STATE", "ACTIVITY", "CPUS", "MEM", "JOB", "OWNER", "SINCE_FETCH", "LAST_ANSWER")
    output.table(heading, lines, right=(3, 4))
    output.echo(f"\n{len(slots)} slots, {sum('JobId' in ad for ad in slots)} with a job")
