"""The backoff of a job of the scheduler universe that ends at once, again and again."""

import pytest

from fetchwork.accesspoint import backoff
from fetchwork.accesspoint.backoff import FIRST_S, LONGEST_S, QUICK_S, Restarts


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def run(jobs: Restarts, clock: Clock, seconds: float, job: str = "1.0") -> float:
    """Run a job once; return the wait for its next turn."""
    jobs.began(job)
    clock.now += seconds
    jobs.ended(job)
    return jobs.delay_s(job)


def test_the_first_crash_costs_nothing_and_each_further_one_twice_as_much(clock: Clock) -> None:
    jobs = Restarts(clock)
    delays = [run(jobs, clock, 0.1) for _ in range(12)]
    assert delays[:5] == pytest.approx([0, FIRST_S, 2 * FIRST_S, 4 * FIRST_S, 8 * FIRST_S])
    assert delays[-1] == pytest.approx(LONGEST_S)
    for _ in range(3000):
        assert run(jobs, clock, 0.1) == pytest.approx(LONGEST_S)
    assert jobs.delay_s("2.0") == 0


def test_time_that_passes_is_waited_for_once(clock: Clock) -> None:
    jobs = Restarts(clock)
    for _ in range(4):
        delay = run(jobs, clock, 0.1)
    clock.now += delay - 1
    assert jobs.delay_s("1.0") == pytest.approx(1)
    clock.now += 5
    assert jobs.delay_s("1.0") == 0


def test_one_that_ran_for_a_while_begins_anew(clock: Clock) -> None:
    jobs = Restarts(clock)
    for _ in range(4):
        run(jobs, clock, 0.1)
    assert run(jobs, clock, QUICK_S) == 0
    assert run(jobs, clock, 0.1) == 0


def test_what_did_not_start_is_no_end(clock: Clock) -> None:
    jobs = Restarts(clock)
    for _ in range(5):
        jobs.ended("1.0")
    assert jobs.delay_s("1.0") == 0


def test_the_oldest_are_forgotten(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "MOST", 2)
    jobs = Restarts(clock)
    for job in ("1.0", "1.0", "2.0", "2.0", "3.0", "3.0"):
        run(jobs, clock, 0.1, job)
    assert [jobs.delay_s(job) > 0 for job in ("1.0", "2.0", "3.0")] == [False, True, True]
