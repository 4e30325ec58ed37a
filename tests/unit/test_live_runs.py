"""The states of a live run: the table of its transitions, and what it refuses."""

from typing import Any, cast, get_args

import pytest

from fetchwork.handlers.host.runs import TRANSITIONS, LiveRun, Runs, RunState
from fetchwork.process import Process

STATES: tuple[RunState, ...] = get_args(RunState)


def run_in(state: RunState) -> LiveRun:
    return LiveRun(1, "token", cast("Any", None), "slot1", "1.0", owner="alice", state=state)


@pytest.mark.parametrize("after", STATES)
@pytest.mark.parametrize("before", STATES)
def test_a_transition_that_the_table_does_not_have_changes_nothing(before: RunState, after: RunState) -> None:
    run = run_in(before)
    run.cause = "earlier"
    allowed = after in TRANSITIONS[before]
    assert run.become(after, "now") is allowed
    assert (run.state, run.cause) == ((after, "now") if allowed else (before, "earlier"))


def test_every_state_ends_and_none_comes_back() -> None:
    assert set(TRANSITIONS) == set(STATES)
    assert all("ended" in TRANSITIONS[state] for state in STATES if state != "ended")
    # each state leads only to states that come later in the list
    assert all(STATES.index(after) > STATES.index(state) for state in STATES for after in TRANSITIONS[state])


@pytest.mark.parametrize("state", ["running", "end_asked", "recalled", "killed"])
def test_an_accept_or_a_start_that_comes_late_changes_no_state(state: RunState) -> None:
    run = run_in(state)
    Runs().started(run, Process(1, 1), "slot1")
    assert run.state == state and not run.become("accepted") and not run.become("unconfirmed", "no answer")
    assert run.is_running


def test_a_job_that_is_killed_keeps_the_cause_whatever_is_asked_afterwards() -> None:
    run = run_in("running")
    assert run.become("end_asked") and run.become("killed", "cut off")
    assert not run.become("end_asked") and not run.become("killed", "another cause")
    assert run.cause == "cut off"


@pytest.mark.parametrize("state", ["reserved", "accepted"])
def test_a_start_without_an_answer_may_be_repeated(state: RunState) -> None:
    run = run_in(state)
    assert run.become("unconfirmed", "database is starting up")
    assert not run.is_running and run.waits_for_starter
    Runs().started(run, Process(1, 1), "slot1")
    assert run.is_running and run.cause is None


def test_a_run_that_ended_while_its_start_was_recorded_stays_ended() -> None:
    run = run_in("ended")
    Runs().started(run, Process(1, 1), "slot1")
    assert run.ended and not run.is_running


def test_a_run_is_reporting_until_the_last_of_its_reports_is_done() -> None:
    run = run_in("running")
    with run.reporting():
        with run.reporting():
            assert run.exiting == 2
        assert run.exiting == 1
        run.changed.clear()
    assert run.exiting == 0 and run.changed.is_set()
