"""Queries of the pages and the API: functions of a session, run by a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fetchwork.classad.bindings import JobAction
from fetchwork.codes import JobStatus
from fetchwork.db.calls import administration
from fetchwork.explain.job import analyze
from fetchwork.page.acting import ActingSession
from fetchwork.page.problem import Problem
from fetchwork.page.search import Page, in_order, search
from fetchwork.page.tables import Column
from fetchwork.queue import changing
from fetchwork.queue.ask import Memory, collected
from fetchwork.queue.events.reader import Reader
from fetchwork.queue.outputs import output
from fetchwork.queue.reading import summaries
from fetchwork.queue.reading.ads import ads
from fetchwork.queue.reading.poolviews import GROUPS, HOSTS, LIMITS, QUEUES, SUBMITTERS
from fetchwork.queue.reading.query import summary
from fetchwork.queue.reading.selecting import id_of
from fetchwork.queue.reading.views import HISTORY, JOBS, RUNS, SLOTS, Json, View
from fetchwork.queue.submitting import submission

LONG = {"jobs": JOBS, "history": HISTORY, "runs": RUNS}
VIEWS = {
    "slots": SLOTS,
    "hosts": HOSTS,
    "queues": QUEUES,
    "submitters": SUBMITTERS,
    "limits": LIMITS,
    "groups": GROUPS,
}
ACTIONS = {
    "hold": JobAction.Hold,
    "release": JobAction.Release,
    "remove": JobAction.Remove,
    "vacate": JobAction.Vacate,
    "suspend": JobAction.Suspend,
    "continue": JobAction.Continue,
}
#: events of a job that its page shows
EVENTS = 200
#: held jobs that are read to count hold reasons
MANY_HELD = 20_000
_HELD = """
SELECT
    h.holdreasoncode AS code, h.holdreasonsubcode AS subcode, count(*) AS jobs,
    mode() WITHIN GROUP (ORDER BY h.holdreason) AS reason
FROM (
    SELECT j.holdreasoncode, j.holdreasonsubcode, j.holdreason
    FROM fetchwork.jobs AS j
    WHERE j.jobstatus = 5
    LIMIT %s
) AS h
GROUP BY h.holdreasoncode, h.holdreasonsubcode
ORDER BY jobs DESC, code, subcode
LIMIT 10
"""


def overview(session: ActingSession) -> Json:
    """Totals, queues, slots, submitters with most jobs, and requests of idle jobs."""
    (totals,) = session.run(summaries.totals())
    return {
        "totals": totals,
        "owners": sorted(session.run(summaries.totals("owner")), key=lambda row: -row["jobs"])[:20],
        "queues": queues(session),
        "slots": session.run(summaries.slot_states()),
        "hosts": session.run(summaries.host_counts()),
        "demand": session.run(summaries.demand())[:10],
    }


def held(session: ActingSession) -> list[Json]:
    """Hold reasons: by code, with the commonest reason, of ``MANY_HELD`` at most."""
    return [dict(row) for row in session.database.query(_HELD, [MANY_HELD])]


def page(
    session: ActingSession,
    *,
    of: str,
    constraint: str,
    after: str | None,
    limit: int,
    projection: Sequence[str] = (),
) -> Page:
    """A page of a long view that a constraint selects: jobs, history, runs."""
    return search(session, LONG[of], constraint, after=after, limit=limit, projection=projection)


def sorted_page(
    session: ActingSession,
    *,
    of: str,
    constraint: str,
    column: Column,
    down: bool,
    most: int,
    after: str | None,
    limit: int,
) -> Page:
    """A page of jobs or history in a column's order; in the view's own, and so marked, if they are many."""
    # a cursor of the view's own order, if it was used for the pages before
    found = None
    if "~" not in (after or ""):
        found = in_order(
            session, LONG[of], constraint, column, down=down, most=most, after=after, limit=limit
        )
        after = None if found is None else after
    return found or replace(search(session, LONG[of], constraint, after=after, limit=limit), sorted=False)


def count(session: ActingSession, *, constraint: str) -> Json:
    """The number of jobs that a constraint selects, by state."""
    return session.run(summary(constraint, Memory()))


def job(session: ActingSession, *, job: str) -> Json:
    """A job with its runs, its events and the end of its output; raises NotFound."""
    cluster, proc = _one(job)
    here = f"ClusterId == {cluster} && ProcId == {proc}"
    found = _all(session, JOBS, here) or _all(session, HISTORY, here)
    if not found:
        raise Problem(
            404, "not found", f"job '{job}' is neither in the queue nor in its history, or not yours"
        )
    (ad,) = found
    events = session.run(collected(Reader(job=job).events(0)))
    return {
        "ad": ad,
        "in_queue": ad["JobStatus"] not in (JobStatus.COMPLETED,) and "CompletionDate" not in ad,
        "runs": _all(session, RUNS, here),
        "events": [
            {"cursor": event.cursor, "at": event.epoch, **event.to_json()} for event in events[-EVENTS:]
        ],
        "output": _output(session, cluster, proc),
    }


def live_output(
    session: ActingSession, *, job: str, run: int | None, stdout_at: int | None, stderr_at: int | None
) -> Json | None:
    """A running job's further output; its host is asked for it for some seconds."""
    cluster, proc = _one(job)
    return session.run(output.live_output(cluster, proc, run, stdout_at, stderr_at))


def why(session: ActingSession, *, job: str) -> Json:
    """Why an idle job does not run."""
    return analyze(session, *_one(job)).to_json()


def listed(session: ActingSession, *, of: str, constraint: str = "", limit: int = -1) -> list[Json]:
    """The ads of a short view, one of VIEWS; the first ones with a limit."""
    return _all(session, VIEWS[of], constraint, limit)


def queues(session: ActingSession) -> list[Json]:
    """The queues, each with its state for people as ``QueueState``."""
    return [{**ad, "QueueState": _queue_state(ad)} for ad in _all(session, QUEUES)]


def _queue_state(ad: Json) -> str:
    states = [state for state in ("Paused", "Draining") if ad[state]]
    return ", ".join(states).lower() or "open"


def totals(session: ActingSession, *, by: summaries.TotalsBy | None) -> list[Json]:
    """Counts of jobs, from counters that the database keeps."""
    return session.run(summaries.totals(by))


def demand(session: ActingSession) -> list[summaries.DemandLine]:
    """The requests of idle jobs."""
    return session.run(summaries.demand())


def events(session: ActingSession, *, after: str, job: str | None) -> Json:
    """The events behind a cursor, and the cursor to go on with."""
    if job is not None:
        id_of(job)
    reader = Reader(after=after, job=job)
    found = session.run(collected(reader.events(0)))
    shown = [{"cursor": event.cursor, "at": event.epoch, **event.to_json()} for event in found[:5000]]
    if len(shown) < len(found):
        return {"events": shown, "cursor": shown[-1]["cursor"]}
    return {"events": shown, "cursor": str(reader.position) if reader.position else after}


def act(
    session: ActingSession, *, action: str, jobs: list[str] | None, constraint: str | None, reason: str | None
) -> Json:
    """Act on jobs, named by id or by a constraint."""
    spec: list[str] | str = jobs if jobs is not None else constraint or ""
    return session.run(changing.act(ACTIONS[action], spec, Memory(), reason))


def these(jobs: Sequence[str]) -> str:
    """The constraint of jobs and clusters by their ids; raises ValueError."""
    ids = map(id_of, jobs)
    return " || ".join(
        f"ClusterId == {cluster}" + ("" if proc is None else f" && ProcId == {proc}") for cluster, proc in ids
    )


def edit(session: ActingSession, *, job: str, changes: Mapping[str, object]) -> int:
    """Change attributes of a job or a cluster; values are in HTCondor's JSON form."""
    id_of(job)
    return session.run(changing.edit([job], changes, Memory()))


def set_queue(session: ActingSession, *, name: str, changes: Mapping[str, bool]) -> None:
    """Pause, drain, resume or open an existing queue."""
    if not any(ad["Name"] == name for ad in _all(session, QUEUES)):
        raise Problem(404, "not found", f"there is no queue '{name}'")
    with session.writing():
        session.database.run(administration.set_queue(name=name, changes=dict(changes)))


def set_group(session: ActingSession, *, name: str, changes: Json) -> Json:
    """Make an accounting group with a quota, or change one; return its ad."""
    with session.writing():
        session.database.run(administration.set_group(name=name, changes=changes))
    found = [ad for ad in _all(session, GROUPS) if ad["Name"].lower() == name.lower()]
    if not found:
        raise Problem(404, "not found", f"group '{name}' was removed meanwhile")
    return found[0]


def remove_group(session: ActingSession, *, name: str) -> int:
    """Remove an accounting group and those below it; return their number."""
    with session.writing():
        return session.database.run(administration.remove_group(name=name))


def submit(
    session: ActingSession, *, common: Json, own: list[Json], key: str | None, environment: Mapping[str, str]
) -> Json:
    """Submit jobs, given as ads in HTCondor's JSON form: the common attributes, and each job's own.

    ``key``, ``environment``: as of ``submission.put``.
    """
    with session.writing():
        # a session that acts for an account submits as that account, unless the ad names another, which is
        # refused
        owner = {} if session.account is None else {"Owner": session.account}
        ads = [{**owner, **common, **each} for each in own]
        # the files of this machine are not the person's
        result = submission.put(session.database, ads, reads_files=False, key=key, environment=environment)
    return {"cluster": result.cluster(), "first_proc": result.first_proc(), "num_procs": result.num_procs()}


def _all(session: ActingSession, view: View, constraint: str = "", limit: int = -1) -> list[Json]:
    return session.run(collected(ads(view, constraint, Memory(), limit=limit)))


def _one(job: str) -> tuple[int, int]:
    cluster, proc = id_of(job)
    if proc is None:
        raise ValueError(f"'{job}' is not a job; allowed: cluster and process, such as '42.0'")
    return cluster, proc


def _output(session: ActingSession, cluster: int, proc: int) -> Json | None:
    kept = session.run(output.kept_output(cluster, proc))
    if kept is None:
        return None
    return {"run_id": kept.run_id, "stdout": kept.stdout, "stderr": kept.stderr}
