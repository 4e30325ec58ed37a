"""slot_is_free, starter_gone, reap: the three detectors of runs that die without a word, and who is not taken for dead."""

from collections.abc import Callable

import pytest

from tests.direct_queue import Claimed, DirectQueue


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
    queue.submit(JobUniverse=12)
    offer = queue.claim()
    assert offer is not None
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
    offer = queue.claim("slot1_1@h1")
    assert offer is not None
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
    # by then it is over: one that was accepted was a silent failure
    queue.of(second, "accept")
    queue.pass_time(11)
    assert queue.scalar("slot_is_free", host_id=queue.host(), slot="slot1_1@h1") == 1
    assert queue.outcome(second) == "could_not_start"
    assert queue.outcome(offer) is None


# 2. The agent sees the starter go


def test_a_starter_that_is_gone_gives_its_job_back(queue: DirectQueue, run: Claimed) -> None:
    assert queue.of(run, "starter_gone") is True
    assert queue.of(run, "starter_gone") is False
    assert queue.rows("SELECT outcome, reason FROM fetchwork.runs") == [
        ("lost", "the starter ended without a report")
    ]
    assert queue.claim("slot2@h1") is not None


def test_a_starter_that_went_before_the_fence_was_a_failed_start(queue: DirectQueue) -> None:
    queue.submit()
    offer = queue.claim()
    assert offer is not None
    queue.of(offer, "accept")
    queue.of(offer, "starter_gone")
    assert queue.outcome(offer) == "could_not_start"


# 3. Silence


def test_a_run_of_which_nothing_is_heard_is_lost_after_its_lease(queue: DirectQueue, run: Claimed) -> None:
    queue.call("goodbye", host_id=queue.host(), agent_id="0" * 32)
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
        queue.call("beat", host_id=queue.host(), alive=[run.run_id])
        assert queue.reap() == 0
    assert queue.status(run.job) == 2


def test_hooks_of_a_host_whose_agent_died_keep_their_own_run_alive(queue: DirectQueue, run: Claimed) -> None:
    queue.pass_time(61)
    queue.heartbeat(run)
    assert queue.reap() == 0


def test_an_agent_that_stops_in_good_order_leaves_its_runs_to_their_own_leases(
    queue: DirectQueue, run: Claimed
) -> None:
    queue.call("goodbye", host_id=queue.host(), agent_id="0" * 32)
    queue.pass_time(300)
    assert queue.reap() == 0
    assert queue.status(run.job) == 2


def test_a_goodbye_of_an_agent_that_was_replaced_is_not_heard(queue: DirectQueue, run: Claimed) -> None:
    queue.call("goodbye", host_id=queue.host(), agent_id="1" * 32)
    queue.pass_time(61)
    assert queue.reap() == 1


def test_an_offer_that_nobody_answers_expires_and_is_not_charged(queue: DirectQueue) -> None:
    queue.submit()
    offer = queue.claim(offer_s=60)
    assert offer is not None
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


# A host on which everything fails


def fail(queue: DirectQueue, slot: str = "slot1@h1") -> None:
    """The next job on this slot can't start."""
    run = queue.claim(slot)
    assert run is not None
    queue.of(run, "refuse_start", reason="/usr is empty")


def fail_at_once(queue: DirectQueue, slot: str = "slot1@h1") -> None:
    """The next job on this slot starts and is over, without success."""
    queue.finish(queue.started(slot), JobPid=1, ExitCode=1, JobDuration=0.1)


def submit_autoclusters(queue: DirectQueue, autoclusters: int, *owners: str, each: int = 1) -> None:
    """Jobs of so many autoclusters, whose owners take turns; the oldest autocluster is claimed first."""
    for n in range(autoclusters):
        queue.submit_many(
            [{}] * each, {"Cmd": "/bin/true", "Owner": owners[n % len(owners)], "RequestCpus": n}
        )


def black_holes(queue: DirectQueue) -> list[str]:
    """The hosts that are taken for one."""
    return [
        row[0]
        for row in queue.rows(
            "SELECT Machine FROM fetchwork.hosts WHERE black_hole_since_at IS NOT NULL ORDER BY Machine"
        )
    ]


def test_a_host_that_fails_jobs_of_several_people_in_a_row_is_offered_a_probe_now_and_then(
    queue: DirectQueue,
) -> None:
    queue.set("black_hole_runs", 4)
    queue.set("max_not_started", 1000)
    submit_autoclusters(queue, 20, "alice", "bob")
    for n in range(4):
        fail(queue, f"slot{n}@h1")
    assert queue.rows("SELECT bad_starts, bad_reason, black_hole_since_at IS NULL FROM fetchwork.hosts") == [
        (4, "/usr is empty", False)
    ]
    host_id = queue.host()
    assert queue.candidates(host_id) == []
    assert queue.candidates(queue.host("h2"))
    queue.pass_time(61)
    fail(queue, "slot9@h1")  # the probe
    queue.pass_time(61)
    assert queue.candidates(host_id) == []  # twice as long
    queue.pass_time(61)
    probe = queue.claim()
    assert probe is not None
    assert queue.candidates(host_id, "slot2@h1") == []  # one probe at a time
    queue.start(probe)
    queue.finish(probe)
    assert queue.rows("SELECT bad_starts, black_hole_since_at FROM fetchwork.hosts WHERE Machine = 'h1'") == [
        (0, None)
    ]
    assert queue.candidates(host_id)


def test_jobs_of_one_autocluster_that_fail_tell_nothing_of_their_host(queue: DirectQueue) -> None:
    queue.set("black_hole_runs", 2)
    queue.set("max_not_started", 1000)
    queue.submit_many([{} for _ in range(5)])
    for n in range(4):
        fail(queue, f"slot{n}@h1")
    assert queue.candidates(queue.host())


@pytest.mark.parametrize("failure", [fail, fail_at_once])
def test_jobs_of_one_person_that_fail_everywhere_make_no_black_hole(
    queue: DirectQueue, failure: Callable[..., None]
) -> None:
    queue.set("black_hole_runs", 2)
    submit_autoclusters(queue, 12, "alice")
    for n in range(6):
        failure(queue, f"slot{n}@h1")
        failure(queue, f"slot{n}@h2")
    assert black_holes(queue) == []
    # another one's fail here as well: now it is more than one person's mistake
    queue.submit(Owner="bob", JobPrio=1)
    failure(queue, "slot9@h1")
    assert black_holes(queue) == ["h1"]


def test_accounting_groups_of_one_person_are_one_person(queue: DirectQueue) -> None:
    queue.set("black_hole_runs", 2)
    for group in ("physics.alice", "biology.alice"):
        queue.submit(AccountingGroup=group)
        fail_at_once(queue)
    assert queue.value("SELECT bad_starts FROM fetchwork.hosts") == 2
    assert black_holes(queue) == []


def test_jobs_of_one_person_that_fail_here_and_run_there_make_a_black_hole(queue: DirectQueue) -> None:
    queue.set("black_hole_runs", 3)
    submit_autoclusters(queue, 2, "alice", each=10)
    there = queue.started("slot1@h2")
    fail_at_once(queue)
    queue.submit(RequestCpus=8, JobPrio=1)  # another autocluster, claimed first
    fail_at_once(queue)
    fail_at_once(queue)
    assert black_holes(queue) == []  # the run elsewhere is as young
    queue.pass_time(3)
    fail_at_once(queue)
    assert black_holes(queue) == ["h1"]
    assert queue.status(there.job) == 2


def test_jobs_of_one_person_that_fail_here_and_ended_well_there_make_a_black_hole(queue: DirectQueue) -> None:
    queue.set("black_hole_runs", 2)
    submit_autoclusters(queue, 2, "alice", each=10)
    queue.finish(queue.started("slot1@h2"))
    queue.submit(RequestCpus=8, JobPrio=1)
    fail_at_once(queue)
    assert black_holes(queue) == []
    fail_at_once(queue)
    assert black_holes(queue) == ["h1"]


def test_what_fails_there_too_or_runs_well_here_says_nothing_against_a_host(queue: DirectQueue) -> None:
    queue.set("black_hole_runs", 2)
    submit_autoclusters(queue, 1, "alice", each=10)
    queue.finish(queue.started("slot1@h1"))
    queue.started("slot2@h1")
    fail_at_once(queue, "slot1@h2")
    queue.pass_time(3)
    queue.submit(RequestCpus=8, JobPrio=1)
    fail_at_once(queue)
    fail_at_once(queue)
    assert queue.value("SELECT bad_starts FROM fetchwork.hosts WHERE Machine = 'h1'") == 2
    assert black_holes(queue) == []


def test_what_was_submitted_earlier_and_runs_well_does_not_speak_for_what_fails_now(
    queue: DirectQueue,
) -> None:
    queue.set("black_hole_runs", 2)
    queue.submit()
    queue.submit()
    queue.finish(queue.started("slot1@h2"))
    queue.started("slot2@h2")
    queue.pass_time(3)
    queue.submit(RequestCpus=8)
    fail_at_once(queue)
    queue.submit()
    fail_at_once(queue)
    assert queue.value("SELECT bad_starts FROM fetchwork.hosts WHERE Machine = 'h1'") == 2
    assert black_holes(queue) == []


def test_of_a_failing_host_the_last_eight_autoclusters_are_kept(queue: DirectQueue) -> None:
    queue.set("black_hole_runs", 11)
    submit_autoclusters(queue, 10, "alice")
    for _ in range(10):
        fail_at_once(queue)
    queue.submit(Owner="bob")
    fail_at_once(queue)
    assert queue.value("SELECT cardinality(bad_autoclusters) FROM fetchwork.host") == 8
    assert black_holes(queue) == ["h1"]


def test_jobs_that_fail_at_once_count_and_those_that_ran_a_while_do_not(queue: DirectQueue) -> None:
    queue.set("black_hole_runs", 2)
    submit_autoclusters(queue, 4, "alice", "bob")
    for duration, bad in [(10.0, 0), (0.1, 1), (0.1, 2)]:
        run = queue.started()
        queue.finish(run, JobPid=1, ExitCode=1, JobDuration=duration)
        assert queue.value("SELECT bad_starts FROM fetchwork.hosts") == bad
    assert queue.candidates(queue.host()) == []


def test_an_administrator_clears_a_host(queue: DirectQueue) -> None:
    queue.set("black_hole_runs", 2)
    submit_autoclusters(queue, 4, "alice", "bob")
    for _ in range(2):
        fail_at_once(queue)
    assert queue.candidates(queue.host()) == []
    assert queue.scalar("clear_host", host="h1") is True
    assert queue.scalar("clear_host", host="nowhere") is False
    assert queue.candidates(queue.host())


def test_an_offer_whose_answer_was_lost_ends_when_its_slot_asks_again(queue: DirectQueue) -> None:
    queue.submit()
    queue.submit()
    lost = queue.claim()
    assert lost is not None
    # REPLY_FETCH may still be on its way
    assert queue.scalar("slot_is_free", host_id=queue.host(), slot="slot1@h1") == 0
    queue.pass_time(3)
    assert queue.claim() is not None
    assert queue.outcome(lost) == "expired"
    assert queue.status(lost.job) == 1
    queue.check()
