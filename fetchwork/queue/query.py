"""The answers of ``Schedd.query``, by its options: ads, a summary, autoclusters, groups."""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Sequence

from fetchwork.codes import STATUS_NAMES
from fetchwork.queue.ask import Ask, Found, Memory, Steps, Stream, collected
from fetchwork.queue.reading import ads
from fetchwork.queue.selecting import ConstraintSpec, compiled
from fetchwork.queue.views import JOBS, Json


def query(
    constraint: ConstraintSpec,
    memory: Memory,
    *,
    projection: Sequence[str] = (),
    limit: int = -1,
    opts: int = 0,
) -> Stream[Json]:
    """Yield the ads that ``Schedd.query`` returns, by its options."""
    if not opts:
        yield from ads(JOBS, constraint, memory, projection=projection, limit=limit)
        return
    from fetchwork.classad.ads import quote
    from fetchwork.classad.bindings import QueryOpts
    from fetchwork.classad.constraint import text_of

    known = QueryOpts.AutoCluster | QueryOpts.GroupBy | QueryOpts.DefaultMyJobsOnly | QueryOpts.SummaryOnly
    if opts & ~known:
        raise ValueError(
            f"query options {int(opts)}: allowed are AutoCluster, GroupBy, DefaultMyJobsOnly, SummaryOnly"
        )
    if opts & QueryOpts.DefaultMyJobsOnly:
        constraint = f"Owner == {quote(getpass.getuser())} && ({text_of(constraint)})"
    if opts & QueryOpts.SummaryOnly:
        yield Found([(yield from summary(constraint, memory))])
    elif opts & QueryOpts.AutoCluster:
        yield from _limited(autoclusters(constraint, memory), limit)
    elif opts & QueryOpts.GroupBy:
        yield from _limited(groups(constraint, memory, projection), limit)
    else:
        yield from ads(JOBS, constraint, memory, projection=projection, limit=limit)


def _limited(steps: Steps[list[Json]], limit: int) -> Stream[Json]:
    items = yield from steps
    yield Found(items if limit < 0 else items[:limit])


_KEPT_TOTALS = """
SELECT
    sum(idle) AS idle,
    sum(running) AS running,
    sum(held) AS held,
    sum(suspended) AS suspended,
    sum(ending) AS removed
FROM fetchwork.totals
"""


def summary(constraint: ConstraintSpec, memory: Memory) -> Steps[Json]:
    """Counts of the jobs that a constraint selects, as the summary ad that ends a schedd's answer."""
    counts: Counter[str] = Counter()
    selection = yield from compiled(JOBS, constraint, memory)
    if selection.sql == "true" and selection.exact:
        rows = yield Ask(_KEPT_TOTALS)
        counts.update({name.capitalize(): int(value or 0) for name, value in rows[0].items()})
    elif selection.exact:
        rows = yield Ask(
            f"""
            SELECT jobstatus, count(*) AS jobs
            FROM fetchwork.jobs
            WHERE {selection.sql}
            GROUP BY jobstatus
            """,  # noqa: S608 - a compiled constraint
            selection.params,
        )
        counts.update({STATUS_NAMES[row["jobstatus"]]: row["jobs"] for row in rows})
    else:
        for ad in (yield from collected(ads(JOBS, constraint, memory, projection=["JobStatus"]))):
            counts[STATUS_NAMES[ad["JobStatus"]]] += 1
    names = ("Idle", "Running", "Removed", "Completed", "Held", "Suspended")
    return {"MyType": "Summary", "Jobs": sum(counts.values()), **{name: counts[name] for name in names}}


_AUTOCLUSTERS = """
SELECT autoclusterid, owner, submitter, ad
FROM fetchwork.autoclusters
WHERE autoclusterid = ANY(%s)
ORDER BY autoclusterid
"""


def autoclusters(constraint: ConstraintSpec, memory: Memory) -> Steps[list[Json]]:
    """An ad for each autocluster with jobs: the attributes that matching looks at, and JobCount."""
    selection = yield from compiled(JOBS, constraint, memory)
    if selection.sql == "true" and selection.exact:
        rows = yield Ask("SELECT autoclusterid, jobs FROM fetchwork.totals WHERE jobs > 0")
        counts = Counter({row["autoclusterid"]: int(row["jobs"]) for row in rows})
    elif selection.exact:
        rows = yield Ask(
            f"""
            SELECT autoclusterid, count(*) AS jobs
            FROM fetchwork.jobs
            WHERE {selection.sql}
            GROUP BY autoclusterid
            """,  # noqa: S608 - a compiled constraint
            selection.params,
        )
        counts = Counter({row["autoclusterid"]: row["jobs"] for row in rows})
    else:
        jobs = yield from collected(ads(JOBS, constraint, memory, projection=["AutoClusterId"]))
        counts = Counter(job["AutoClusterId"] for job in jobs)
    rows = yield Ask(_AUTOCLUSTERS, [list(counts)])
    return [
        {
            **row["ad"],
            "AutoClusterId": row["autoclusterid"],
            "Owner": row["owner"],
            "Submitter": row["submitter"],
            "JobCount": counts[row["autoclusterid"]],
            "MyType": "AutoCluster",
        }
        for row in rows
    ]


def groups(constraint: ConstraintSpec, memory: Memory, projection: Sequence[str]) -> Steps[list[Json]]:
    """An ad for each distinct combination of the projection's values, and JobCount."""
    if not projection:
        raise ValueError("GroupBy groups by the attributes of the projection, which is empty")
    counts: Counter[tuple[tuple[str, str], ...]] = Counter()
    samples: dict[tuple[tuple[str, str], ...], Json] = {}
    stream = ads(JOBS, constraint, memory, projection=projection)
    answer: object = None
    while True:
        try:
            step = stream.send(answer)
        except StopIteration:
            break
        if not isinstance(step, Found):
            answer = yield step
            continue
        answer = None
        for ad in step.items:
            key = tuple(sorted((name.lower(), repr(value)) for name, value in ad.items()))
            counts[key] += 1
            samples.setdefault(key, ad)
    return [{**samples[key], "JobCount": jobs, "MyType": "AutoCluster"} for key, jobs in counts.items()]
