"""A job's states from its submission to its end or to now, from its runs and its events."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

from fetchwork.codes import EventType, JobStatus
from fetchwork.queue.reading.views import Json, Row

#: the last runs of a job that are read
MOST_RUNS = 200
_WITH_RUN = ("offered", "running", "suspended", "transferring")
ENDS = ("completed", "removed")
#: the states that a job may have without an event that is still kept
_STATES = {JobStatus.COMPLETED: "completed", JobStatus.HELD: "held", JobStatus.REMOVED: "removed"}
#: seconds below which a job is not idle, but on its way from one state to another
_BETWEEN_S = 0.1

RUNS = """
SELECT
    r.runid, r.remotehost, r.host, r.outcome, r.reason, r.exitcode, r.exitsignal, r.chain,
    extract(epoch FROM r.claimed_at)::float8 AS claimed,
    extract(epoch FROM r.started_at)::float8 AS started,
    extract(epoch FROM r.ended_at)::float8 AS ended,
    coalesce((r.ad ->> 'TransferInputSeconds')::float8, 0) AS input_s,
    coalesce((r.ad ->> 'TransferOutputSeconds')::float8, 0) AS output_s
FROM fetchwork.runs AS r
WHERE r.clusterid = %s AND r.procid = %s
ORDER BY r.runid DESC
LIMIT %s
"""


@dataclass(slots=True)
class Phase:
    """A time in one state. ``how`` has its reason or its end, for people."""

    state: str
    begin: float
    end: float = 0.0
    run: Row | None = None
    how: str = ""


def phases(ad: Json, runs: Sequence[Row], events: Sequence[Json]) -> list[Phase]:
    """The states of a job, each from its beginning to the next one's, or to now (epoch seconds)."""
    line: list[Phase] = [Phase("idle", float(ad["QDate"]), how="submitted")]
    for change in sorted([*_of_runs(runs), *_of_events(events)], key=lambda change: change.begin):
        last = line[-1]
        if change.state == "ended":
            # the reason of a hold or an end follows as an event
            if last.state in _WITH_RUN:
                last.how = change.how
                line.append(Phase("idle", change.begin))
        elif change.state != last.state or change.run is not last.run:
            if change.run is None and change.state in _WITH_RUN:
                change.run = last.run
            line.append(change)
    last = line[-1]
    if ad["JobStatus"] == JobStatus.TRANSFERRING_OUTPUT and last.state == "running":
        line.append(Phase("transferring", float(ad["EnteredCurrentStatus"]), run=last.run, how="outputs"))
    elif ad.get("TransferringInput") and last.state == "running":
        last.state, last.how = "transferring", "inputs"
    elif ad["JobStatus"] in _STATES and last.state != _STATES[ad["JobStatus"]]:
        # its events are older than event_days
        state = _STATES[ad["JobStatus"]]
        how = ad.get("HoldReason") if state == "held" else ad.get("RemoveReason")
        line.append(Phase(state, max(last.begin, float(ad["EnteredCurrentStatus"])), how=how or ""))
    for phase, following in itertools.pairwise(line):
        phase.end = max(phase.begin, following.begin)
    line[-1].end = line[-1].begin if line[-1].state in ENDS else max(time.time(), line[-1].begin)
    return [
        phase
        for n, phase in enumerate(line)
        if phase.state != "idle" or n in (0, len(line) - 1) or phase.end - phase.begin > _BETWEEN_S
    ]


def _of_runs(runs: Sequence[Row]) -> list[Phase]:
    changes = []
    for run in runs:
        changes.append(Phase("offered", run["claimed"], run=run))
        started, ended = run["started"], run["ended"]
        if started is not None:
            running = started
            if run["input_s"] and (ended is None or started + run["input_s"] < ended):
                changes.append(Phase("transferring", started, run=run, how="inputs"))
                running += run["input_s"]
            changes.append(Phase("running", running, run=run))
            if ended is not None and running < ended - run["output_s"] < ended:
                changes.append(Phase("transferring", ended - run["output_s"], run=run, how="outputs"))
        if ended is not None:
            changes.append(Phase("ended", ended, run=run, how=outcome(run)))
    return changes


def _of_events(events: Sequence[Json]) -> list[Phase]:
    changes = []
    for event in events:
        state, how = {
            EventType.JOB_HELD: ("held", event.get("HoldReason")),
            EventType.JOB_RELEASED: ("running" if event.get("RunEnding") else "idle", event.get("Reason")),
            EventType.JOB_SUSPENDED: ("suspended", None),
            EventType.JOB_UNSUSPENDED: ("running", None),
            EventType.JOB_ABORTED: ("removed", event.get("Reason")),
            EventType.JOB_TERMINATED: ("completed", _exit(event)),
        }.get(event["EventTypeNumber"], ("", None))
        if state:
            changes.append(Phase(state, event["at"], how=how or ""))
    return changes


def _exit(event: Row) -> str:
    if "TerminatedBySignal" in event:
        return f"signal {event['TerminatedBySignal']}"
    return f"exit code {event['ReturnValue']}" if "ReturnValue" in event else ""


def outcome(run: Row) -> str:
    """The end of a run, for people: 'exit code 3', 'evicted: slot drains'."""
    if run["exitsignal"] is not None:
        end = f"signal {run['exitsignal']}"
    elif run["exitcode"] is not None:
        end = f"exit code {run['exitcode']}"
    else:
        end = ""
    if run["outcome"] != "completed":
        end = ", ".join(filter(None, (str(run["outcome"]).replace("_", " "), end)))
    return ": ".join(filter(None, (end, run["reason"])))
