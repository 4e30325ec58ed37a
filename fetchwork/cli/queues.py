"""``fetchwork queues``: the queues of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession


@click.command()
@click.argument("name", required=False)
@click.option(
    "--pause/--resume", "paused", default=None, help="Stop offering its jobs to slots, or offer them again."
)
@click.option("--drain/--open", "draining", default=None, help="Refuse new jobs, or accept them again.")
@click.option(
    "--max-running", metavar="N", help="Run at most this many of its jobs at once; 'none' for no limit."
)
@click.option(
    "--preempt-ratio",
    metavar="X",
    help="A waiting job whose submitter's priority is X times better may end a running one; 'none'"
    " turns this off.",
)
@click.option(
    "--preempt-prio",
    metavar="N",
    help="A waiting job whose JobPrio is N higher may end a running one of its submitter; 'none'"
    " turns this off.",
)
@options.json_option
@options.performing
def cli(
    session: AnySession,
    name: str | None,
    paused: bool | None,
    draining: bool | None,
    max_running: str | None,
    preempt_ratio: str | None,
    preempt_prio: str | None,
    as_json: bool,
) -> None:
    """Show, make and change queues.

    A host's keyword says which queues its slots draw from. A queue NAME that does not exist yet is created.

    \b
    Example:
      fetchwork queues
      fetchwork queues urgent
      fetchwork queues default --pause
      fetchwork queues urgent --max-running 100
    """
    changes: dict[str, float | bool | None] = {}
    if paused is not None:
        changes["paused"] = paused
    if draining is not None:
        changes["draining"] = draining
    if max_running is not None:
        changes["max_running"] = options.number_or_none("--max-running", max_running)
    if preempt_prio is not None:
        changes["preempt_prio"] = options.number_or_none("--preempt-prio", preempt_prio)
    if preempt_ratio is not None:
        changes["preempt_ratio"] = options.number_or_none("--preempt-ratio", preempt_ratio, whole=False)
    if changes and name is None:
        raise click.UsageError("no queue named")
    from fetchwork.db.calls import administration

    queues = list(session.items("view", name="queues"))
    if name is not None and (changes or not any(ad["Name"] == name for ad in queues)):
        options.database_of(session).run(administration.set_queue(name=name, changes=changes))
        queues = list(session.items("view", name="queues"))
    queues = [ad for ad in queues if name in (None, ad["Name"])]
    if as_json:
        output.print_json(queues)
        return
    cells = [
        [
            ad["Name"],
            " ".join(word for word in ("paused", "draining") if ad[word.capitalize()]) or "open",
            ad["IdleJobs"],
            ad["RunningJobs"],
            ad["HeldJobs"],
            ad.get("MaxRunning"),
            ad.get("PreemptRatio"),
            ad.get("PreemptPrio"),
        ]
        for ad in queues
    ]
    heading = ("QUEUE", "STATE", "IDLE", "RUN", "HOLD", "MAX_RUN", "PREEMPT_RATIO", "PREEMPT_PRIO")
    output.table(heading, cells, right=(2, 3, 4, 5, 6, 7))
