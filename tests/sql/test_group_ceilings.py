"""Ceilings of an accounting group: the idle jobs and autoclusters of all submitters in it and below it."""

from typing import Any

import psycopg
import pytest

from tests.sql.test_ceilings import QUEUED, RAISES, different, refused
from tests.sql.test_factories import late
from tests.support.direct_queue import DirectQueue

ATLAS = {**QUEUED, "AccountingGroup": "physics.atlas.alice"}
PHYSICS = {**QUEUED, "AccountingGroup": "physics.bob"}


def ceilings(queue: DirectQueue, name: str, **changes: int | None) -> None:
    queue.call("set_group", name=name, changes={"quota": 1, **changes})


def submitted(queue: DirectQueue, submitter: str, ads: list[dict[str, Any]]) -> list[str]:
    return queue.submit_many(ads, {**QUEUED, "AccountingGroup": submitter})


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("own", [{}, {"Env": "A=1"}])
def test_idle_jobs_of_a_group_and_of_those_below_it_count_together(
    queue: DirectQueue, folded: bool, own: dict[str, Any]
) -> None:
    ceilings(queue, "Physics", max_idle=4)
    ceilings(queue, "physics.atlas")
    jobs = submitted(queue, "PHYSICS.atlas.alice", [own] * 2)
    submitted(queue, "physics.new.carol", [own])
    submitted(queue, "physics.bob", [own])
    if folded:
        queue.scalar("fold")
    for submitter in ("physics.atlas.alice", "physics.dave", "physics.new.carol"):
        assert refused(queue, [own], AccountingGroup=submitter) == (
            "group 'Physics' would have 5 idle jobs in the queue; allowed: 4 (max_idle of this group; "
            + RAISES
        )
    # other submitters are not affected, however their names begin, and nor is an owner of the group's name
    for other in ("physicsx.bob", "physics-x.bob", "bio.physics.bob", "bob"):
        submitted(queue, other, [own] * 9)
    queue.submit_many([own] * 9, {**QUEUED, "Owner": "physics"})
    # jobs that run or are held are not idle
    queue.act("hold", jobs[0])
    queue.started()
    if folded:
        queue.scalar("fold")
    submitted(queue, "physics.dave", [own] * 2)
    assert "would have 5" in refused(queue, [own], AccountingGroup="physics.dave")


def test_a_submission_of_several_submitters_counts_them_together(queue: DirectQueue) -> None:
    ceilings(queue, "physics", max_idle=3)
    two = [{"AccountingGroup": "physics.alice"}, {"AccountingGroup": "physics.bob"}]
    queue.submit_many(two, QUEUED)
    assert "group 'physics' would have 4 idle jobs" in refused(queue, two)
    queue.submit_many([two[0], {}, {}], QUEUED)


def test_the_nearest_ceiling_is_named_and_each_above_it_holds(queue: DirectQueue) -> None:
    ceilings(queue, "physics", max_idle=3)
    ceilings(queue, "physics.atlas", max_idle=2)
    queue.call("set_submitter", name="physics.atlas.alice", changes={"max_idle": 1})
    assert "submitter 'physics.atlas.alice' would have 9 idle" in refused(queue, [{}] * 9, **ATLAS)
    queue.submit_many([{}], ATLAS)
    eve = {"AccountingGroup": "physics.atlas.eve"}
    assert "group 'physics.atlas' would have 4 idle jobs in the queue; allowed: 2" in refused(
        queue, [{}] * 3, **eve
    )
    queue.submit_many([{}] * 2, PHYSICS)
    assert "group 'physics' would have 4 idle jobs in the queue; allowed: 3" in refused(queue, [{}], **eve)


@pytest.mark.parametrize("folded", [False, True])
def test_autoclusters_of_a_group_count_together(queue: DirectQueue, folded: bool) -> None:
    ceilings(queue, "physics", max_autoclusters=3)
    first, second = queue.submit_many(different(0, 2), ATLAS)
    queue.submit_many(different(0, 1), PHYSICS)
    if folded:
        queue.scalar("fold")
    assert refused(queue, different(2, 1), **ATLAS) == (
        "group 'physics' would have 4 autoclusters in the queue; allowed: 3 (max_autoclusters of this group; "
        + RAISES
    )
    # jobs of the autoclusters that are there do no harm, and others' do not count
    third = queue.submit_many(different(0, 2), ATLAS)[1]
    queue.submit_many(different(0, 9), QUEUED)
    with pytest.raises(psycopg.Error, match="group 'physics' would have 4 autoclusters"):
        queue.act("edit", first, changes={"RequestMemory": 7})
    queue.act("remove", second, third)
    queue.submit_many(different(5, 1), PHYSICS)


def test_a_job_on_hold_counts_when_it_is_released(queue: DirectQueue) -> None:
    ceilings(queue, "physics", max_idle=2)
    held = queue.submit_many([{}] * 3, {**PHYSICS, "JobStatus": 5})
    queue.submit_many([{}], ATLAS)
    assert queue.act("release", held[0]) == 1
    with pytest.raises(psycopg.Error, match="group 'physics' would have 3 idle jobs"):
        queue.act("release", held[1])


def test_an_edit_adds_idle_jobs_to_a_group_only_from_outside(queue: DirectQueue) -> None:
    queue.submit_many([{}] * 3, PHYSICS)
    queue.submit_many([{}] * 2, QUEUED)
    ceilings(queue, "physics", max_idle=1)
    ceilings(queue, "physics.atlas", max_idle=1)
    # above its lowered ceiling: its own jobs may change, and leave it
    assert queue.act("edit", "1.0", changes={"RequestMemory": 7}) == 1
    assert queue.act("edit", "1.0", changes={"AccountingGroup": "physics.atlas.bob"}) == 1
    with pytest.raises(psycopg.Error, match=r"group 'physics\.atlas' would have 2 idle jobs"):
        queue.act("edit", "1.1", changes={"AccountingGroup": "physics.atlas.bob"})
    with pytest.raises(psycopg.Error, match="group 'physics' would have 4 idle jobs"):
        queue.act("edit", "2.0", changes={"AccountingGroup": "physics.alice"})
    assert queue.act("edit", "1.0", "1.1", "1.2", changes={"AccountingGroup": "bio.bob"}) == 3
    assert queue.act("edit", "2.0", changes={"AccountingGroup": "physics.alice"}) == 1


def test_fewer_jobs_of_a_late_cluster_are_made_meanwhile(queue: DirectQueue) -> None:
    ceilings(queue, "physics", max_idle=4)
    queue.submit_many([{}] * 3, ATLAS)
    cluster = late(queue, 5, AccountingGroup="physics.bob")
    made = "SELECT count(*) FROM fetchwork.job WHERE cluster_id = %s"
    assert queue.value(made, cluster) == 1
    queue.act("remove", "1.0", "1.1")
    for _ in range(3):  # the leader asks again and again (materialize_due)
        queue.call("materialize", cluster=cluster)
    assert queue.value(made, cluster) == 3


def test_ceilings_are_lifted(queue: DirectQueue) -> None:
    for lifted in (0, None):
        ceilings(queue, "physics", max_idle=1, max_autoclusters=1)
        assert "would have 2 idle jobs" in refused(queue, [{}] * 2, **PHYSICS)
        shown = "SELECT maxidle, maxautoclusters FROM fetchwork.groups WHERE name = 'physics'"
        assert queue.rows(shown) == [(1, 1)]
        ceilings(queue, "physics", max_idle=lifted, max_autoclusters=lifted)
        assert queue.rows(shown) == [(lifted, lifted)]
        (job, *_) = queue.submit_many(different(0, 2), PHYSICS)
        queue.act("remove", job.partition(".")[0])
    ceilings(queue, "physics", max_idle=1)
    queue.scalar("remove_group", name="physics")
    queue.submit_many([{}] * 2, PHYSICS)


@pytest.mark.parametrize("changes", [{"max_idle": -1}, {"max_autoclusters": -1}])
def test_a_ceiling_is_not_below_0(queue: DirectQueue, changes: dict[str, int]) -> None:
    with pytest.raises(psycopg.Error, match="ceilings from 0"):
        ceilings(queue, "physics", **changes)


def test_submissions_of_a_group_neither_wait_nor_count_before_their_commit(queue: DirectQueue) -> None:
    ceilings(queue, "physics", max_idle=3, max_autoclusters=3)
    slow = queue.another(autocommit=False)
    slow.submit_many(different(0, 3), ATLAS)  # 1. not committed
    with queue.within(5):
        queue.submit_many(different(3, 3), PHYSICS)  # 2. does not wait
        ceilings(queue, "physics", quota=2)
    slow.connection.commit()
    assert "would have 7 idle" in refused(queue, different(3, 1), **PHYSICS)
    assert "would have 7 autoclusters" in refused(queue, different(6, 1), **PHYSICS, JobStatus=5)


def test_a_submission_reads_nothing_of_other_groups_and_no_jobs(queue: DirectQueue) -> None:
    """The cost is the same with more groups and more jobs."""
    for number in range(50):
        ceilings(queue, f"other{number}")
    check = "SELECT fetchwork.check_ceilings(ARRAY[1], ARRAY[1], ARRAY[1])"
    queue.submit_many([{}] * 500, PHYSICS)
    for number in range(50):
        submitted(queue, f"other{number}.bob", different(0, 5))
    queue.scalar("fold")
    with queue.connection.transaction():
        before = queue.tuples_read("accounting_group")
        queue.rows(check)
        assert queue.tuples_read("accounting_group") == before

    ceilings(queue, "physics", max_idle=1000, max_autoclusters=1000)
    with queue.connection.transaction():
        earlier = {table: queue.tuples_read(table) for table in ("job", "tally", "autocluster")}
        queue.rows(check)
        read = {table: queue.tuples_read(table) - count for table, count in earlier.items()}
        assert read["job"] == 0
        # both the index and the table count a row
        assert read["tally"] <= 2 and read["autocluster"] <= 4
