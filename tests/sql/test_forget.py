"""forget: autoclusters, batches and submitters without a reference are deleted, and nothing else."""

from tests.support.direct_queue import DirectQueue

AUTOCLUSTERS = "SELECT autocluster_id FROM fetchwork.autocluster ORDER BY 1"


def ended(queue: DirectQueue, **ad: object) -> int:
    """The autocluster of a job that has run to its end, long ago according to the counts."""
    job = queue.submit({"JobBatchName": "night", **ad})
    number = int(queue.column("autocluster_id", job))
    queue.finish(queue.started())
    return number


def long_ago(queue: DirectQueue) -> None:
    """Count all that is due, and let the time of forget_after pass."""
    queue.scalar("fold")
    # autoclusters without waiting jobs are found now and then
    queue.call("sweep_demand")
    queue.connection.execute("UPDATE fetchwork.tally SET changed_at = changed_at - interval '2 days'")
    queue.connection.execute("UPDATE fetchwork.submitter SET usage_at = usage_at - interval '2 days'")


def known(queue: DirectQueue) -> list[int]:
    return [number for (number,) in queue.rows(AUTOCLUSTERS)]


def test_autocluster_without_jobs_for_long_goes_with_its_counts_batch_and_submitter(
    queue: DirectQueue,
) -> None:
    number = ended(queue, Owner="alice")
    long_ago(queue)
    queue.connection.execute(
        "INSERT INTO fetchwork.slot_rest (host_id, slot, autocluster_id, rest_until)"
        " SELECT host_id, 'slot1@h1', %s, now() FROM fetchwork.host LIMIT 1",
        [number],
    )
    queue.call("forget")
    assert known(queue) == []
    for table in ("tally", "slot_rest", "batch", "submitter"):
        assert queue.value(f"SELECT count(*) FROM fetchwork.{table}") == 0, table
    # its description can still be read, and the same job gets a new autocluster
    assert queue.rows("SELECT JobStatus FROM fetchwork.history") == [(4,)]
    assert queue.rows("SELECT Outcome FROM fetchwork.runs") == [("completed",)]
    again = queue.submit({"JobBatchName": "night", "Owner": "alice"})
    assert queue.column("autocluster_id", again) != number
    queue.check()


def test_whose_history_there_is_stays_known_as_long_as_that(queue: DirectQueue) -> None:
    ended(queue, Owner="alice")
    ended(queue, Owner="bob")
    long_ago(queue)
    queue.call("forget")
    # forgotten for the second time
    ended(queue, Owner="bob")
    long_ago(queue)
    queue.connection.execute("UPDATE fetchwork.past_owner SET forgotten_at = now() - interval '2 years'")
    queue.call("forget")
    assert queue.rows("SELECT owner FROM fetchwork.owners ORDER BY 1") == [("alice",), ("bob",)]
    queue.call("maintain_tables")
    assert queue.rows("SELECT owner FROM fetchwork.owners ORDER BY 1") == [("bob",)]


def test_autocluster_whose_jobs_ended_lately_stays(queue: DirectQueue) -> None:
    number = ended(queue)
    queue.scalar("fold")
    queue.call("sweep_demand")
    queue.call("forget")
    assert known(queue) == [number]


def test_autocluster_with_a_job_stays_whatever_state_that_is_in(queue: DirectQueue) -> None:
    gone = ended(queue, RequestCpus=1)
    running = queue.submit({"RequestCpus": 2})
    queue.started()
    waiting = queue.submit({"RequestCpus": 3})
    held = queue.submit({"RequestCpus": 4, "JobStatus": 5})
    long_ago(queue)
    queue.call("forget")
    assert gone not in known(queue)
    assert known(queue) == sorted(
        int(queue.column("autocluster_id", job)) for job in (waiting, held, running)
    )
    queue.check()


def test_counts_that_are_not_folded_yet_keep_an_autocluster(queue: DirectQueue) -> None:
    number = ended(queue)
    long_ago(queue)
    again = queue.submit({"JobBatchName": "night"})
    queue.act("remove", again)
    queue.call("sweep_demand")
    queue.call("forget")
    assert known(queue) == [number]
    long_ago(queue)
    queue.call("forget")
    assert known(queue) == []


def test_autocluster_of_a_submission_under_way_is_left_to_it(queue: DirectQueue) -> None:
    number = ended(queue)
    long_ago(queue)
    submission = queue.another(autocommit=False)
    job = submission.submit({"JobBatchName": "night"})
    queue.call("forget")
    submission.connection.commit()
    assert known(queue) == [number]
    assert queue.column("autocluster_id", job) == number
    queue.check()


def test_submitter_with_a_setting_or_with_usage_stays(queue: DirectQueue) -> None:
    queue.call("set_submitter", name="alice", changes={"prio_factor": 10})
    queue.call("set_submitter", name="bob", changes={"usage": 1e6})
    queue.call("set_submitter", name="carol", changes={"usage": 1})
    long_ago(queue)
    queue.call("forget")
    assert queue.rows("SELECT name FROM fetchwork.submitter ORDER BY 1") == [("alice",), ("bob",)]
