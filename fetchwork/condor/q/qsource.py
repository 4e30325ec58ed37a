"""The jobs of a fetchwork queue as condor_q and condor_history ask for them."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fetchwork.condor.arguments import text_of
from fetchwork.condor.invocation import host_name
from fetchwork.condor.printing.jobtable import JobTable
from fetchwork.condor.printing.printedad import PrintedAd
from fetchwork.condor.q.qoptions import QOptions, constraint_of
from fetchwork.condor.q.shown import Shown
from fetchwork.errors import ClassAdError, FetchworkError, one_line

if TYPE_CHECKING:
    from fetchwork.condor.invocation import Invocation
    from fetchwork.queue.reading.views import Json

_STATES = ("Idle", "Running", "Held", "Suspended")
_COUNTED = (*_STATES, "Removed", "Completed", "Jobs")


def of_every_queue(run: Invocation, options: QOptions) -> int:
    """Show the jobs of each database that this machine knows in turn, each as a schedd."""
    from fetchwork.queue import databases
    from fetchwork.queue.everywhere import Everywhere

    known = databases.known()
    if not known:
        return of_queue(run, options, Shown(run, options))
    status = 0
    for database in known:
        # each database gets a copy: showing changes the options
        own = copy.deepcopy(options)
        one = replace(run, connect=functools.partial(Everywhere, [database]))
        status = of_queue(one, own, Shown(one, own), name=database.name) or status
        one.close()
    return status


def of_queue(run: Invocation, options: QOptions, shown: Shown, *, name: str | None = None) -> int:
    """Show the jobs of the queue, which has the host's name or this one; returns the exit status."""
    name = name or host_name()
    address = "<the database>"
    try:
        label = ""
        database = "fetchwork"
        if shown.title or (shown.footer and not options.alone):
            location = run.session.perform("location")
            database, address = location["database"], f"<{location['host']}:{location['port']}>"
        if options.submitters:
            label = f"Submitter: {options.submitters[0]} : {address} : {name}"
        else:
            label = f"Schedd: {name} : {address}"
        if options.stream:
            shown.begin(label)
        totals = take(run, options, shown, database)
        shown.end(label, totals)
    except ClassAdError as problem:
        # the constraint was not an expression, or one that can't be asked for
        text = f'\n-- Parse error in constraint expression "{text_of(options.constraint or "")}"\n'
        return run.failed(text, problem)
    except FetchworkError as problem:
        text = f"\n-- Failed to fetch ads from: {address} : {name}\n{one_line(str(problem))}\n"
        return run.failed(text, problem)
    return 0


def take(run: Invocation, options: QOptions, shown: Shown, database: str = "") -> Json:
    """Hand over the jobs that the options ask for, and return the totals."""
    session = run.session
    everyone = not (options.mine and not options.any_of and not options.ids and run.user != "root")
    constraint = text_of(constraint_of(options))
    whole = None if constraint or options.limit >= 0 else "Allusers" if everyone else "My"
    if not everyone:
        quoted = run.user.replace('"', '\\"')
        mine = f'Owner == "{quoted}"'
        constraint = f"{mine} && {constraint}" if constraint else mine
    of_owners: list[Json] = []
    left: dict[str, int] = {}
    totals: Json = {}
    if shown.footer and not options.alone:
        of_owners = session.perform("totals", by="owner")
        left = {row["owner"]: row["jobs"] for row in session.perform("left")}
        totals = _totals("Allusers", of_owners, sum(left.values()))
    if not everyone:
        own = [row for row in of_owners if row["owner"] == run.user]
        if own or run.user in left:
            totals |= _totals("My", own, left.get(run.user, 0)) | {"MyName": f"{run.user}@{database}"}
    if options.totals and not options.formats:
        if not everyone and constraint == f'Owner == "{run.user}"':
            own = [row for row in of_owners if row["owner"] == run.user]
            return totals | _totals("", own, left.get(run.user, 0))
        return totals | dict(session.perform("summary", constraint=constraint))
    needs = shown.names if options.form is None else _wanted(options.attributes)
    if options.table == "factory":
        # late clusters, in the place of jobs
        ads = session.items("view", name="factories", constraint=constraint or "true")
        shown.add([PrintedAd(ad) for ad in ads])
        return totals
    projection: Sequence[str] = sorted(needs) if needs else ()
    if needs and shown.footer:
        projection = sorted({*needs, "JobStatus", "JobUniverse"})
    if projection and not (options.autoclusters or options.group_by):
        # many jobs at once, where their attributes are literals
        asked = {"constraint": constraint or "true", "projection": list(projection)}
        if shown.batches and options.limit < 0:
            items = session.items("clusters", **asked)
        else:
            items = session.items("job_tables", **asked, limit=options.limit)
        for item in items:
            shown.add_table(JobTable.of_item(item))
        return _agreeing(shown.counts.summary(), totals, whole)
    opts = 0
    if options.autoclusters or options.group_by:
        # QueryOpts of HTCondor's bindings
        opts = 1 if options.autoclusters else 2
        projection = () if options.autoclusters else projection
    jobs = session.items(
        "jobs",
        constraint=constraint or "true",
        projection=list(projection),
        limit=options.limit,
        opts=opts,
    )
    shown.add([PrintedAd({**ad, "Id": n + 1} if options.group_by else ad) for n, ad in enumerate(jobs)])
    return _agreeing(shown.counts.summary(), totals, whole)


def _agreeing(shown: Json, totals: Json, whole: str | None) -> Json:
    """All totals of an answer.

    The kept counters are of a moment before the shown jobs. If those are all jobs of the user or of all users
    (``whole`` is "My" or "Allusers"), the shown jobs count.
    """
    # the counters have jobs of the scheduler universe too
    if whole is None or shown["SchedulerJobs"] or f"{whole}Jobs" not in totals:
        return {**shown, **totals}
    changes = {name: shown[name] - totals[f"{whole}{name}"] for name in _COUNTED}
    for prefix in {whole, "Allusers"}:
        totals |= {f"{prefix}{name}": totals[f"{prefix}{name}"] + change for name, change in changes.items()}
    return {**shown, **totals}


def _wanted(attributes: Sequence[str]) -> set[str] | None:
    return set(attributes) or None


def _totals(prefix: str, rows: Sequence[Mapping[str, int]], completed: int) -> Json:
    """The attributes of a summary ad, of rows of kept counters, and of those that ended and did not leave."""
    counts = {name: sum(int(row[name.lower()]) for row in rows) for name in _STATES}
    counts["Removed"] = sum(int(row["ending"]) for row in rows)
    counts["Completed"] = completed
    counts["Jobs"] = sum(counts.values())
    return {f"{prefix}{name}": number for name, number in counts.items()}
