"""``fetchwork slots``: what condor_status shows, as the database knows it."""

from __future__ import annotations

import time

import click

from fetchwork.cli import options, output
from fetchwork.queue import Queue


@click.command()
@click.argument("hosts", metavar="[HOST|SLOT]...", nargs=-1)
@click.option(
    "--hosts",
    "by_host",
    is_flag=True,
    help="A line for each host: its agent, and whether it is a black hole.",
)
@options.json_option
@options.connected
def cli(queue: Queue, hosts: tuple[str, ...], by_host: bool, as_json: bool) -> None:
    """Show the slots that fetch jobs, as of their last fetch.

    LAST_ANSWER: the job that was offered; 'waiting' while the agent lets the fetch wait for work; 'nothing';
    'busy'; or another reason why the slot got no job.

    \b
    Example:
      fetchwork slots
      fetchwork slots ep17
      fetchwork slots --hosts
    """
    if by_host:
        rows = queue.database.query(
            "SELECT machine, agent_version, alive, extract(epoch FROM seen_at)::float8 AS seen,"
            " runs, bad_starts,"
            " bad_reason, black_hole_since_at IS NOT NULL AS black_hole FROM fetchwork.hosts"
            " WHERE cardinality(%s::text[]) = 0 OR machine = ANY(%s) ORDER BY machine",
            [list(hosts), list(hosts)],
        )
        if as_json:
            output.print_json(rows)
            return
        now = time.time()
        lines = [
            [
                row["machine"],
                row["agent_version"] or "none",
                "yes" if row["alive"] else "no",
                output.run_time(now - row["seen"]),
                row["runs"],
                ("black hole: " if row["black_hole"] else "") + " ".join((row["bad_reason"] or "").split()),
            ]
            for row in rows
        ]
        output.table(("MACHINE", "AGENT", "ALIVE", "SILENT_FOR", "RUNS", "PROBLEM"), lines, right=(4,))
        return
    rows = queue.database.query(
        "SELECT name, machine, state, activity, slottype, cpus, memory, jobid, remoteowner,"
        " extract(epoch FROM last_fetch_at)::float8 AS fetched, last_answer FROM fetchwork.slots"
        " WHERE cardinality(%s::text[]) = 0 OR machine = ANY(%s) OR name = ANY(%s) ORDER BY machine, name",
        [list(hosts)] * 3,
    )
    if as_json:
        output.print_json(rows)
        return
    now = time.time()
    lines = [
        [
            row["name"],
            row["state"],
            row["activity"],
            output.number(row["cpus"]),
            output.number(row["memory"], 0),
            row["jobid"],
            row["remoteowner"],
            output.run_time(now - row["fetched"]),
            row["last_answer"],
        ]
        for row in rows
    ]
    heading = ("NAME", "STATE", "ACTIVITY", "CPUS", "MEM", "JOB", "OWNER", "SINCE_FETCH", "LAST_ANSWER")
    output.table(heading, lines, right=(3, 4))
    output.echo(f"\n{len(rows)} slots, {sum(1 for row in rows if row['jobid'])} with a job")
