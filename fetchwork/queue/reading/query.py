"""The answers of ``Schedd.query``, by its options: ads, a summary, autoclusters, groups."""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fetchwork.codes import STATUS_NAMES, JobStatus
from fetchwork.queue.ask import Ask, Found, Memory, Steps, Stream, collected
from fetchwork.queue.reading.ads import ads
from fetchwork.queue.reading.selecting import ConstraintSpec, compiled
from fetchwork.queue.reading.views import JOBS, Json

Group = TypeVar("Group", bound=Hashable)


def query(
    constraint: ConstraintSpec,
    memory: Memory,
    *,
    projection: Sequence[str] = (),
    limit: int = -1,
    opts: int = 0,
    me: str | None = None,
) -> Stream[Json]:
    """Yield the ads that ``Schedd.query`` returns, by its options; ``me``: the asker, if not this account."""
    if not opts:
        yield from ads(JOBS, constraint, memory, projection=projection, limit=limit)
        return
    from fetchwork.classad.ads import quote
    from fetchwork.classad.bindings import QueryOpts
    from fetchwork.queue.constraints.constraint import text_of

    known = QueryOpts.AutoCluster | QueryOpts.GroupBy | QueryOpts.DefaultMyJobsOnly | QueryOpts.SummaryOnly
    # there are no job sets, so a request for their ads adds nothing
    known |= QueryOpts.IncludeClusterAd | QueryOpts.IncludeJobsetAds
    if int(opts) & ~int(known):
        allowed = "AutoCluster, GroupBy, DefaultMyJobsOnly, SummaryOnly, IncludeClusterAd, IncludeJobsetAds"
        raise ValueError(f"query options {int(opts)}: allowed are {allowed}")
    if opts & QueryOpts.DefaultMyJobsOnly:
        constraint = f"Owner == {quote(me or getpass.getuser())} && ({text_of(constraint)})"
    if opts & QueryOpts.SummaryOnly:
        yield Found([(yield from summary(constraint, memory))])
    elif opts & QueryOpts.AutoCluster:
        yield from _limited(autoclusters(constraint, memory), limit)
    elif opts & QueryOpts.GroupBy:
        yield from _limited(groups(constraint, memory, projection), limit)
    else:
        if opts & QueryOpts.IncludeClusterAd:
            yield from _limited(clusters(constraint, memory, projection), -1)
        yield from ads(JOBS, constraint, memory, projection=projection, limit=limit)


_CLUSTERS = """
SELECT DISTINCT ON (clusterid)
    clusterid, owner, qdate, totalsubmitprocs, defaults || cluster_ad AS ad
FROM fetchwork.jobs
ORDER BY clusterid, procid
"""


def clusters(constraint: ConstraintSpec, memory: Memory, projection: Sequence[str]) -> Steps[list[Json]]:
    """The cluster ads that a constraint selects: the shared attributes of a cluster's jobs, no ProcId."""
    from fetchwork.classad.jsonform import from_json

    selection = yield from compiled(JOBS, constraint, memory)
    rows = yield Ask(_CLUSTERS)
    wanted = {name.lower() for name in projection}
    found: list[Json] = []
    for row in rows:
        ad = {
            **row["ad"],
            "ClusterId": row["clusterid"],
            "Owner": row["owner"],
            "QDate": row["qdate"],
            "TotalSubmitProcs": row["totalsubmitprocs"],
            "MyType": "Job",
        }
        if selection.accepts(from_json(ad)):
            found.append({name: value for name, value in ad.items() if not wanted or name.lower() in wanted})
    return found


def _limited(steps: Steps[list[Json]], limit: int) -> Stream[Json]:
    items = yield from steps
    yield Found(items if limit < 0 else items[:limit])


_KEPT_TOTALS = """
SELECT
    sum(idle) AS idle,
    sum(running) AS running,
    sum(held) AS held,
    sum(suspended) AS suspended,
    sum(ending) AS removed,
    (SELECT count(*) FROM fetchwork.jobs WHERE jobstatus = 4) AS completed
FROM fetchwork.totals
"""


def _counted_as(status: int) -> str:
    """The name of the summary's count for a job with this JobStatus, as in a schedd's summary."""
    return STATUS_NAMES[JobStatus.RUNNING if status == JobStatus.TRANSFERRING_OUTPUT else status]


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
        for row in rows:
            counts[_counted_as(row["jobstatus"])] += row["jobs"]
    else:
        for ad in (yield from collected(ads(JOBS, constraint, memory, projection=["JobStatus"]))):
            counts[_counted_as(ad["JobStatus"])] += 1
    (every,) = yield Ask(_KEPT_TOTALS)
    (now,) = yield Ask("SELECT extract(epoch FROM now())::bigint AS seconds")
    everyone = Counter({name.capitalize(): int(value or 0) for name, value in every.items()})
    return {
        "MyType": "Summary",
        "ServerTime": now["seconds"],
        **_counts("", counts),
        **_counts("Allusers", everyone),
        # there is no scheduler universe
        **_counts("Scheduler", Counter()),
        **_counts("AllusersScheduler", Counter()),
    }


_SUMMARY_NAMES = ("Idle", "Running", "Removed", "Completed", "Held", "Suspended")


def _counts(whose: str, counts: Counter[str]) -> Json:
    numbers = {f"{whose}{name}": counts[name] for name in _SUMMARY_NAMES}
    return {f"{whose}Jobs": sum(counts.values()), **numbers}


_AUTOCLUSTERS = """
SELECT autoclusterid, owner, submitter, ad
FROM fetchwork.autoclusters
WHERE autoclusterid = ANY(%s)
ORDER BY autoclusterid
"""


def autoclusters(constraint: ConstraintSpec, memory: Memory) -> Steps[list[Json]]:
    """An ad for each autocluster with jobs: the attributes that matching reads, JobCount and JobIds."""
    selection = yield from compiled(JOBS, constraint, memory)
    members: dict[int, _Members] = {}
    if selection.exact:
        rows = yield Ask(
            f"""
            SELECT
                autoclusterid,
                count(*) AS jobs,
                min(ARRAY[clusterid, procid]) AS first,
                max(ARRAY[clusterid, procid]) AS last
            FROM fetchwork.jobs
            WHERE {selection.sql}
            GROUP BY autoclusterid
            """,  # noqa: S608 - a compiled constraint
            selection.params,
        )
        for row in rows:
            members[row["autoclusterid"]] = _Members(row["jobs"], tuple(row["first"]), tuple(row["last"]))
    else:
        wanted = ["AutoClusterId", "ClusterId", "ProcId"]
        for job in (yield from collected(ads(JOBS, constraint, memory, projection=wanted))):
            _count(members, job["AutoClusterId"], job)
    rows = yield Ask(_AUTOCLUSTERS, [list(members)])
    return [
        {
            **row["ad"],
            "AutoClusterId": row["autoclusterid"],
            "Owner": row["owner"],
            "Submitter": row["submitter"],
            **members[row["autoclusterid"]].ad(),
        }
        for row in rows
    ]


@dataclass
class _Members:
    """The number of jobs of an autocluster or a group, and its first and last, by cluster and process."""

    jobs: int
    first: tuple[int, ...]
    last: tuple[int, ...]

    def ad(self) -> Json:
        """JobCount, and JobIds in a schedd's form: both of two jobs, the first and the last of more."""
        ends = [f"{cluster}.{proc}" for cluster, proc in dict.fromkeys([self.first, self.last])]
        separator = " ... " if self.jobs > 2 else " "
        return {"JobCount": self.jobs, "JobIds": separator.join(ends), "MyType": "AutoCluster"}


def _count(members: dict[Group, _Members], group: Group, job: Json) -> None:
    """Count a job of a group; jobs come in the order of their ids."""
    id = (job["ClusterId"], job["ProcId"])
    mine = members.setdefault(group, _Members(0, id, id))
    mine.jobs += 1
    mine.last = id


def groups(constraint: ConstraintSpec, memory: Memory, projection: Sequence[str]) -> Steps[list[Json]]:
    """An ad for each distinct combination of the projection's values, with JobCount and JobIds."""
    if not projection:
        raise ValueError("GroupBy groups by the attributes of the projection, which is empty")
    members: dict[tuple[tuple[str, str], ...], _Members] = {}
    samples: dict[tuple[tuple[str, str], ...], Json] = {}
    wanted = {name.lower() for name in projection}
    stream = ads(JOBS, constraint, memory, projection=[*projection, "ClusterId", "ProcId"])
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
        for job in step.items:
            ad = {name: value for name, value in job.items() if name.lower() in wanted}
            key = tuple(sorted((name.lower(), repr(value)) for name, value in ad.items()))
            _count(members, key, job)
            samples.setdefault(key, ad)
    return [{**samples[key], "Id": n, **mine.ad()} for n, (key, mine) in enumerate(members.items(), 1)]
