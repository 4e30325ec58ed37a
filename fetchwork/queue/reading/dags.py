"""DAGs: the ads of their jobs, the states of their nodes' jobs, and the DAGs inside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from fetchwork.codes import JobStatus, Universe
from fetchwork.db.calls import reading
from fetchwork.db.calls.reading import DagCluster, SchedulerCluster
from fetchwork.queue.ask import Ask, Memory, Steps, Stream, collected
from fetchwork.queue.reading.ads import ads
from fetchwork.queue.reading.views import HISTORY, JOBS, Json

#: the most DAGs inside a DAG that are shown, and the most that are asked for at once
MOST_INNER = 100
_OF_DAG = f"ClusterId == {{}} && ProcId == 0 && JobUniverse == {Universe.SCHEDULER}"


class DagView(TypedDict):
    """A DAG's job, and the numbers of its nodes' jobs in the queue by state."""

    ad: Json
    #: the DAG's job has left the queue, or its leave_in_queue keeps it there
    ended: bool
    #: the enclosing DAG, if that was asked for as well
    parent: int | None
    idle: int
    running: int
    held: int


_JOBS_OF_NODES = """
SELECT
    n.dag,
    j.jobstatus AS status,
    count(*) FILTER (WHERE NOT j.inner_dag)::integer AS jobs,
    array_agg(j.clusterid ORDER BY j.clusterid) FILTER (WHERE j.inner_dag) AS dags
FROM unnest(%s::integer [], %s::integer []) AS n (dag, cluster)
JOIN (
    SELECT
        clusterid,
        owner,
        jobstatus,
        coalesce(ad -> 'JobUniverse' = '7' AND ad ->> 'Cmd' LIKE '%%condor_dagman', false) AS inner_dag
    FROM fetchwork.jobs
    WHERE clusterid = ANY (%s::integer [])
) AS j ON j.clusterid = n.cluster
WHERE j.owner = %s
GROUP BY n.dag, j.jobstatus
"""


def tree(cluster: int, memory: Memory, projection: Sequence[str]) -> Steps[list[DagView]]:
    """A DAG and the queued DAGs inside it, each after the enclosing one; empty if there is no such DAG."""
    wanted = [*projection, "ClusterId", "Owner", "JobStatus"]
    first = yield from _dag(cluster, memory, wanted)
    if first is None:
        return []
    found = [first]
    level = {cluster: first}
    while level and not first["ended"]:
        owner = first["ad"]["Owner"]
        clusters: list[DagCluster] = yield reading.dag_clusters(dags=list(level), owner=owner)
        ids = [one.cluster_id for one in clusters]
        rows = yield Ask(_JOBS_OF_NODES, [[one.dag for one in clusters], ids, ids, owner])
        parents: dict[int, int] = {}
        for row in rows:
            _count(level[row["dag"]], row["status"], row["jobs"])
            parents |= dict.fromkeys(row["dags"] or [], row["dag"])
        known = {view["ad"]["ClusterId"] for view in found}
        inner = [one for one in sorted(parents) if one not in known][: MOST_INNER + 1 - len(found)]
        level = {}
        if inner:
            constraint = f"ProcId == 0 && ({' || '.join(f'ClusterId == {one}' for one in inner)})"
            for ad in (yield from collected(ads(JOBS, constraint, memory, projection=wanted))):
                view = _view(ad, ended=False, parent=parents[ad["ClusterId"]])
                level[ad["ClusterId"]] = view
                found.append(view)
    return _in_order(found)


def dags(memory: Memory, projection: Sequence[str]) -> Stream[Json]:
    """Yield the ads of the queued jobs of the scheduler universe."""
    rows: list[SchedulerCluster] = yield reading.scheduler_clusters()
    ids = [row.cluster_id for row in rows]
    for begin in range(0, len(ids), MOST_INNER):
        constraint = " || ".join(f"ClusterId == {one}" for one in ids[begin : begin + MOST_INNER])
        yield from ads(JOBS, constraint, memory, projection=projection)


def _dag(cluster: int, memory: Memory, projection: Sequence[str]) -> Steps[DagView | None]:
    constraint = _OF_DAG.format(int(cluster))
    # a job that moves to history between two reads is in neither of them, so the queue is read again
    for view in (JOBS, HISTORY, JOBS):
        found = yield from collected(ads(view, constraint, memory, projection=projection, limit=1))
        if found:
            (ad,) = found
            ended = view is HISTORY or ad["JobStatus"] == JobStatus.COMPLETED
            return _view(ad, ended=ended, parent=None)
    return None


def _view(ad: Json, *, ended: bool, parent: int | None) -> DagView:
    return {"ad": ad, "ended": ended, "parent": parent, "idle": 0, "running": 0, "held": 0}


def _count(view: DagView, status: int, jobs: int) -> None:
    if status == JobStatus.IDLE:
        view["idle"] += jobs
    elif status == JobStatus.HELD:
        view["held"] += jobs
    elif status not in (JobStatus.REMOVED, JobStatus.COMPLETED):
        # suspended jobs keep their slots, and so do jobs whose files are being transferred
        view["running"] += jobs


def _in_order(found: list[DagView]) -> list[DagView]:
    """Each DAG after the enclosing one, by number."""
    inner: dict[int, list[DagView]] = {}
    for view in found[1:]:
        inner.setdefault(view["parent"] or 0, []).append(view)
    ordered: list[DagView] = []
    left = [found[0]]
    while left:
        view = left.pop()
        ordered.append(view)
        left += sorted(
            inner.get(view["ad"]["ClusterId"], ()), key=lambda one: int(one["ad"]["ClusterId"]), reverse=True
        )
    return ordered
