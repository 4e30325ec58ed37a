"""Waiting jobs are offered: demand ends with the last job in any way; unused autoclusters are forgotten."""

import psycopg
import pytest

from tests.support.direct_queue import DirectQueue


def distinct(queue: DirectQueue, number: int, **common: object) -> list[str]:
    """Submit jobs that are each an autocluster of their own."""
    jobs = queue.submit_many([{"RequestMemory": n + 1} for n in range(number)], {**QUEUED, **common})
    assert queue.value("SELECT count(*) FROM fetchwork.demand") == number
    return jobs


QUEUED = {"Cmd": "/bin/true", "Owner": "alice"}


@pytest.mark.parametrize("action", ["remove", "hold"])
def test_demand_ends_with_the_last_job(queue: DirectQueue, action: str) -> None:
    jobs = distinct(queue, 50)
    queue.scalar(action, jobs=jobs[:-1])
    assert queue.value("SELECT count(*) FROM fetchwork.demand") == 1
    queue.scalar(action, jobs=jobs[-1:])
    assert queue.value("SELECT count(*) FROM fetchwork.demand") == 0


def test_demand_stays_while_one_of_equal_jobs_waits(queue: DirectQueue) -> None:
    jobs = queue.submit_many([{}, {}, {}], QUEUED)
    queue.scalar("remove", jobs=jobs[:2])
    assert queue.value("SELECT count(*) FROM fetchwork.demand") == 1
    assert queue.claim() is not None


def test_demand_follows_an_edited_job(queue: DirectQueue) -> None:
    jobs = queue.submit_many([{}, {}], QUEUED)
    queue.call("edit", jobs=jobs, changes={"RequestMemory": 7, "JobPrio": 3})
    assert queue.rows("SELECT job_prio FROM fetchwork.demand") == [(3,)]
    queue.call("edit", jobs=jobs[:1], changes={"JobPrio": 4})
    assert queue.rows("SELECT job_prio FROM fetchwork.demand ORDER BY 1") == [(3,), (4,)]


def test_demand_ends_with_a_policy_that_holds(queue: DirectQueue) -> None:
    queue.submit_many([{}], QUEUED)
    assert queue.scalar("apply_policy", cluster=1, proc=0, status=1, action="hold", reason="policy")
    assert queue.value("SELECT count(*) FROM fetchwork.demand") == 0


def test_what_two_who_removed_at_once_left_is_swept(queue: DirectQueue) -> None:
    jobs = queue.submit_many([{}, {}], QUEUED)
    first, second = queue.another(autocommit=False), queue.another(autocommit=False)
    first.scalar("remove", jobs=jobs[:1])  # 1. sees the other's job waiting
    second.scalar("remove", jobs=jobs[1:])  # 2. sees the first's job waiting
    first.connection.commit()
    second.connection.commit()
    assert queue.value("SELECT count(*) FROM fetchwork.demand") == 1
    queue.call("maintain_queue")
    assert queue.value("SELECT count(*) FROM fetchwork.demand") == 0


def test_many_autoclusters_without_jobs_are_swept_in_a_few_rounds(queue: DirectQueue) -> None:
    distinct(queue, 1)
    queue.connection.execute(
        "INSERT INTO fetchwork.demand (autocluster_id, job_prio) SELECT 1, n FROM generate_series(1, 40000) AS n"
    )
    for _ in range(3):
        queue.connection.execute(
            "UPDATE fetchwork.leader_task SET taken_at = '-infinity' WHERE name = 'demand'"
        )
        queue.call("maintain_queue")
    assert queue.rows("SELECT job_prio FROM fetchwork.demand") == [(0,)]


def test_the_sweep_leaves_what_is_being_submitted(queue: DirectQueue) -> None:
    jobs = queue.submit_many([{}], QUEUED)
    submitter = queue.another(autocommit=False)
    submitter.submit_many([{}], QUEUED)  # 1. not committed
    queue.scalar("remove", jobs=jobs)  # 2. other sessions see no other job waiting
    queue.call("maintain_queue")
    submitter.connection.commit()
    assert queue.claim() is not None


def forgotten(queue: DirectQueue) -> None:
    """Let a day pass, and run the maintenance of the tables."""
    queue.scalar("fold")
    queue.connection.execute("UPDATE fetchwork.tally SET changed_at = now() - interval '2 days'")
    queue.connection.execute("UPDATE fetchwork.submitter SET usage_at = now() - interval '2 days'")
    queue.call("maintain_tables")


def test_what_nothing_names_is_forgotten(queue: DirectQueue) -> None:
    jobs = distinct(queue, 20, AccountingGroup="games.alice", JobBatchName="b")
    left = queue.submit_many([{"JobBatchName": "left"}], QUEUED)
    queue.scalar("remove", jobs=jobs)
    forgotten(queue)
    assert queue.rows("SELECT Submitter, Jobs FROM fetchwork.totals") == [("alice", 1)]
    assert queue.rows("SELECT name FROM fetchwork.batch") == [("left",)]
    assert queue.rows("SELECT name FROM fetchwork.submitter") == [("alice",)]
    # past events stay
    assert queue.value("SELECT count(*) FROM fetchwork.history") == 20
    assert queue.value("SELECT count(*) FROM fetchwork.events WHERE ClusterId = 1") == 40
    # and the same job can be submitted again
    distinct_again = queue.submit_many([{"RequestMemory": 1}], {**QUEUED, "AccountingGroup": "games.alice"})
    queue.scalar("remove", jobs=distinct_again + left)


def test_what_has_usage_or_settings_is_not_forgotten(queue: DirectQueue) -> None:
    queue.call("set_submitter", name="set", changes={"prio_factor": 5})
    queue.call("set_submitter", name="used", changes={"usage": 1e9})
    queue.call("set_submitter", name="nothing", changes={})
    forgotten(queue)
    names = queue.rows("SELECT name FROM fetchwork.submitter ORDER BY name")
    assert names == [("set",), ("used",)]


def test_an_autocluster_that_is_being_used_is_not_forgotten(queue: DirectQueue) -> None:
    queue.scalar("remove", jobs=queue.submit_many([{"JobBatchName": "b"}], QUEUED))
    submitter = queue.another(autocommit=False)
    submitter.submit_many([{"JobBatchName": "b"}], QUEUED)  # 1. not committed
    forgotten(queue)  # 2. finds no job of it
    submitter.connection.commit()
    assert queue.rows("SELECT JobBatchName, Jobs FROM fetchwork.batches") == [("b", 1)]
    assert queue.claim() is not None


def test_no_advisory_key_stops_the_leader(queue: DirectQueue) -> None:
    nobody = queue.another(autocommit=False)
    for name in ("reap", "fold", "preempt", "maintain", "limits"):
        nobody.connection.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('fetchwork ' || %s, 0))", [name]
        )
    queue.submit_many([{}], QUEUED)
    assert queue.value("SELECT folded FROM fetchwork.maintain_queue()") > 0
    functions = queue.value(
        "SELECT string_agg(proname, ' ') FROM pg_proc WHERE pronamespace = 'fetchwork'::regnamespace AND prosrc ~ 'pg_[a-z_]*advisory'"
    )
    assert functions is None


def test_a_limited_claim_does_not_wait_for_ever_for_another(queue: DirectQueue) -> None:
    queue.scalar("set_limit", name="lic", maximum=5)
    queue.submit_many([{"ConcurrencyLimits": "lic"}, {"ConcurrencyLimits": "lic"}, {}], QUEUED)
    host_id = queue.host()
    first, second = queue.another(autocommit=False), queue.another()
    first.claim("slot1@h1", host_id=host_id)  # 1. not committed
    # 2. gets the job without a limit, after a second
    with pytest.raises(psycopg.errors.QueryCanceled), second.within(0.3):
        second.claim("slot2@h1", host_id=host_id)
    claimed = second.claim("slot2@h1", host_id=host_id)
    assert claimed is not None
    assert "ConcurrencyLimits" not in claimed.ad
