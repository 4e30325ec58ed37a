"""Jobs of the scheduler universe in the database: their claims, and the limit of running ones of an owner."""

from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import DirectQueue

POINT = {"access_point": "here", "max_each": 2, "lease_s": 600}


def dag(queue: DirectQueue, around: int | None = None, **attributes: Any) -> int:
    """Submit a DAG's job; return its number."""
    inside = {} if around is None else {"DAGManJobId": around}
    return submitted(queue, JobUniverse=7, FetchWorkAccessPoint="here", **inside, **attributes)


def submitted(queue: DirectQueue, **common: Any) -> int:
    """Submit a cluster of one job, with these common attributes."""
    ad = {"Cmd": "/bin/true", "Iwd": "/", "Owner": "alice", **common}
    return int(queue.submit_many([{}], ad)[0].partition(".")[0])


def claimed(queue: DirectQueue) -> list[int]:
    """The jobs that an access point claims until it gets no more."""
    found = []
    while rows := queue.call("claim_scheduler_job", **POINT):
        found.append(rows[0]["cluster_id"])
    return found


def test_a_dag_in_a_dag_gets_its_turn_however_many_wait_and_run_already(queue: DirectQueue) -> None:
    outer = [dag(queue) for _ in range(3)]
    assert claimed(queue) == outer[:2]
    innermost = outer[0]
    for _ in range(5):
        innermost = dag(queue, innermost)
        assert claimed(queue) == [innermost]
    # and this many of each DAG at a time
    inner = [dag(queue, outer[1]) for _ in range(3)]
    assert claimed(queue) == inner[:2]


def test_a_job_that_says_it_is_in_a_dag_counts_as_others_do_unless_that_dag_runs_for_its_owner(
    queue: DirectQueue,
) -> None:
    others = dag(queue, Owner="bob")
    assert claimed(queue) == [others]
    said = [dag(queue, around) for around in (others, 4711, 4712)]
    assert claimed(queue) == said[:2]


def test_a_dag_is_not_suspended_and_the_refusal_names_its_access_point(queue: DirectQueue) -> None:
    number = dag(queue)
    (row,) = queue.call("claim_scheduler_job", **POINT)
    queue.call("start", run_id=row["run_id"], token=row["token"], slot="here", starter=None)
    assert queue.status(f"{number}.0") == 2
    with pytest.raises(psycopg.Error, match=r"its host 'access point here' may not signal jobs") as caught:
        queue.act("suspend", f"{number}.0")
    assert caught.value.sqlstate == "FWINV"


def test_the_clusters_of_a_dag_are_found_by_what_its_owner_s_say(queue: DirectQueue) -> None:
    outer = dag(queue)
    gone, node = (submitted(queue, DAGManJobId=outer) for _ in range(2))
    submitted(queue, DAGManJobId=outer + 1000)
    submitted(queue, DAGManJobId=outer, Owner="bob")
    queue.act("remove", f"{gone}.0")
    rows = queue.call("dag_clusters", dags=[outer, 99], owner="alice")
    assert [(row["dag"], row["cluster_id"]) for row in rows] == [(outer, node)]


def test_the_clusters_of_the_scheduler_universe_in_the_queue_are_found(queue: DirectQueue) -> None:
    gone, waiting, held = (dag(queue) for _ in range(3))
    submitted(queue)
    queue.act("remove", f"{gone}.0")
    queue.act("hold", f"{held}.0")
    assert [row["cluster_id"] for row in queue.call("scheduler_clusters")] == [waiting, held]
