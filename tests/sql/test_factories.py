"""Late clusters: which jobs are made, when, and of what; what is asked of the rest."""

import itertools
import json
from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import Claimed, DirectQueue

COMMON = {"Cmd": "/bin/true", "Owner": "alice"}
MARKS = ["MarkOfProcess", "MarkOfStep", "MarkOfItemIndex"]


def late(
    queue: DirectQueue,
    jobs: int,
    *,
    template: dict[str, Any] | None = None,
    items: list[list[str]] | None = None,
    step: int | None = None,
    most: int | None = None,
    idle: int | None = None,
    **common: Any,
) -> int:
    """Submit a late cluster; returns its id."""
    variables = len(items[0]) if items else 0
    plan = {
        "jobs": jobs,
        "step": step or (1 if items else jobs),
        "template": template or {},
        "marks": MARKS + [f"MarkOfItem{n}x" for n in range(variables)],
        "limit": most,
        "idle": idle,
    }
    rows = [{"FetchWorkItem": item} for item in items] if items else [{}]
    return int(
        queue.value(
            "SELECT fetchwork.submit_cluster(%s, %s::jsonb[])",
            json.dumps({**COMMON, **common, "FetchWorkFactory": plan}),
            list(map(json.dumps, rows)),
        )
    )


def present(queue: DirectQueue, status: int | None = None) -> list[int]:
    """The ProcIds of the jobs in the queue, or of those in a state."""
    rows = queue.rows(
        "SELECT proc_id FROM fetchwork.job WHERE coalesce(job_status = %s, true) ORDER BY 1", status
    )
    return [row[0] for row in rows]


def factory(queue: DirectQueue, column: str = "paused") -> Any:
    """A column of the only factory; None without one."""
    return queue.value(f"SELECT {column} FROM fetchwork.factory")


_SLOTS = itertools.count(1)


def run(queue: DirectQueue, count: int = 1) -> list[Claimed]:
    """Start the next jobs, each in a slot of its own."""
    return [queue.started(f"slot{next(_SLOTS)}@h1") for _ in range(count)]


def test_idle_jobs_are_made_up_to_max_idle_as_others_start(queue: DirectQueue) -> None:
    late(queue, 10, idle=2, most=6)
    assert present(queue) == [0, 1]
    for number in range(1, 5):
        run(queue)
        assert len(present(queue, 2)) == number
        assert present(queue, 1) == [number, number + 1]
    # and no more than max_materialize
    run(queue)
    assert present(queue) == [0, 1, 2, 3, 4, 5]
    assert present(queue, 1) == [5]


def test_jobs_are_made_as_others_leave_the_queue_and_the_factory_goes_with_the_last(
    queue: DirectQueue,
) -> None:
    late(queue, 4, most=2)
    assert present(queue) == [0, 1]
    for left in ([1, 2], [2, 3], [3], []):
        (started,) = run(queue)
        assert queue.finish(started) == "completed"
        assert present(queue) == left
        assert factory(queue) == {(1, 2): 0, (2, 3): 2, (3,): 2}.get(tuple(left))
    assert queue.value("SELECT count(*) FROM fetchwork.job_history") == 4


def test_a_chain_makes_the_jobs_that_it_starts(queue: DirectQueue) -> None:
    late(queue, 4, idle=1)
    host = queue.host()
    before = queue.started()
    for proc in (1, 2, 3):
        (row,) = queue.next_runs(host, {"slot1@h1": before})
        assert (row["ended"], row["proc_id"]) == (True, proc)
        assert present(queue) == list(range(proc, min(proc + 2, 4)))
        before = Claimed(row["run_id"], row["token"], f"1.{proc}", row["position"], row["ad"], 0)


def test_a_template_makes_the_ads_of_items(queue: DirectQueue) -> None:
    template = {
        "Args": "--name MarkOfItem0x/MarkOfItem1x 100% %1$s",
        "Process": "/Expr(MarkOfProcess)/",
        "Twice": "/Expr(2 * MarkOfProcess)/",
        "Place": "/Expr(MarkOfItemIndex)/",
        "Step": "/Expr(MarkOfStep)/",
        "Value": "/Expr(MarkOfItem1x)/",
        "RequestMemory": "/Expr(MarkOfItem2x)/",
    }
    items = [["a", "1.5", "128"], ['b \\ "', '"text"', "128"], ["é", "true", "256"], ["", "x + 1", "256"]]
    cluster = late(queue, 8, template=template, items=items, step=2, most=9)
    rows = queue.rows("SELECT j.ad, j.autocluster_id FROM fetchwork.job AS j ORDER BY j.proc_id")
    values = [1.5, "text", True, "/Expr(x + 1)/"]
    assert [ad for ad, _ in rows] == [
        {
            "Args": f"--name {items[n // 2][0]}/{items[n // 2][1]} 100% %1$s",
            "Process": n,
            "Twice": f"/Expr(2 * {n})/",
            "Place": n // 2,
            "Step": n % 2,
            "Value": values[n // 2],
            "RequestMemory": int(items[n // 2][2]),
        }
        for n in range(8)
    ]
    # a kind of job for each memory
    assert len({kind for _, kind in rows[:4]}) == len({kind for _, kind in rows[4:]}) == 1
    assert len({kind for _, kind in rows}) == 2
    assert queue.value("SELECT procs FROM fetchwork.cluster WHERE cluster_id = %s", cluster) == 8


def test_later_jobs_have_the_time_and_the_hold_of_their_cluster(queue: DirectQueue) -> None:
    late(queue, 5, idle=2, JobStatus=5)
    queue.pass_time(100)
    assert present(queue, 5) == [0, 1]
    # Held ones count, as in HTCondor
    queue.act("remove", "1.0")
    assert present(queue, 5) == [1, 2]
    queue.act("release", "1.1")
    assert present(queue) == [1, 2]
    assert queue.value("SELECT count(DISTINCT qdate) FROM fetchwork.jobs") == 1
    # and their events the host that submitted them
    queue.connection.execute("UPDATE fetchwork.factory SET submit_host = '10.1.2.3'")
    queue.act("remove", "1.2")
    hosts = queue.rows(
        "SELECT info ->> 'SubmitHost' FROM fetchwork.event WHERE event_type = 0 ORDER BY proc_id"
    )
    assert {host for (host,) in hosts[:3]} != {"10.1.2.3"}
    assert hosts[3:] == [("10.1.2.3",)]


def test_many_are_made_at_a_time(queue: DirectQueue) -> None:
    late(queue, 1000, idle=100)
    seen = set()
    for _ in range(25):
        run(queue)
        seen.add(len(present(queue, 1)))
    assert max(seen) <= 100
    assert min(seen) >= 75
    queue.call("maintain_queue")
    assert len(present(queue, 1)) == 100


def test_a_large_cluster_is_made_in_steps(queue: DirectQueue) -> None:
    late(queue, 10_000_000, idle=2500)
    assert len(present(queue)) == 1000
    queue.call("maintain_queue")
    assert len(present(queue)) == 2000
    queue.call("maintain_queue")
    queue.call("maintain_queue")
    assert len(present(queue)) == 2500
    queue.act("remove", "1")
    assert present(queue) == []
    assert factory(queue) is None


def test_the_rest_is_held_released_and_removed_with_its_cluster(queue: DirectQueue) -> None:
    late(queue, 10, idle=2)
    assert queue.act("hold", "1", reason="wait") == 2
    assert factory(queue, "(paused, reason)::text") == "(1,wait)"
    queue.call("maintain_queue")
    queue.act("remove", "1.0")
    assert present(queue) == [1]
    assert queue.act("release", "1") == 1
    assert factory(queue) == 0
    assert present(queue, 1) == [1, 2]
    (started,) = run(queue)
    assert queue.act("remove", "1") == 3
    # until its run has ended
    assert present(queue) == [1]
    assert factory(queue) == 3
    queue.act("release", "1")
    assert factory(queue) == 3
    queue.finish(started)
    assert present(queue) == []
    assert factory(queue) is None


def test_the_bytes_of_an_owner_s_items_are_bounded(queue: DirectQueue) -> None:
    queue.set("max_jobs_per_owner", 10)
    queue.set("max_job_bytes", 1000)
    template = {"Args": "MarkOfItem0x"}
    items = [["a" * 30]] * 40
    cluster = late(queue, 80, template=template, items=items, most=1)
    with pytest.raises(
        psycopg.Error, match=r"late clusters of Owner 'alice' may take .*; allowed: 10000 "
    ) as no:
        late(queue, 80, template=template, items=items * 3, most=1)
    assert no.value.sqlstate == "FWDEN"
    # no other owner's count, and none that are gone
    late(queue, 80, template=template, items=items, most=1, Owner="bob")
    with pytest.raises(psycopg.Error, match="may take"):
        late(queue, 80, template=template, items=items * 2, most=1)
    queue.act("remove", str(cluster))
    late(queue, 80, template=template, items=items * 2, most=1)


def test_items_that_are_appended_count_with_those_before_them(queue: DirectQueue) -> None:
    queue.set("max_jobs_per_owner", 10)
    queue.set("max_job_bytes", 1000)
    session = queue.another(autocommit=False)
    cluster = late(session, 999, template={"Args": "MarkOfItem0x"}, items=[["a"]] * 50, most=1)
    append = "SELECT fetchwork.submit_cluster(NULL, %s::jsonb[], %s)"
    more = [json.dumps({"FetchWorkItem": ["a"]})] * 50
    with pytest.raises(psycopg.Error, match="may take") as no:
        for _ in range(9):
            session.rows(append, more, cluster)
    assert no.value.sqlstate == "FWDEN"


@pytest.mark.parametrize("named", [{"jobs": ["1"]}, {"jobs": None, "owner": "alice"}])
def test_a_cluster_without_jobs_is_removed(queue: DirectQueue, named: dict[str, Any]) -> None:
    late(queue, 10, idle=0)
    assert present(queue) == []
    queue.call("maintain_queue")
    assert present(queue) == []
    assert queue.scalar("remove", **named) == 1
    assert factory(queue) is None


def test_an_owner_with_as_many_jobs_as_are_allowed_gets_the_rest_later(queue: DirectQueue) -> None:
    queue.set("max_jobs_per_owner", 5)
    late(queue, 20, most=10)
    assert len(present(queue)) == 3
    queue.call("maintain_queue")
    queue.call("maintain_queue")
    assert len(present(queue)) == 5
    (started,) = run(queue)
    queue.finish(started)
    queue.set("max_jobs_per_owner", 100)
    queue.call("maintain_queue")
    assert len(present(queue)) == 10
    queue.set("max_jobs_per_submission", 7)
    for started in run(queue, 4):
        queue.finish(started)
    assert len(present(queue)) == 7


def test_what_cannot_be_made_pauses_its_factory_and_hinders_nobody(queue: DirectQueue) -> None:
    items = [["1"], ["2"], ["-5"], ["4"]]
    late(queue, 4, template={"RequestMemory": "/Expr(MarkOfItem0x)/"}, items=items, idle=1)
    run(queue)
    assert present(queue) == [0, 1]
    run(queue)
    assert present(queue, 2) == [0, 1]
    assert factory(queue, "(paused, next_proc)::text") == "(-1,2)"
    assert 'attribute "RequestMemory" is -5' in factory(queue, "reason")
    queue.call("maintain_queue")
    queue.act("remove", "1")


def test_the_first_jobs_are_checked_as_those_of_any_cluster(queue: DirectQueue) -> None:
    for template, reason in [
        ({"RequestMemory": "/Expr(MarkOfItem0x)/"}, 'attribute "RequestMemory" is -5'),
        ({"Owner": "MarkOfItem0x"}, 'attribute "Owner" differs in the jobs of a late cluster'),
        ({"FetchWorkQueue": "MarkOfItem0x"}, "differs in the jobs"),
        ({"Cmd": "MarkOfItem0x"}, "there is no Iwd"),
    ]:
        with pytest.raises(psycopg.DatabaseError, match=reason):
            late(queue, 1, template=template, items=[["-5"]])
    with pytest.raises(psycopg.DatabaseError, match="does not exist"):
        late(queue, 5, FetchWorkQueue="none")
    with pytest.raises(psycopg.DatabaseError, match="max_job_bytes"):
        late(queue, 1, template={"A": "MarkOfItem0x" * 500}, items=[["x" * 100_000]])
    with pytest.raises(psycopg.DatabaseError, match="texts"):
        late(queue, 2, template={"A": "MarkOfItem0x"}, items=[["x"], ["y", "z"]])
    with pytest.raises(psycopg.DatabaseError, match="1 to 999999999 jobs"):
        late(queue, 0)
    assert queue.value("SELECT count(*) FROM fetchwork.cluster") == 0


def test_items_may_come_in_several_calls_of_one_transaction(queue: DirectQueue) -> None:
    rows = [json.dumps({"FetchWorkItem": [str(n)]}) for n in range(1300)]
    append = "SELECT fetchwork.submit_cluster(NULL, %s::jsonb[], 1)"
    with queue.connection.transaction():
        queue.scalar("reserve_cluster")
        plan = {"jobs": 1310, "step": 1, "template": {"N": "/Expr(MarkOfItem0x)/"}, "limit": 2000}
        plan |= {"marks": [*MARKS, "MarkOfItem0x"], "idle": None}
        queue.connection.execute(
            "SELECT fetchwork.submit_cluster(%s, %s::jsonb[], 1)",
            [json.dumps({**COMMON, "FetchWorkFactory": plan}), ['{"FetchWorkItem": ["-1"]}'] * 10],
        )
        queue.connection.execute(append, [rows])
    queue.call("maintain_queue")
    numbers = [row[0]["N"] for row in queue.rows("SELECT ad FROM fetchwork.job ORDER BY proc_id")]
    assert numbers == [-1] * 10 + list(range(1300))
    with pytest.raises(psycopg.DatabaseError, match="append right after making it"):
        queue.connection.execute(append, [rows])


def test_two_hosts_that_start_jobs_of_one_cluster_do_not_wait_for_each_other(queue: DirectQueue) -> None:
    late(queue, 10, idle=2)
    first, second = (queue.claim(f"slot{n}@h1") for n in (1, 2))
    with queue.within(20):
        assert first and queue.start(first) is None
        assert present(queue) == [0, 1, 2]
        other = queue.another()
        with other.within(5):
            assert second and other.start(second) is None
    assert present(queue) == [0, 1, 2]
    # the leader makes the one that the second could not
    queue.call("maintain_queue")
    assert present(queue, 1) == [2, 3]


def test_a_draining_queue_gets_no_more_jobs(queue: DirectQueue) -> None:
    late(queue, 10, idle=1)
    queue.call("set_queue", name="default", changes={"draining": True})
    run(queue)
    queue.call("maintain_queue")
    assert present(queue) == [0]
    queue.call("set_queue", name="default", changes={"draining": False})
    queue.call("maintain_queue")
    assert present(queue) == [0, 1]


def cluster_events(queue: DirectQueue) -> list[tuple[Any, ...]]:
    """The events of the cluster itself, without the host in the first."""
    return queue.rows(
        "SELECT event_type, info - 'SubmitHost' FROM fetchwork.event WHERE proc_id = -1 ORDER BY event_id"
    )


def test_a_cluster_has_events_of_its_own(queue: DirectQueue) -> None:
    late(queue, 5, step=2, idle=3, SubmitEventNotes="DAG Node: A")
    queue.act("hold", "1", reason="wait", code=7)
    queue.act("hold", "1")
    queue.act("release", "1", reason="go on")
    queue.act("remove", "1")
    assert cluster_events(queue) == [
        (35, {"LogNotes": "DAG Node: A"}),
        (37, {"Reason": "wait", "PauseCode": 1, "HoldCode": 7}),
        (38, {"Reason": "go on"}),
        (36, {"NextProcId": 3, "NextRow": 1, "Completion": 0}),
    ]
    first = queue.rows("SELECT event_type FROM fetchwork.event ORDER BY event_id LIMIT 2")
    assert first == [(35,), (0,)]


def test_the_last_job_completes_its_cluster(queue: DirectQueue) -> None:
    late(queue, 2, most=1)
    for _ in range(2):
        (started,) = run(queue)
        queue.finish(started)
    assert cluster_events(queue)[1:] == [(36, {"NextProcId": 2, "NextRow": 0, "Completion": 1})]


def test_limits_are_edited(queue: DirectQueue) -> None:
    late(queue, 50, most=4, idle=2)
    assert queue.act("edit", "1", changes={"JobMaterializeMaxIdle": 3}) == 2
    assert present(queue) == [0, 1, 2]
    queue.act("edit", "1", changes={"jobmaterializemaxidle": 9, "JobMaterializeLimit": 5})
    assert len(present(queue)) == 5
    queue.act("edit", "1", changes={"JobMaterializeLimit": None, "JobMaterializeMaxIdle": -1})
    assert len(present(queue)) == 50
    with pytest.raises(psycopg.DatabaseError, match='"jobmaterializelimit" is "x"; allowed: an integer'):
        queue.act("edit", "1", changes={"JobMaterializeLimit": "x"})
    job = queue.submit()
    with pytest.raises(psycopg.DatabaseError, match="is one of late clusters"):
        queue.act("edit", job, changes={"JobMaterializeLimit": 3})


def test_an_edit_of_the_cluster_is_one_of_its_later_jobs_too(queue: DirectQueue) -> None:
    items = [[str(n)] for n in range(6)]
    template = {"Args": "MarkOfItem0x", "Mine": "/Expr(MarkOfItem0x)/"}
    late(queue, 6, template=template, items=items, idle=1)
    assert queue.act("edit", "1", changes={"MINE": 7, "RequestMemory": 512, "JobPrio": 4}) == 1
    run(queue)
    # and one of a single job is of no other
    queue.act("edit", "1.1", changes={"Mine": 9})
    run(queue)
    rows = queue.rows("SELECT j.ad, j.job_prio FROM fetchwork.job AS j ORDER BY j.proc_id")
    assert [ad["Args"] for ad, _ in rows] == ["0", "1", "2"]
    assert [{k.lower(): v for k, v in ad.items()}["mine"] for ad, _ in rows] == [7, 9, 7]
    assert [ad["RequestMemory"] for ad, _ in rows] == [512] * 3
    assert {prio for _, prio in rows} == {4}
    with pytest.raises(psycopg.DatabaseError, match="queue 'none' does not exist"):
        queue.act("edit", "1.-1", changes={"FetchWorkQueue": "none"})
    # as of jobs, null takes an attribute away
    queue.act("edit", "1", changes={"MINE": None})
    run(queue)
    (ad,) = queue.rows("SELECT ad FROM fetchwork.jobs WHERE procid = 3")[0]
    assert ad["MINE"] is None
