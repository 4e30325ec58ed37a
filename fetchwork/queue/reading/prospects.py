"""Facts about waiting jobs and slots, by which ``fetchwork.explain`` finds out why a job does not run.

Rows are JSON, because an access point may stand between the database and the program that judges: the asking
account evaluates an ad, at its own cost.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime

from fetchwork.db.calls import matching, reading
from fetchwork.db.calls.call import Record
from fetchwork.queue.ask import Ask, Found, Memory, Steps, Stream
from fetchwork.queue.reading.views import Json

#: slots in one statement
_SLOTS_AT_ONCE = 500

_JOB = """
SELECT j.jobstatus AS status, j.owner, j.holdreason AS hold_reason, j.remotehost AS slot,
    j.lastreason AS last_reason, a.ad
FROM fetchwork.jobs AS j
JOIN fetchwork.autoclusters AS a ON a.autoclusterid = j.autoclusterid
WHERE j.clusterid = %s AND j.procid = %s
"""

_SLOTS = """
SELECT s.name, s.machine, s.state, s.activity, s.slottype AS slot_type, s.runid AS run_id,
    s.fetchworkqueues AS queues, s.ad,
    h.alive, h.bad_reason,
    h.black_hole_since_at IS NOT NULL OR %s = ANY(h.failing_owners) AS black_hole,
    r.refusals, extract(epoch FROM r.rest_until_at)::float8 AS rest_until,
    extract(epoch FROM now() - s.last_fetch_at)::float8 AS asked_s_ago
FROM fetchwork.slots AS s
JOIN fetchwork.hosts AS h ON h.machine = s.machine
LEFT JOIN fetchwork.rests AS r
    ON r.machine = s.machine AND r.name = s.name AND r.autoclusterid = %s AND r.rest_until_at > now()
WHERE s.ad IS NOT NULL AND s.slottype IS DISTINCT FROM 'Dynamic' AND (s.machine, s.name) > (%s, %s)
ORDER BY s.machine, s.name
LIMIT %s
"""

_SLOT = """
SELECT s.name, s.machine, s.state, s.activity, s.slottype AS slot_type, s.fetchworkqueues AS queues,
    s.jobid AS job, s.ad,
    extract(epoch FROM now() - s.last_fetch_at)::float8 AS asked_s_ago,
    h.alive, h.black_hole_since_at IS NOT NULL AS black_hole, h.bad_reason
FROM fetchwork.slots AS s
JOIN fetchwork.hosts AS h ON h.machine = s.machine
WHERE s.name = %s OR s.machine = %s OR split_part(s.name, '@', 1) || '@' || split_part(s.machine, '.', 1) = %s
ORDER BY s.name, s.last_fetch_at DESC
"""

_GROUPS = """
SELECT name, parent, acceptsurplus AS accept_surplus, autoregroup, subtreequota AS subtree_quota,
    effectivequota AS quota, weightedinuse AS in_use, subtreeinuse AS subtree_in_use, requested
FROM fetchwork.groups
"""

_AUTOCLUSTERS = """
SELECT autoclusterid AS autocluster_id, submitter, owner, fetchworkqueue AS queue, ad
FROM fetchwork.autoclusters
WHERE autoclusterid = ANY (%s)
"""

_RESTING = """
SELECT autoclusterid
FROM fetchwork.rests
WHERE machine = %s AND name = %s AND rest_until_at > now()
"""

_MOST_IDLE = """
SELECT autoclusterid AS autocluster_id, idle::bigint AS idle
FROM fetchwork.totals
WHERE idle > 0
ORDER BY idle DESC, autoclusterid
LIMIT %s
"""

_IDLE = """
SELECT
    t.autoclusterid AS autocluster_id, t.idle::bigint AS idle,
    a.submitter, a.owner, a.fetchworkqueue AS queue, a.ad,
    coalesce(a.requestcpus, 1)::float8 AS cpus, coalesce(a.requestmemory, 1)::float8 AS memory_mib,
    coalesce(a.requestdisk, 1)::float8 AS disk_kib, coalesce(a.requestgpus, 0)::float8 AS gpus
FROM fetchwork.totals AS t
JOIN fetchwork.autoclusters AS a ON a.autoclusterid = t.autoclusterid
WHERE t.idle > 0 AND (%s::text [] IS NULL OR t.fetchworkqueue = ANY (%s::text []))
"""


def prospects(memory: Memory, *, cluster: int, proc: int) -> Steps[Json | None]:
    """A job, its prospects, and whether offers are stopped; None if the caller may not see the job."""
    jobs = yield Ask(_JOB, [cluster, proc])
    found = yield matching.prospects(cluster=cluster, proc=proc)
    if not jobs or found is None:
        return None
    (unsettled,) = yield Ask("SELECT EXISTS (SELECT FROM fetchwork.unsettled) AS waits")
    return {"job": dict(jobs[0]), "prospects": _fields(found), "unsettled": unsettled["waits"]}


def first_idle(memory: Memory, *, at_most: int) -> Steps[list[Json]]:
    """An idle job of each of the autoclusters with most idle jobs, and the number of their idle jobs."""
    # some may have no waiting job: all their jobs are being offered
    counts = yield Ask(_MOST_IDLE, [2 * at_most])
    jobs = {row["autocluster_id"]: row["idle"] for row in counts}
    found = yield reading.first_idle(autoclusters=list(jobs))
    first = [{**_fields(one), "idle": jobs[one.autocluster_id]} for one in found]
    first.sort(key=lambda one: (-one["idle"], one["cluster_id"], one["proc_id"]))
    return first[:at_most]


def known_slots(memory: Memory, *, owner: str, autocluster: int) -> Stream[Json]:
    """Static and partitionable slots, each with its host and its backoff from jobs like this one."""
    last = ("", "")
    while True:
        rows = yield Ask(_SLOTS, [owner, autocluster, *last, _SLOTS_AT_ONCE])
        yield Found([dict(row) for row in rows])
        if len(rows) < _SLOTS_AT_ONCE:
            return
        last = (rows[-1]["machine"], rows[-1]["name"])


def slots_named(memory: Memory, *, name: str) -> Steps[list[Json]]:
    """The slots that a name stands for: a slot's name, a machine's, or a slot's with a short machine name."""
    return [dict(row) for row in (yield Ask(_SLOT, [name, name, name]))]


def waiting(memory: Memory, *, queues: Sequence[str] | None = None) -> Steps[Json]:
    """The autoclusters that wait in some queues, and the use of each submitter and accounting group."""
    autoclusters = yield matching.waiting_autoclusters(queues=queues)
    shares = yield matching.shares()
    groups = yield Ask(_GROUPS, [])
    return {
        "autoclusters": [_fields(one) for one in autoclusters],
        "shares": [_fields(one) for one in shares],
        "groups": [dict(row) for row in groups],
    }


def seen_by_slot(memory: Memory, *, machine: str, slot: str, autoclusters: Sequence[int]) -> Steps[Json]:
    """The given autoclusters, and those that a slot backs off from."""
    rows = yield Ask(_AUTOCLUSTERS, [list(autoclusters)])
    resting = yield Ask(_RESTING, [machine, slot])
    return {"autoclusters": [dict(row) for row in rows], "resting": [row["autoclusterid"] for row in resting]}


def idle(memory: Memory, *, queues: Sequence[str] | None = None) -> Steps[list[Json]]:
    """The autoclusters with idle jobs in some queues, and their requests."""
    named = None if queues is None else list(queues)
    return [dict(row) for row in (yield Ask(_IDLE, [named, named]))]


def _fields(record: Record) -> Json:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in dataclasses.asdict(record).items()
    }
