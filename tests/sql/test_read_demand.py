"""read_demand: all demand of a host at first, and then only the changes, no matter how late they commit."""

from typing import Any

from tests.support.direct_queue import DirectQueue


def read(queue: DirectQueue, since: str = "0", host: str = "h1", **arguments: Any) -> dict[str, Any]:
    """The answer to one host."""
    (row,) = queue.call(
        "read_demand",
        **{"host_id": queue.host(host), "queues": ["default"], "since": since, **arguments},
    )
    return row


def autoclusters(queue: DirectQueue, *jobs: str) -> list[int]:
    return [queue.column("autocluster_id", job) for job in jobs]


def test_first_answer_has_all_with_its_numbers(queue: DirectQueue) -> None:
    one, two = queue.submit_many(
        [{"RequestCpus": 2, "RequestMemory": 100}, {"RequestCpus": "/Expr(1 + 1)/", "JobPrio": 5}]
    )
    row = read(queue)
    assert (row["whole"], row["agents"], row["black_hole"]) == (True, 1, False)
    found = dict(
        zip(row["autoclusters"], zip(row["prios"], row["cpus"], row["memory_mib"], strict=True), strict=True)
    )
    (first, second) = autoclusters(queue, one, two)
    assert found == {first: (0, 2.0, 100.0), second: (5, None, None)}


def test_next_answer_has_what_came_since(queue: DirectQueue) -> None:
    queue.submit_many([{}])
    seen = read(queue)["seen"]
    # the latest may come again
    seen = read(queue, seen)["seen"]
    job = queue.submit(RequestCpus=3)
    row = read(queue, seen)
    assert not row["whole"]
    assert row["autoclusters"] == autoclusters(queue, job)
    assert read(queue, row["seen"])["autoclusters"] == []


def test_what_commits_late_is_in_the_next_answer(queue: DirectQueue) -> None:
    queue.submit(RequestCpus=9)
    slow = queue.another(autocommit=False)
    late = slow.submit(RequestCpus=7)
    queue.submit(RequestCpus=8)
    row = read(queue)
    assert len(row["autoclusters"]) == 2
    slow.connection.commit()
    assert autoclusters(queue, late)[0] in read(queue, row["seen"])["autoclusters"]


def test_answer_of_another_server_is_answered_with_all(queue: DirectQueue) -> None:
    queue.submit_many([{}])
    ahead = queue.value("SELECT (pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 1000)::text")
    row = read(queue, ahead)
    assert row["whole"]
    assert len(row["autoclusters"]) == 1


def test_rests_of_the_hosts_slots_are_told_each_time(queue: DirectQueue) -> None:
    queue.submit_many([{}])
    run = queue.claim()
    assert run is not None
    queue.of(run, "reject")
    row = read(queue, read(queue)["seen"])
    assert (row["resting_slots"], row["resting_autoclusters"]) == (["slot1@h1"], [run.autocluster_id])
    assert 5 < row["resting_s"][0] <= 10
    assert read(queue, host="h2")["resting_slots"] == []


def test_other_queues_and_paused_ones_are_not_told(queue: DirectQueue) -> None:
    queue.scalar("set_queue", name="gpu")
    queue.submit(FetchWorkQueue="gpu")
    assert read(queue)["autoclusters"] == []
    assert len(read(queue, queues=["default", "gpu"])["autoclusters"]) == 1
    queue.scalar("set_queue", name="gpu", changes={"paused": True})
    assert read(queue, queues=["default", "gpu"])["autoclusters"] == []


def test_black_hole_is_told_that_it_is_one(queue: DirectQueue) -> None:
    queue.submit_many([{}])
    queue.connection.execute(
        "UPDATE fetchwork.host SET black_hole_since = now(), newcomer_probe_at = now() + interval '1 min'"
        " WHERE host_id = %s",
        [queue.host()],
    )
    row = read(queue)
    assert (row["black_hole"], row["autoclusters"]) == (True, [])
