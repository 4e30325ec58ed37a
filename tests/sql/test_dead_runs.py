"""slot_is_free, starter_gone, reap: the detectors of runs that die silently, and the spared runs."""

import pytest

from tests.support.direct_queue import AGENT_ID, Claimed, DirectQueue
from tests.support.there import there


@pytest.fixture
def run(queue: DirectQueue) -> Claimed:
    """A run that passed the fence."""
    queue.submit()
    return queue.started(lease_s=1800)


# 1. The slot asks for work again


def test_a_slot_that_is_free_has_lost_what_it_ran(queue: DirectQueue, run: Claimed) -> None:
    assert queue.scalar("slot_is_free", host_id=queue.host(), slot="slot1@h1") == 1
    assert queue.outcome(run) == "lost"
    assert queue.status(run.job) == 1
    assert queue.events(run.job) == [0, 1, 4]
    assert queue.column("num_lost", run.job) == 1


def test_a_slot_that_is_free_tells_nothing_of_others(queue: DirectQueue, run: Claimed) -> None:
    assert queue.scalar("slot_is_free", host_id=queue.host(), slot="slot2@h1") == 0
    assert queue.scalar("slot_is_free", host_id=queue.host("h2"), slot="slot1@h1") == 0


def test_an_accepted_offer_of_a_free_slot_was_a_silent_failure_and_is_counted(queue: DirectQueue) -> None:
    queue.submit()
    offer = there(queue.claim())
    queue.of(offer, "accept")
    assert queue.scalar("slot_is_free", host_id=queue.host(), slot="slot1@h1") == 1
    assert queue.outcome(offer) == "could_not_start"
    assert queue.column("last_reason", offer.job) == (
        "accepted by the startd, but no starter reported: see StarterLog of the slot on the host"
    )


@pytest.mark.parametrize("answered", [True, False])
def test_a_dynamic_slot_that_asks_again_gives_what_it_fetched_time_to_start_elsewhere(
    queue: DirectQueue, answered: bool
) -> None:
    """HTCondor 25.14 makes slot1_2 for what slot1_1 has fetched, and slot1_1 asks again 20 ms later."""
    queue.submit_many([{}, {}])
    offer = there(queue.claim("slot1_1@h1"))
    if answered:
        queue.of(offer, "accept")
    assert queue.scalar("slot_is_free", host_id=queue.host(), slot="slot1_1@h1") == 0
    # a claim of the same slot frees it first, and takes the next job
    second = queue.claim("slot1_1@h1")
    assert second is not None and second.job != offer.job
    assert queue.outcome(offer) is None
    assert queue.of(offer, "start", starter="1:1", slot="slot1_2@h1") is None
    assert queue.value("SELECT slot FROM fetchwork.run WHERE run_id = %s", offer.run_id) == "slot1_2@h1"
    queue.pass_time(11)
    # the second run has ended by then: an accepted one was a silent failure
    queue.of(second, "accept")
    queue.pass_time(11)
    assert queue.scalar("slot_is_free", host_id=queue.host(), slot="slot1_1@h1") == 1
    assert queue.outcome(second) == "could_not_start"
    assert queue.outcome(offer) is None


# 2. The agent sees the starter end


def test_a_starter_that_is_gone_gives_its_job_back(queue: DirectQueue, run: Claimed) -> None:
    assert queue.of(run, "starter_gone") is True
    assert queue.of(run, "starter_gone") is False
    assert queue.rows("SELECT outcome, reason FROM fetchwork.runs") == [
        ("lost", "the starter ended without a report")
    ]
    assert queue.claim("slot2@h1") is not None


def test_a_starter_that_went_before_the_fence_was_a_failed_start(queue: DirectQueue) -> None:
    queue.submit()
    offer = there(queue.claim())
    queue.of(offer, "accept")
    queue.of(offer, "starter_gone")
    assert queue.outcome(offer) == "could_not_start"


# 3. Silence


def test_a_run_of_which_nothing_is_heard_is_lost_after_its_lease(queue: DirectQueue, run: Claimed) -> None:
    queue.call("goodbye", host_id=queue.host(), agent_id=AGENT_ID)
    queue.pass_time(1790)
    assert queue.reap() == 0
    queue.pass_time(20)
    assert queue.reap() == 1
    assert queue.rows("SELECT outcome, reason FROM fetchwork.runs") == [("lost", "no update came in time")]
    assert queue.status(run.job) == 1


def test_a_host_whose_agent_falls_silent_loses_all_its_runs(queue: DirectQueue) -> None:
    queue.submit_many([{}, {}, {}])
    here = [queue.started("slot1@h1"), queue.started("slot2@h1")]
    queue.pass_time(61)
    there = queue.started("slot1@h2")
    assert queue.reap() == 2
    assert [queue.outcome(run) for run in (*here, there)] == ["lost", "lost", None]
    assert (
        queue.value("SELECT reason FROM fetchwork.runs WHERE RunId = %s", here[0].run_id)
        == "its host fell silent"
    )


def test_a_beat_keeps_a_host_alive(queue: DirectQueue, run: Claimed) -> None:
    for _ in range(3):
        queue.pass_time(50)
        queue.beat(queue.host(), run)
        assert queue.reap() == 0
    assert queue.status(run.job) == 2


def test_hooks_of_a_host_whose_agent_died_keep_their_own_run_alive(queue: DirectQueue, run: Claimed) -> None:
    queue.pass_time(61)
    queue.heartbeat(run)
    assert queue.reap() == 0


def test_an_agent_that_stops_in_good_order_leaves_its_runs_to_their_own_leases(
    queue: DirectQueue, run: Claimed
) -> None:
    queue.call("goodbye", host_id=queue.host(), agent_id=AGENT_ID)
    queue.pass_time(300)
    assert queue.reap() == 0
    assert queue.status(run.job) == 2


def test_a_goodbye_of_an_agent_that_was_replaced_is_not_heard(queue: DirectQueue, run: Claimed) -> None:
    queue.call("goodbye", host_id=queue.host(), agent_id="1" * 32)
    queue.pass_time(61)
    assert queue.reap() == 1


def test_an_offer_that_nobody_answers_expires_and_is_not_charged(queue: DirectQueue) -> None:
    queue.submit()
    offer = there(queue.claim(offer_s=60))
    queue.pass_time(59)
    assert queue.reap() == 0
    queue.pass_time(2)
    assert queue.reap() == 1
    assert queue.outcome(offer) == "expired"
    assert queue.column("num_not_started", offer.job) == 0


def test_a_job_that_is_to_end_and_falls_silent_gets_what_was_asked_for(queue: DirectQueue) -> None:
    removed, held = queue.submit_many([{}, {}])
    queue.started("slot1@h1")
    queue.started("slot2@h1")
    queue.act("remove", removed)
    queue.act("hold", held)
    queue.pass_time(61)
    assert queue.reap() == 2
    assert queue.status(removed) == 3
    assert queue.value("SELECT count(*) FROM fetchwork.history") == 1
    assert queue.rows("SELECT JobStatus, RunId FROM fetchwork.jobs") == [(5, None)]


def test_after_a_pause_of_the_database_everyone_gets_a_whole_lease_again(
    queue: DirectQueue, run: Claimed
) -> None:
    queue.pass_time(10000)
    queue.connection.execute("UPDATE fetchwork.heartbeat SET reaped_at = now() - interval '10000 s'")
    assert queue.scalar("reap") == 0
    assert queue.scalar("reap") == 0
    queue.pass_time(61)
    assert queue.reap() == 1


def test_a_restart_of_the_server_is_such_a_pause(queue: DirectQueue, run: Claimed) -> None:
    queue.pass_time(10000)
    queue.connection.execute(
        "UPDATE fetchwork.heartbeat SET reaped_at = pg_postmaster_start_time() - interval '1 s'"
    )
    assert queue.scalar("reap") == 0


def test_an_offer_whose_answer_was_lost_ends_when_its_slot_asks_again(queue: DirectQueue) -> None:
    queue.submit()
    queue.submit()
    lost = there(queue.claim())
    # REPLY_FETCH may still be on its way
    assert queue.scalar("slot_is_free", host_id=queue.host(), slot="slot1@h1") == 0
    queue.pass_time(3)
    assert queue.claim() is not None
    assert queue.outcome(lost) == "expired"
    assert queue.status(lost.job) == 1
    queue.check()
