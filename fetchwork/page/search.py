"""Jobs that a constraint selects, a page at a time, and never for long.

What SQL decides of a constraint is an index or a scan in the database; the rest is evaluated on the ads that
are left, which takes seconds for a million. So a search stops after ``BUDGET_S``, says how many ads it has
looked at, and gives the key at which the next one goes on.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass

from fetchwork.classad.constraint import Constraint, joined
from fetchwork.classad.jsonform import from_json
from fetchwork.db import calls
from fetchwork.queue.ask import Ask, Memory, Steps, collected
from fetchwork.queue.reading import ads
from fetchwork.queue.selecting import MAX_ID, compiled
from fetchwork.queue.session import Session
from fetchwork.queue.views import JOBS, Json

#: seconds after which a search says how far it has come
BUDGET_S = 1.0
#: jobs of the queue between two looks at the clock
STRIDE = 2000

Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Found:
    """A page of a search. ``after`` is the key of its end, None where there is no more."""

    jobs: list[Json]
    after: str | None
    looked_at: int
    #: more may be found, the time was over before the page was full
    unfinished: bool


def search(
    session: Session,
    constraint: str,
    *,
    after: str | None = None,
    limit: int = 50,
    projection: Sequence[str] = (),
) -> Found:
    """The next jobs behind ``after`` ('42.0'); raises ValueError for a constraint or a key that is none."""
    return session.run(_search(constraint, _key(after), limit, projection))


def _key(after: str | None) -> Key:
    if not after:
        return -1, -1
    cluster, _, proc = after.partition(".")
    if not (cluster.isascii() and cluster.isdigit() and proc.isascii() and proc.isdigit()):
        raise ValueError(f"after is '{after}'; allowed: the key of a page, such as '42.0'")
    return int(cluster), int(proc)


def _search(constraint: str, key: Key, limit: int, projection: Sequence[str]) -> Steps[Found]:
    memory = Memory()
    selection = yield from compiled(JOBS, constraint, memory)
    if selection.exact:
        # one more than wanted says whether there is more
        behind = f"(ClusterId > {key[0]} || (ClusterId == {key[0]} && ProcId > {key[1]}))"
        from_here = dataclasses.replace(JOBS, beginning=key)
        some = projection and [*projection, "ClusterId", "ProcId"]
        both = joined([constraint, behind]) if constraint.strip() else behind
        jobs = yield from collected(ads(from_here, both, memory, projection=some, limit=limit + 1))
        more = len(jobs) > limit
        return Found(jobs[:limit], _key_of(jobs[limit - 1]) if more else None, len(jobs[:limit]), False)
    return (yield from _looked_through(selection, key, limit, projection))


def _looked_through(selection: Constraint, key: Key, limit: int, projection: Sequence[str]) -> Steps[Found]:
    """Evaluate the constraint on one stretch of the queue after the other."""
    deadline = time.monotonic() + BUDGET_S
    wanted = {name.lower() for name in [*projection, "ClusterId", "ProcId"]} if projection else set()
    found: list[Json] = []
    looked_at = 0
    while True:
        edge = yield calls.job_edge(cluster=key[0], proc=key[1], n=STRIDE)
        until = (MAX_ID, MAX_ID) if edge is None else dataclasses.astuple(edge)
        page = f"""
            SELECT {JOBS.all_columns}
            FROM {JOBS.source}
            WHERE {selection.sql}
                AND (clusterid, procid) > (%s, %s) AND (clusterid, procid) <= (%s, %s)
            ORDER BY clusterid, procid
        """  # noqa: S608 - a compiled constraint
        rows = yield Ask(page, [*selection.params, *key, *until])
        for row in rows:
            ad = JOBS.ad(row)
            looked_at += 1
            if not selection.accepts(from_json(ad)):
                continue
            if len(found) == limit:
                return Found(found, _key_of(found[-1]), looked_at, False)
            found.append({name: ad[name] for name in ad if name.lower() in wanted} if wanted else ad)
        if edge is None:
            return Found(found, None, looked_at, False)
        key = until
        if time.monotonic() > deadline:
            return Found(found, f"{key[0]}.{key[1]}", looked_at, True)


def _key_of(ad: Json) -> str:
    return f"{ad['ClusterId']}.{ad['ProcId']}"
