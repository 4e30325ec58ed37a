"""kill -9 of each part of a host, and of PostgreSQL, while jobs run: none is lost, none runs twice at once.

With few and with all hooks, and with jobs in chains. The measured times are printed (``pytest -s``).
"""

import time
from collections.abc import Callable, Iterator

import pytest

from fetchwork.pool import PersonalPool
from tests.condor.compiled_hooks import compile_hooks, hook_directory
from tests.condor.conftest import ALL_HOOKS, RESTARTS
from tests.condor.worst_day import Job, WorstDay


@pytest.fixture(scope="module")
def broken_pool(pool_mode: str, make_pool: Callable[..., PersonalPool]) -> PersonalPool:
    """One pool for all faults of these tests."""
    more = ALL_HOOKS["agent"] if pool_mode == "all_hooks" else {}
    chains = {"keyword": {"FETCHWORK": {"chain_s": 3600}}} if pool_mode == "chains" else {}
    host = {"agent": {"log_level": "debug", **more}, **chains}
    pool = make_pool(slots=2, config=RESTARTS, host=host)
    if pool_mode == "chains":
        compile_hooks(hook_directory(pool))
    return pool


@pytest.fixture(scope="module")
def whole_day(broken_pool: PersonalPool) -> WorstDay:
    return WorstDay(broken_pool)


@pytest.fixture
def day(whole_day: WorstDay) -> Iterator[WorstDay]:
    """The pool in good order, before and after."""
    yield whole_day
    whole_day.settle()


@pytest.fixture
def may_signal(pool_mode: str) -> bool:
    """Whether the agent may end jobs, and so does without most hooks."""
    return pool_mode != "all_hooks"


def report(what: str, seconds: float) -> None:
    print(f"\n{what}: {seconds:.2f} s")


def test_job_of_a_killed_starter_is_idle_again_before_its_lease_ends(day: WorstDay) -> None:
    job = day.submit(1000)
    day.until_running(job)
    killed_at = day.kill("condor_starter")
    day.until(lambda: len(day.stamps(job, "start")) == 2)
    idle_at, reason = day.lost(job)
    report(f"kill -9 of a starter to Idle ({reason})", idle_at - killed_at)
    # noticed by the agent, not by the database's timeout
    assert reason not in ("its host fell silent", "no update came in time")


def test_jobs_of_a_killed_startd_run_again(day: WorstDay) -> None:
    job = day.submit(1000)
    day.until_running(job, pid_known=False)
    killed_at = day.kill("condor_startd")
    day.until(lambda: len(day.stamps(job, "start")) == 2)
    idle_at, reason = day.lost(job)
    report(f"kill -9 of the startd to Idle ({reason})", idle_at - killed_at)


def test_agent_that_was_killed_finds_its_runs_again(day: WorstDay, may_signal: bool) -> None:
    waits, ends = day.submit(), day.submit(code=7)
    day.until_running(waits, pid_known=False)
    day.until_running(ends, pid_known=False)
    since, idle, log_before = day.log_end, day.submit(0.1), len(day.start_log)
    # One job ends while no agent listens: JOB_EXIT spools its report, and its slot gets no work.
    day.let_go(ends)
    refused = "fetchwork fetch_work: cannot connect to agent socket"
    day.keep_agent_dead(until=lambda: (may_signal or day.spooled) and refused in day.start_log[log_before:])
    assert (day.status(ends), day.status(idle)) == (2, 1)
    day.until(lambda: day.status(ends) == 4 and day.status(idle) == 4)
    # on a busy machine the hook may end before it has printed the new agent's offer, which is then made again
    *others, last = day.outcomes(idle)
    assert last == "completed"
    assert set(others) <= {"withdrawn"}
    assert day.tries(idle) == 1
    day.until(lambda: day.logged("run_adopted", since))
    day.let_go(waits)
    day.until(lambda: day.status(waits) == 4)
    assert (day.tries(waits), day.tries(ends)) == (1, 1)


def test_postgresql_may_crash_while_jobs_run_and_end(day: WorstDay) -> None:
    postgres, since = day.pool.postgres, day.log_end
    waits, ends = day.submit(), day.submit(code=7)
    day.until_running(waits, pid_known=False)
    day.until_running(ends, pid_known=False)
    postgres.crash()
    day.let_go(ends)
    day.until(lambda: day.spooled)

    # a slot asks meanwhile
    began = time.monotonic()
    hook = str(day.pool.directory / "hooks/FETCHWORK/fetch_work")
    slot = 'Name = "slot9@nowhere"\nState = "Unclaimed"\nActivity = "Idle"\nCpus = 1\nMemory = 512\n'
    fetch = day.pool.run_command([hook], user="condor", input=slot)
    report("FETCH_WORK with the database stopped", time.monotonic() - began)
    assert (fetch.returncode, fetch.stdout) == (0, "")
    assert fetch.stderr.startswith("fetchwork fetch_work: ")

    postgres.start()
    back_at = time.time()
    later = day.submit(0.1)
    day.until(lambda: day.stamps(later, "start"))
    claimed_at = day.claimed_at(later)
    report("database back to the first job fetched", claimed_at - back_at)
    day.until(lambda: day.logged("database_away", since) and day.logged("database_back", since))
    day.let_go(waits)
    day.until(lambda: day.status(waits) == 4 and day.status(ends) == 4)
    assert (day.tries(waits), day.tries(ends)) == (1, 1)


def test_postgresql_may_crash_at_any_moment_of_short_jobs(day: WorstDay) -> None:
    for _ in range(12):
        day.submit(0.1, later=0.1)
    day.until(lambda: day.value("SELECT count(*) FROM fetchwork.job_history WHERE job_status = 4"))
    for _ in range(2):
        time.sleep(0.7)
        day.pool.postgres.crash()
        day.pool.postgres.start()


def test_orderly_end_of_the_startd_evicts_jobs(day: WorstDay) -> None:
    job = day.submit(1000)
    day.until_running(job, pid_known=False)
    off = day.pool.run_command(["condor_off", "-daemon", "startd"])
    assert off.returncode == 0, off.stderr
    day.until(lambda: day.status(job) == 1)
    day.until(lambda: not day.family("condor_startd"))
    # a startd that is ending may still fetch, and then rejects the job, or ends before it can reject it
    first, *others = day.outcomes(job)
    on = day.pool.run_command(["condor_on", "-daemon", "startd"])
    assert on.returncode == 0, on.stderr
    assert first == "evicted"
    assert set(others) <= {"rejected", "withdrawn"}


def test_orphan_of_a_killed_master_does_not_run_beside_itself(day: WorstDay, may_signal: bool) -> None:
    if not may_signal:
        pytest.skip("the next test has it with an agent that may not end it")
    job, since = day.submit(), day.log_end
    day.until_running(job)
    first = day.agent
    day.kill_master()
    # starter and startd notice it by themselves after ten seconds
    day.until(lambda: day.logged("orphan", since))
    assert day.agent == first
    # its agent ends it through its privileged part
    day.until(lambda: day.status(job) == 1)
    beside = _new_master_serves_others(day)
    # the new master's agent has replaced the one that the killed master had started
    assert day.agent != first
    day.until(lambda: day.logged("master_gone", since))
    day.until(lambda: day.status(job) == 4)
    assert day.tries(beside) == 1
    assert day.tries(job) == 2


def test_orphan_is_found_when_all_daemons_were_killed(
    day: WorstDay, may_signal: bool, pool_mode: str
) -> None:
    # in chains it follows another job: its starter knows nothing of it
    before = [day.submit(1) for _ in range(2)] if pool_mode == "chains" else []
    job = day.submit()
    day.until_running(job)
    chain = day.value("SELECT chain FROM fetchwork.run WHERE cluster_id = %s", job.cluster)
    assert (chain is not None) == bool(before)
    agent = day.agent
    day.kill_all_of_condor(*([agent] if agent else []))
    _new_master_serves_others(day)
    if not may_signal:
        # the orphan cannot be ended, so the run waits for its end
        assert day.status(job) == 2
        assert len(day.stamps(job, "start")) == 1
        day.let_go(job)
    day.until(lambda: day.status(job) == 4)
    assert day.tries(job) == 2


def _new_master_serves_others(day: WorstDay) -> Job:
    other = day.submit(0.1)
    day.start_master()
    day.until(lambda: day.status(other) == 4)
    return other
