"""The database moves to another server: nothing is offered before the running jobs are known."""

from uuid import UUID

import pytest

from tests.support.direct_queue import AGENT_ID, DirectQueue

NO_TOKEN = UUID(int=0)


def move(queue: DirectQueue) -> None:
    """As after a restore: the queue's record says that it was on another server."""
    queue.scalar("reap")
    queue.connection.execute(
        "UPDATE fetchwork.heartbeat SET server = 'another/1', events_server = 'another/1', running_as = NULL"
    )


def noticed(queue: DirectQueue) -> None:
    """Let the move have been noticed a while ago."""
    queue.scalar("reap")
    queue.connection.execute(
        "UPDATE fetchwork.heartbeat SET moved_at = moved_at - interval '5 s', offers_from = offers_from - interval '5 s'"
    )


def beat(queue: DirectQueue, host_id: int, *alive: int, token: UUID = NO_TOKEN) -> list[tuple[int, str]]:
    rows = queue.call(
        "beat", host_id=host_id, alive=list(alive), tokens=[token] * len(alive), agent_id=AGENT_ID
    )
    return [(row["run_id"], row["action"]) for row in rows]


def test_first_claim_after_a_move_gets_nothing_before_anybody_has_noticed_it(queue: DirectQueue) -> None:
    host = queue.host()
    queue.submit()
    move(queue)
    assert queue.claim_many(host, "slot1@h1") == []
    noticed(queue)
    assert queue.claim_many(host, "slot1@h1") == []
    beat(queue, host)
    queue.scalar("reap")
    assert len(queue.claim_many(host, "slot1@h1")) == 1


def test_host_whose_first_hello_was_lost_has_time_to_say_it_again(queue: DirectQueue) -> None:
    host = queue.host("h1")
    queue.submit()
    move(queue)
    queue.scalar("reap")
    beat(queue, host)
    queue.scalar("reap")
    assert queue.claim_many(host, "slot1@h1") == []
    forgotten = queue.host("h2")
    assert beat(queue, forgotten, 4711) == [(4711, "gone")]
    queue.connection.execute(
        "UPDATE fetchwork.heartbeat SET moved_at = moved_at - interval '5 s', offers_from = offers_from - interval '5 s'"
    )
    queue.scalar("reap")
    assert queue.claim_many(host, "slot1@h1") == []
    beat(queue, forgotten)
    queue.scalar("reap")
    assert len(queue.claim_many(host, "slot1@h1")) == 1


def test_same_server_keeps_nobody_waiting(queue: DirectQueue) -> None:
    host = queue.host()
    queue.submit()
    queue.scalar("reap")
    queue.scalar("reap")
    assert len(queue.claim_many(host, "slot1@h1")) == 1


def test_offers_wait_until_each_host_has_said_what_it_runs(queue: DirectQueue) -> None:
    first, second = queue.host("h1"), queue.host("h2")
    queue.submit()
    move(queue)
    noticed(queue)
    beat(queue, first)
    queue.scalar("reap")
    assert queue.claim_many(first, "slot1@h1") == []
    assert queue.rows("SELECT machine FROM fetchwork.unsettled") == [("h2",)]
    beat(queue, second)
    queue.scalar("reap")
    assert queue.rows("SELECT machine FROM fetchwork.unsettled") == []
    assert len(queue.claim_many(first, "slot1@h1")) == 1


def test_host_that_runs_what_the_database_does_not_know_has_to_end_it_first(queue: DirectQueue) -> None:
    host = queue.host()
    queue.submit()
    move(queue)
    noticed(queue)
    assert beat(queue, host, 4711) == [(4711, "gone")]
    queue.scalar("reap")
    assert queue.claim_many(host, "slot1@h1") == []
    assert beat(queue, host) == []
    queue.scalar("reap")
    assert len(queue.claim_many(host, "slot1@h1")) == 1


def test_silent_host_is_waited_for_until_its_lease_is_over(queue: DirectQueue) -> None:
    host = queue.host("h1")
    queue.host("h2")
    queue.submit()
    move(queue)
    noticed(queue)
    beat(queue, host)
    queue.scalar("reap")
    assert queue.claim_many(host, "slot1@h1") == []
    queue.connection.execute(
        "UPDATE fetchwork.host SET lease_until = clock_timestamp() - interval '1 s' WHERE name = 'h2'"
    )
    queue.reap()
    assert len(queue.claim_many(host, "slot1@h1")) == 1


def test_administrator_ends_the_wait(queue: DirectQueue) -> None:
    host = queue.host()
    queue.submit()
    move(queue)
    noticed(queue)
    assert queue.scalar("resume_offers") is True
    assert queue.scalar("resume_offers") is False
    assert len(queue.claim_many(host, "slot1@h1")) == 1


def test_reader_who_keeps_the_events_does_not_keep_them_from_being_put_behind(queue: DirectQueue) -> None:
    queue.submit()
    move(queue)
    reader = queue.another(autocommit=False)
    reader.rows("SELECT * FROM fetchwork.events")
    noticed(queue)
    assert queue.value("SELECT last_value FROM fetchwork.event_batch") > 2**32


@pytest.mark.parametrize("sequence", ["cluster_id", "run_id", "position"])
def test_ids_of_lost_transactions_are_not_given_out_again(queue: DirectQueue, sequence: str) -> None:
    before = queue.value(f"SELECT nextval('fetchwork.{sequence}')")
    move(queue)
    noticed(queue)
    assert queue.value(f"SELECT nextval('fetchwork.{sequence}')") > before + 9000


def test_ids_at_their_end_begin_anew(queue: DirectQueue) -> None:
    queue.connection.execute("SELECT setval('fetchwork.cluster_id', 2147483640)")
    move(queue)
    noticed(queue)
    assert queue.submit().split(".")[0] == "1"


def test_access_points_start_nothing_before_it_is_known_what_runs(queue: DirectQueue) -> None:
    point = {"access_point": "here", "max_each": 10, "lease_s": 600}
    queue.submit_many([{"JobUniverse": 7, "FetchWorkAccessPoint": "here"}] * 2)
    assert len(queue.call("claim_scheduler_job", **point)) == 1
    move(queue)
    assert queue.call("claim_scheduler_job", **point) == []
    noticed(queue)
    assert queue.call("claim_scheduler_job", **point) == []
    queue.scalar("reap")
    assert len(queue.call("claim_scheduler_job", **point)) == 1


def test_run_of_another_token_is_not_the_host_s(queue: DirectQueue) -> None:
    queue.submit()
    run = queue.started("slot1@h1")
    host = queue.host("h1")
    assert beat(queue, host, run.run_id, token=run.token) == []
    assert beat(queue, host, run.run_id) == [(run.run_id, "gone")]


def test_run_whose_start_was_lost_is_not_the_host_s(queue: DirectQueue) -> None:
    queue.submit()
    run = queue.claim("slot1@h1")
    assert run is not None
    assert beat(queue, queue.host("h1"), run.run_id, token=run.token) == [(run.run_id, "gone")]
