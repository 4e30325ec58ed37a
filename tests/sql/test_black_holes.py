"""Hosts on which jobs fail one after the other: the rule for black holes, and the jobs offered to them."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.direct_queue import Claimed, DirectQueue
from tests.support.there import there


def claim(queue: DirectQueue, slots: int = 1, host: str = "h1") -> list[dict[str, Any]]:
    """The jobs that this many slots of a host get, when an agent asks for all that waits."""
    return queue.claim_many(queue.host(host), *(f"slot{n}@{host}" for n in range(1, slots + 1)))


def owners(rows: list[dict[str, Any]]) -> list[str]:
    return [row["owner"] for row in rows]


def started(queue: DirectQueue, row: dict[str, Any]) -> Claimed:
    """Let a run of claim_many be accepted and start."""
    job = f"{row['cluster_id']}.{row['proc_id']}"
    run = Claimed(row["run_id"], row["token"], job, row["position"], row["ad"], 0)
    queue.of(run, "accept")
    assert queue.start(run) is None
    return run


def fail_probe(queue: DirectQueue) -> str:
    """Let the host's offer fail at once; return the job's owner."""
    (row,) = claim(queue)
    run = started(queue, row)
    queue.finish(run, JobPid=1, ExitCode=1, JobDuration=0.1)
    return str(row["owner"])


def make_black_hole(queue: DirectQueue, *people: str, each: int = 3) -> None:
    """Let this many jobs of each of these owners fail at once."""
    for n in range(each):
        for owner in people:
            queue.submit(Owner=owner, JobPrio=100, RequestCpus=n)
            fail_at_once(queue)
    assert black_holes(queue) == ["h1"]


def fail(queue: DirectQueue, slot: str = "slot1@h1") -> None:
    """Let the next job on this slot fail to start."""
    run = there(queue.claim(slot))
    queue.of(run, "refuse_start", reason="/usr is empty")


def fail_at_once(queue: DirectQueue, slot: str = "slot1@h1") -> None:
    """Let the next job on this slot start and end at once, without success."""
    queue.finish(queue.started(slot), JobPid=1, ExitCode=1, JobDuration=0.1)


def submit_autoclusters(queue: DirectQueue, autoclusters: int, *owners: str, each: int = 1) -> None:
    """Submit jobs of this many autoclusters, whose owners take turns; the oldest is claimed first."""
    for n in range(autoclusters):
        queue.submit_many(
            [{}] * each, {"Cmd": "/bin/true", "Owner": owners[n % len(owners)], "RequestCpus": n}
        )


def black_holes(queue: DirectQueue) -> list[str]:
    """The hosts that count as black holes."""
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
    assert queue.candidates(host_id) == []  # the backoff is twice as long
    queue.pass_time(61)
    probe = there(queue.claim())
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
    # another owner's fail here as well: now it is more than one owner's mistake
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


def test_failing_jobs_of_one_person_and_one_of_another_make_no_black_hole(queue: DirectQueue) -> None:
    submit_autoclusters(queue, 2, "mallory", each=30)
    for _ in range(20):
        fail_at_once(queue)
    queue.submit(Owner="bob", JobPrio=1)
    fail_at_once(queue)
    for _ in range(20):
        fail_at_once(queue)
    assert black_holes(queue) == []
    queue.submit(Owner="carol")
    assert sorted(set(owners(claim(queue, 30)))) == ["carol", "mallory"]


def test_a_job_that_fails_to_start_again_and_again_is_one_bad_job(queue: DirectQueue) -> None:
    queue.set("max_not_started", 1000)
    submit_autoclusters(queue, 2, "mallory", each=10)
    for _ in range(10):
        fail_at_once(queue)
    queue.submit(Owner="bob", JobPrio=1)
    for _ in range(6):
        fail(queue)
        queue.pass_time(10_000)
        queue.scalar("wake")
    assert black_holes(queue) == []


def test_one_person_with_many_autoclusters_is_one_person(queue: DirectQueue) -> None:
    submit_autoclusters(queue, 40, "mallory")
    for _ in range(40):
        fail_at_once(queue)
    assert black_holes(queue) == []


def test_a_probe_of_a_person_whose_jobs_have_not_failed_there_may_start_at_once(queue: DirectQueue) -> None:
    make_black_hole(queue, "mallory", "trudy")
    queue.submit_many([{}] * 5, {"Cmd": "/bin/false", "Owner": "mallory"})
    queue.submit_many([{}] * 5, {"Cmd": "/bin/false", "Owner": "trudy"})
    queue.submit_many([{}] * 5, {"Cmd": "/bin/true", "Owner": "carol"})
    rows = claim(queue, 4)
    assert owners(rows) == ["carol"]
    assert claim(queue, 4) == []
    queue.finish(started(queue, rows[0]))
    assert black_holes(queue) == []
    assert len(claim(queue, 4)) == 4


def test_probes_of_those_whose_jobs_failed_delay_no_probe_of_another(queue: DirectQueue) -> None:
    make_black_hole(queue, "mallory", "trudy")
    queue.submit_many([{}] * 9, {"Cmd": "/bin/false", "Owner": "mallory"})
    for rest in (61, 121, 241):
        assert claim(queue, 4) == []
        queue.pass_time(rest)
        assert fail_probe(queue) == "mallory"
    queue.submit(Owner="carol")
    assert owners(claim(queue, 4)) == ["carol"]


def test_a_probe_that_takes_long_to_begin_keeps_nobody_else_out(queue: DirectQueue) -> None:
    make_black_hole(queue, "mallory", "trudy")
    queue.submit_many([{}] * 3, {"Cmd": "/bin/false", "Owner": "mallory"})
    queue.pass_time(61)
    assert owners(claim(queue, 4)) == ["mallory"]
    queue.submit(Owner="carol")
    assert owners(claim(queue, 4)) == ["carol"]
    queue.submit(Owner="dave")
    assert claim(queue, 4) == []
    queue.pass_time(61)
    assert "dave" in owners(claim(queue, 1) + claim(queue, 1))


def test_those_whose_jobs_failed_take_turns_with_their_probes(queue: DirectQueue) -> None:
    make_black_hole(queue, "mallory", "bob")
    queue.submit_many([{}] * 9, {"Cmd": "/bin/false", "Owner": "mallory"})
    queue.submit_many([{}] * 9, {"Cmd": "/bin/false", "Owner": "bob"})
    probes = []
    for rest in (61, 121, 241, 481):
        queue.pass_time(rest)
        probes.append(fail_probe(queue))
    assert probes == ["mallory", "bob", "mallory", "bob"]


def test_of_a_broken_host_each_new_person_loses_a_job_more_and_more_seldom(queue: DirectQueue) -> None:
    make_black_hole(queue, "alice", "bob")
    for n in range(4):
        queue.submit(Owner=f"new{n}")
    assert fail_probe(queue) == "new0"
    for n, rest in enumerate((61, 121, 241), 1):
        assert claim(queue, 4) == []
        queue.pass_time(rest)
        assert "new" in fail_probe(queue), n


def test_a_job_that_goes_on_well_ends_a_black_hole(queue: DirectQueue) -> None:
    make_black_hole(queue, "mallory", "trudy")
    queue.submit(Owner="carol")
    (row,) = claim(queue)
    started(queue, row)
    queue.scalar("notice_good_runs")
    assert black_holes(queue) == ["h1"]
    queue.pass_time(3)
    queue.connection.execute("UPDATE fetchwork.run SET claimed_at = now()")
    queue.call("maintain_queue")
    assert black_holes(queue) == []


def test_a_host_on_which_a_job_goes_on_well_becomes_no_black_hole(queue: DirectQueue) -> None:
    submit_autoclusters(queue, 2, "mallory", "trudy", each=10)
    fail_at_once(queue)
    queue.submit(Owner="carol", JobPrio=1)
    queue.started("slot2@h1")
    queue.pass_time(3)
    for _ in range(5):
        fail_at_once(queue)
        queue.submit(Owner="trudy", JobPrio=1)
        fail_at_once(queue)
    assert black_holes(queue) == []


def test_those_whose_jobs_failed_where_others_ran_well_make_no_black_hole_again(queue: DirectQueue) -> None:
    make_black_hole(queue, "mallory", "trudy")
    queue.submit(Owner="carol")
    (row,) = claim(queue)
    queue.finish(started(queue, row))
    for owner in ("mallory", "trudy") * 5:
        queue.submit(Owner=owner)
        fail_at_once(queue)
    assert black_holes(queue) == []
    # the host's later successes count for it again
    for owner in ("mallory", "trudy"):
        queue.submit(Owner=owner)
        queue.finish(queue.started())
    make_black_hole(queue, "mallory", "trudy")


def test_jobs_of_one_person_that_fail_here_and_run_there_are_kept_off_that_host(queue: DirectQueue) -> None:
    queue.set("black_hole_runs", 3)
    submit_autoclusters(queue, 2, "alice", each=10)
    queue.started("slot1@h2")
    fail_at_once(queue)
    queue.submit(RequestCpus=8, JobPrio=1)  # another autocluster, claimed first
    fail_at_once(queue)
    fail_at_once(queue)
    assert len(claim(queue, 2)) == 2  # the run elsewhere is as young
    queue.pass_time(3)
    fail_at_once(queue)
    queue.submit(Owner="carol")
    assert owners(claim(queue, 4)) == ["carol"]
    assert black_holes(queue) == []
    assert queue.value("SELECT failing_owners FROM fetchwork.hosts WHERE Machine = 'h1'") == ["alice"]
    queue.pass_time(61)
    (probe,) = claim(queue, 4)
    queue.finish(started(queue, probe))
    assert owners(claim(queue, 2)) == ["alice", "alice"]


def test_jobs_of_one_person_that_ended_well_elsewhere_are_kept_off_that_host(queue: DirectQueue) -> None:
    queue.set("black_hole_runs", 2)
    submit_autoclusters(queue, 2, "alice", each=10)
    queue.finish(queue.started("slot1@h2"))
    queue.submit(RequestCpus=8, JobPrio=1)
    fail_at_once(queue)
    fail_at_once(queue)
    assert claim(queue) == []
    # the other host is the only one left, so it goes on no matter how many jobs fail
    queue.submit(RequestCpus=8, JobPrio=1)
    for _ in range(4):
        fail_at_once(queue, "slot1@h2")
    assert len(claim(queue, 2, "h2")) == 2
