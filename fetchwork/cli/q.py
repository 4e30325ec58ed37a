"""``fetchwork q``: shows the jobs as condor_q does, from the database."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output
from fetchwork.cli.progress import looking
from fetchwork.codes import STATUS_LETTERS, JobStatus

if TYPE_CHECKING:
    from fetchwork.queue.remote import AnySession
    from fetchwork.queue.summaries import Batch, CountOf, TotalsBy
    from fetchwork.queue.views import Json

PROJECTION = [
    "ClusterId",
    "ProcId",
    "Owner",
    "QDate",
    "JobStatus",
    "JobPrio",
    "Cmd",
    "Args",
    "Arguments",
    "HoldReason",
    "EnteredCurrentStatus",
    "RemoteWallClockTime",
    "JobCurrentStartDate",
    "RemoteHost",
    "TransferringInput",
    "TransferringOutput",
    "FetchWorkKillDate",
]

#: JobStatus -> the name of its count in the line of totals
_COUNTED_AS = {
    JobStatus.IDLE: "idle",
    JobStatus.RUNNING: "running",
    JobStatus.REMOVED: "removed",
    JobStatus.COMPLETED: "completed",
    JobStatus.HELD: "held",
    JobStatus.TRANSFERRING_OUTPUT: "running",
    JobStatus.SUSPENDED: "suspended",
}

#: most jobs that one call explains
MOST_ANALYZED = 10


@click.command(cls=options.HTCondorCommand)
@click.argument("jobs", metavar="[JOB|OWNER]...", nargs=-1)
@options.constraint_option
@options.autoformat_note
@click.option("-nobatch", "--nobatch", is_flag=True, help="A line for each job.")
@click.option(
    "-dag", "--dag", "by_dag", is_flag=True, help="A line for each job; those of DAGs below them, by node."
)
@click.option("-hold", "--hold", "held", is_flag=True, help="Held jobs, with the reason.")
@click.option("-run", "--run", "running", is_flag=True, help="Running jobs, with the slot.")
@click.option(
    "-better-analyze",
    "-analyze",
    "--better-analyze",
    "analyzed",
    is_flag=True,
    help="Explain why jobs do not run; without a job, one idle job of each autocluster.",
)
@options.long_option
@click.option("-totals", "--totals", "only_totals", is_flag=True, help="Print only the totals.")
@click.option(
    "--by",
    type=click.Choice(["owner", "autocluster", "queue"]),
    help="Totals by owner, autocluster or queue.",
)
@click.option("-limit", "--limit", type=click.IntRange(0), help="Show at most this many jobs.")
@options.json_option
@options.reading
@click.pass_context
def cli(
    context: click.Context,
    session: AnySession,
    jobs: tuple[str, ...],
    constraints: tuple[str, ...],
    nobatch: bool,
    by_dag: bool,
    held: bool,
    running: bool,
    analyzed: bool,
    only_totals: bool,
    by: TotalsBy | None,
    limit: int | None,
    as_json: bool,
    as_long: bool,
) -> None:
    """Show the jobs in the queue.

    Without options, all jobs that your role may see, one line for each batch or cluster.

    \b
    Example:
      fetchwork q
      fetchwork q 42 -nobatch
      fetchwork q alice -hold
      fetchwork q alice -dag
      fetchwork q -constraint 'RequestMemory > 4096 && JobPrio > 0' -af:j Cmd RequestMemory
      fetchwork q --totals
      fetchwork q --better-analyze 42.0
    """
    at_most = -1 if limit is None else limit
    everything = not jobs and not constraints and not held and not running
    if by is not None and not everything:
        raise click.UsageError("option '--by' can't be combined with jobs or constraints: it counts all jobs")
    if by is not None or (only_totals and everything):
        _totals(session, by, as_json)
        return
    more = ["JobStatus == 5"] * held + ["(JobStatus == 2 || JobStatus == 6 || JobStatus == 7)"] * running
    constraint = options.jobs_constraint(jobs, [*constraints, *more])
    from fetchwork.queue.views import JOBS

    if analyzed:
        _analyze(session, "" if everything else constraint, as_json)
    elif "fetchwork.autoformat" in context.meta:
        letters, attributes = context.meta["fetchwork.autoformat"]
        # the attributes of HTCondor's own making are never expressions
        some = output.projection(attributes, JOBS.columns().keys())
        ads = session.items("jobs", constraint=constraint, projection=some, limit=at_most)
        output.print_attributes(looking(session, ads), letters, attributes)
    elif as_long:
        output.print_long(looking(session, session.items("jobs", constraint=constraint, limit=at_most)))
    elif as_json and not only_totals:
        output.print_json_list(session.items("jobs", constraint=constraint, limit=at_most))
    elif only_totals:
        _summary(session, constraint, as_json)
    else:
        _table(session, constraint, at_most, held, running, by_dag, nobatch or limit is not None)


def _table(
    session: AnySession,
    constraint: str,
    limit: int,
    held: bool,
    running: bool,
    by_dag: bool,
    by_job: bool,
) -> None:
    """Print a line for each job or, without options, for each batch."""
    if by_dag:
        from fetchwork.cli import dagview

        wanted = [*PROJECTION, *dagview.WANTED, "DAGManJobId"]
        asked = session.items("jobs", constraint=constraint, projection=wanted, limit=limit)
        _list(dagview.arranged(asked), held, running)
    elif held or running or by_job:
        asked = session.items("jobs", constraint=constraint, projection=PROJECTION, limit=limit)
        _list(((ad, ad["Owner"]) for ad in asked), held, running)
    else:
        _batches(session.perform("batches", constraint=constraint))


def _totals(session: AnySession, by: TotalsBy | None, as_json: bool) -> None:
    """Print the totals of the whole queue, which are kept."""
    rows = session.perform("totals", by=by)
    if as_json:
        output.print_json(rows)
    elif by is None:
        output.echo(total_line(rows[0]))
    else:
        keys = [key for key in rows[0] if key not in ("completed", "removed")] if rows else [by]
        output.table([key.upper() for key in keys], [[row[key] for key in keys] for row in rows])


def _summary(session: AnySession, constraint: str, as_json: bool) -> None:
    """Print the totals of the selected jobs."""
    counted = session.perform("summary", constraint=constraint)
    counts = {name.lower(): value for name, value in counted.items() if name != "MyType"}
    if as_json:
        output.print_json([counts])
    else:
        output.echo(total_line(counts, counts["completed"]))


def _analyze(session: AnySession, constraint: str, as_json: bool) -> None:
    """Explain the selected jobs; without a constraint, one idle job of each autocluster."""
    from fetchwork.cli import analysis
    from fetchwork.errors import NotFound
    from fetchwork.explain.job import analyze, analyze_idle

    if not constraint:
        results, more = analyze_idle(session, MOST_ANALYZED)
        what = "autoclusters with idle jobs; these are those with most"
    else:
        ids = ["ClusterId", "ProcId"]
        # one more, to know whether there are more
        jobs = list(session.items("jobs", constraint=constraint, projection=ids, limit=MOST_ANALYZED + 1))
        if not jobs:
            raise NotFound("no such job in the queue; 'fetchwork history' has those that left it")
        results = [analyze(session, job["ClusterId"], job["ProcId"]) for job in jobs[:MOST_ANALYZED]]
        more = len(jobs) > MOST_ANALYZED
        what = f"jobs; these are the first {MOST_ANALYZED}"
    if as_json:
        output.print_json([result.to_json() for result in results])
        return
    if not results:
        output.echo("No job is idle.")
    for result in results:
        analysis.show(result)
    if more:
        output.echo(f"There are more {what}.")


def total_line(counts: Mapping[str, int], completed: int = 0) -> str:
    """Return HTCondor's line of totals; ``completed`` counts ended jobs in the queue."""
    removed = counts.get("ending", counts.get("removed", 0))
    return (
        f"Total for query: {counts['jobs']} jobs; {completed} completed, {removed} removed,"
        f" {counts['idle']} idle, {counts['running']} running, {counts['held']} held,"
        f" {counts['suspended']} suspended"
    )


def _list(lines: Iterable[tuple[Json, str]], held: bool, running: bool) -> None:
    """Print jobs, each with the text of its owner column."""
    columns = "HELD_SINCE  HOLD_REASON" if held else "SUBMITTED     RUN_TIME HOST(S)" if running else ""
    output.echo(
        f"{' ID':<9}{'OWNER':<16}{columns}"
        if columns
        else f"{' ID':<9}{'OWNER':<14}{'SUBMITTED':<13}{'RUN_TIME':>11} ST PRI CMD"
    )
    from fetchwork.cli import dagview

    counts = dict.fromkeys(_COUNTED_AS.values(), 0)
    number = 0
    now = time.time()
    for ad, owner in lines:
        number += 1
        counts[_COUNTED_AS[ad["JobStatus"]]] += 1
        job = f"{ad['ClusterId']:>4}.{ad['ProcId']:<3} "
        used = ad.get("RemoteWallClockTime", 0)
        # a job that is being removed or held has a host while it runs
        alive = ad["JobStatus"] in (JobStatus.RUNNING, JobStatus.SUSPENDED) or ad.get("RemoteHost")
        if alive and ad.get("JobCurrentStartDate"):
            used += now - ad["JobCurrentStartDate"]
        if held:
            reason = " ".join(str(ad.get("HoldReason", "")).split())
            output.echo(f"{job}{owner:<16}{output.moment(ad['EnteredCurrentStatus'])}  {reason}")
        elif running:
            output.echo(
                f"{job}{owner:<16}{output.moment(ad['QDate'])} {output.run_time(used):>12}"
                f" {ad.get('RemoteHost', '')}"
            )
        else:
            output.echo(
                f"{job}{owner:<14}{output.moment(ad['QDate']):<13}{output.run_time(used):>11}"
                f" {_letter(ad):<2} {ad.get('JobPrio', 0):<3} {_remaining(ad, now)}{dagview.command_line(ad)}"
            )
    output.echo("\n" + total_line({"jobs": number, **counts}, counts["completed"]))


def _remaining(ad: Json, now: float) -> str:
    """Return how long a job that was told to end may still take."""
    killed_at = ad.get("FetchWorkKillDate")
    return "" if killed_at is None else f"[killed in {max(0, int(killed_at - now))} s] "


def _letter(ad: Json) -> str:
    """Return the job's status as condor_q prints it: for a file transfer, its direction."""
    if ad.get("TransferringOutput"):
        return ">"
    return "<" if ad.get("TransferringInput") else STATUS_LETTERS[ad["JobStatus"]]


def _batches(rows: list[Batch]) -> None:
    lines = []
    for row in rows:
        one_cluster = row["cluster"] == row["last_cluster"]
        first = f"{row['cluster']}.{row['proc']}"
        ids = (
            first
            if row["jobs"] == 1
            else f"{first}-{row['last_proc']}"
            if one_cluster
            else f"{row['cluster']} ... {row['last_cluster']}"
        )
        counts = [row[name] or "_" for name in ("done", "running", "idle", "held")]
        lines.append(
            [row["owner"], row["batch"], output.moment(row["qdate"]), *counts, row["jobs"] + row["done"], ids]
        )
    if lines:
        heading = ["OWNER", "BATCH_NAME", "SUBMITTED", "DONE", "RUN", "IDLE", "HOLD", "TOTAL", "JOB_IDS"]
        output.table(heading, lines, right=(3, 4, 5, 6, 7))
        output.echo()
    names: Sequence[CountOf] = ("jobs", "idle", "running", "removed", "held", "suspended")
    output.echo(total_line({name: sum(row[name] for row in rows) for name in names}))
