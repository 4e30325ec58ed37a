"""The choice and time of a real slot's job, and policies' effects on it: by an agent, on real HTCondor."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchwork.agent.client import status
from fetchwork.explain.job import analyze
from fetchwork.explain.slot import match
from fetchwork.pool import PersonalPool
from fetchwork.queue import Queue
from tests.support.by_name import call
from tests.support.sessions import session_of
from tests.support.waiting import PATIENCE_S

# refuses an offer by an attribute that the agent cannot evaluate: only the fetched ad has a run's number
REFUSES_ALICE = 'START = TARGET.FetchWorkRunId =?= undefined || TARGET.Owner == "bob"'


class PoolWithQueue:
    """A pool, and the queue that its slots fetch from."""

    def __init__(self, pool: PersonalPool) -> None:
        self.personal = pool
        self.queue = Queue(pool.conninfo)
        self.socket = str(pool.directory / "run/agent.sock")

    def submit(self, script: str, count: int = 1, **ad: Any) -> list[str]:
        """Submit jobs of alice that run a shell script; return their ids."""
        common = {"Cmd": "/bin/sh", "Arguments": f"-c '{script}'", "Owner": "alice", "Iwd": "/tmp", **ad}
        result = self.queue.submit([common] * count)
        return [f"{result.cluster()}.{proc}" for proc in range(count)]

    def one(self, sql: str, *parameters: Any) -> dict[str, Any] | None:
        rows = session_of(self.queue).database.query(sql, list(parameters))
        return rows[0] if rows else None

    def until(self, what: str, found: Callable[[], Any], timeout_s: float = PATIENCE_S) -> Any:
        end = time.monotonic() + timeout_s
        while not (value := found()):
            if time.monotonic() > end:
                jobs = session_of(self.queue).database.query(
                    "SELECT jobid, jobstatus, lastreason, holdreason FROM fetchwork.jobs"
                )
                pytest.fail(f"not within {timeout_s} s: {what}; the queue: {jobs}")
            time.sleep(0.02)
        return value

    def running(self, job: str) -> dict[str, Any]:
        """The job's run, once an update has reported its process."""
        row = self.until(
            f"job {job} runs",
            lambda: self.one(
                "SELECT * FROM fetchwork.runs WHERE jobid = %s AND outcome IS NULL AND jobpid IS NOT NULL",
                job,
            ),
        )
        return dict(row)

    def ended(self, job: str) -> dict[str, Any]:
        """The job's row in history."""
        row = self.until(
            f"job {job} ends", lambda: self.one("SELECT * FROM fetchwork.history WHERE jobid = %s", job)
        )
        return dict(row)

    def outcomes(self, job: str) -> list[str]:
        """The outcomes of the job's runs, the oldest first."""
        rows = session_of(self.queue).database.query(
            "SELECT outcome FROM fetchwork.runs WHERE jobid = %s AND outcome IS NOT NULL ORDER BY runid",
            [job],
        )
        return [row["outcome"] for row in rows]

    def file(self, name: str) -> Any:
        """A file in the jobs' /tmp that every account may write to."""
        path = self.personal.directory / "tmp" / name
        path.touch()
        path.chmod(0o666)
        return path


@pytest.fixture(scope="module")
def pool_with(make_pool: Callable[..., PersonalPool]) -> Iterator[Callable[..., PoolWithQueue]]:
    """Starts pools with an agent; each is stopped before the next starts."""
    started: list[PoolWithQueue] = []

    def stop() -> None:
        for pool in started:
            pool.queue.close()
            pool.personal.stop()
        started.clear()

    def make(**settings: Any) -> PoolWithQueue:
        stop()
        started.append(PoolWithQueue(make_pool(**settings)))
        return started[-1]

    yield make
    stop()


# ---- the delay; tests/benchmarks/bench_start.py measures it


def test_job_takes_the_fetch_that_was_held_before_it_came(pool_with: Callable[..., PoolWithQueue]) -> None:
    pool = pool_with(slots=1, host={"keyword": {"FETCHWORK": {"fetch_delay_s": 600}}})
    pool.until("a fetch is held", lambda: status(Path(pool.socket), PATIENCE_S)["waiting_fetches"])
    (job,) = pool.submit("true")
    # the slot's next fetch is ten minutes away
    assert pool.ended(job)["exitcode"] == 0


# ---- policies, refusals, preemption


@pytest.fixture(scope="module")
def pool(pool_with: Callable[..., PoolWithQueue]) -> PoolWithQueue:
    """Two static slots, whose running jobs' policies are checked every other second."""
    return pool_with(slots=2, config="STARTER_UPDATE_INTERVAL = 2\n")


def test_analysis_and_match_speak_of_the_real_slots(pool: PoolWithQueue) -> None:
    database = session_of(pool.queue).database
    (job,) = pool.submit("true", Requirements="/Expr(TARGET.Memory > 999999)/")
    slots = pool.until(
        "both slots have told their ads",
        lambda: (rows := database.query("SELECT name, ad FROM fetchwork.slots")) and len(rows) == 2 and rows,
    )
    found = analyze(session_of(pool.queue), *map(int, job.split(".")))
    assert found.verdicts == {"job_refuses": 2}
    assert [(clause.text, clause.false) for clause in found.clauses] == [("TARGET.Memory > 999999", 2)]
    told = match(session_of(pool.queue), slots[0]["name"])
    assert (told.queues, told.passed_over) == (["default"], {"job_refuses": 1})
    call(database, "remove", jobs=[job])


def test_job_that_fails_is_tried_again_as_its_description_says(pool: PoolWithQueue) -> None:
    pool.file("tries")
    description = """
        executable = /bin/sh
        arguments = "-c 'echo try >> /tmp/tries; test `wc -l < /tmp/tries` -ge 3'"
        initialdir = /tmp
        max_retries = 5
        queue
    """
    result = pool.queue.submit(description, owner="alice")
    ended = pool.ended(f"{result.cluster()}.0")
    assert (ended["jobstatus"], ended["exitcode"]) == (4, 0)
    assert (ended["numjobstarts"], ended["numjobcompletions"]) == (3, 3)


def test_job_that_fails_too_often_ends_with_its_last_exit_code(pool: PoolWithQueue) -> None:
    description = """
        executable = /bin/sh
        arguments = "-c 'exit 7'"
        initialdir = /tmp
        max_retries = 1
        queue
    """
    result = pool.queue.submit(description, owner="alice")
    ended = pool.ended(f"{result.cluster()}.0")
    assert (ended["jobstatus"], ended["exitcode"], ended["numjobstarts"]) == (4, 7, 2)


def test_running_job_is_removed_by_its_own_policy(pool: PoolWithQueue) -> None:
    policy = "/Expr(JobStatus == 2 && time() - EnteredCurrentStatus > 3)/"
    (job,) = pool.submit("sleep 1000", PeriodicRemove=policy)
    run = pool.running(job)
    ended = pool.ended(job)
    assert ended["jobstatus"] == 3
    assert "PeriodicRemove" in ended["lastreason"]
    assert pool.outcomes(job) == ["removed"]
    assert not process_lives(run["jobpid"], "sleep")


def process_lives(pid: int, name: str) -> bool:
    try:
        with open(f"/proc/{pid}/comm") as comm:
            return comm.read().strip() in (name, "sh")
    except FileNotFoundError:
        return False


def test_job_of_much_higher_priority_takes_the_slot_of_a_running_one(pool: PoolWithQueue) -> None:
    database = session_of(pool.queue).database
    call(database, "set_queue", name="default", changes={"preempt_prio": 10})
    try:
        low = pool.submit("sleep 1000", count=2)
        for job in low:
            pool.running(job)
        (near,) = pool.submit("sleep 1000", JobPrio=9)
        (high,) = pool.submit("sleep 3", JobPrio=10)
        pool.running(high)
        (victim,) = (job for job in low if "vacated" in pool.outcomes(job))
        row = pool.one(
            "SELECT numevicted, numnotstarted, numlost FROM fetchwork.jobs WHERE jobid = %s", victim
        )
        assert row == {"numevicted": 0, "numnotstarted": 0, "numlost": 0}
        # its preemption failed, but it comes before the victim
        pool.ended(high)
        pool.running(near)
        assert pool.one("SELECT jobstatus FROM fetchwork.jobs WHERE jobid = %s", victim) == {"jobstatus": 1}
    finally:
        call(database, "set_queue", name="default", changes={"preempt_prio": None})
        left = database.query("SELECT jobid FROM fetchwork.jobs")
        call(database, "remove", jobs=[job["jobid"] for job in left])
        pool.until(
            "the slots are free",
            lambda: not database.query("SELECT jobid FROM fetchwork.runs WHERE outcome IS NULL"),
        )


def test_refused_kind_of_job_rests_longer_each_time_and_others_are_offered(
    pool_with: Callable[..., PoolWithQueue],
) -> None:
    pool = pool_with(slots=1, config=REFUSES_ALICE)
    call(session_of(pool.queue).database, "set_setting", name="refusal_rest", value=2)
    (alices,) = pool.submit("true", JobPrio=10)

    def rest() -> dict[str, Any] | None:
        return pool.one("SELECT refusals, rest_until_at FROM fetchwork.rests")

    pool.until("the startd refuses it", rest)
    (bobs,) = pool.submit("true", Owner="bob")
    assert pool.ended(bobs)["jobstatus"] == 4
    later = pool.until("it is offered again", lambda: (found := rest()) and found["refusals"] >= 2 and found)
    offers = session_of(pool.queue).database.query(
        "SELECT claimed_at, outcome FROM fetchwork.runs WHERE jobid = %s AND outcome IS NOT NULL"
        " ORDER BY runid",
        [alices],
    )
    assert {offer["outcome"] for offer in offers} == {"rejected"}
    assert (offers[1]["claimed_at"] - offers[0]["claimed_at"]).total_seconds() >= 2
    last = offers[later["refusals"] - 1]
    assert (later["rest_until_at"] - last["claimed_at"]).total_seconds() >= 2 ** later["refusals"]
    job = pool.one("SELECT jobstatus, numnotstarted FROM fetchwork.jobs WHERE jobid = %s", alices)
    assert job == {"jobstatus": 1, "numnotstarted": 0}


# ---- a partitionable slot


def test_partitionable_slot_is_filled_and_its_dynamic_slots_are_used_again(
    pool_with: Callable[..., PoolWithQueue],
) -> None:
    pool = pool_with(slots=4, partitionable=True, config="STARTER_UPDATE_INTERVAL = 2\n")
    go = pool.personal.directory / "tmp/go"
    waits = "until test -e /tmp/go; do sleep 0.1; done"
    long = pool.submit(waits, count=2, RequestCpus=1, RequestMemory=64)
    (large,) = pool.submit(waits, RequestCpus=2, RequestMemory=64)
    (too_large,) = pool.submit("true", RequestCpus=3, RequestMemory=64, JobPrio=-1)
    slots = {pool.running(job)["remotehost"].partition("@")[0] for job in [*long, large]}
    assert slots == {"slot1_1", "slot1_2", "slot1_3"}
    # 4 cores are in use at the same moment, and jobs that do not fit wait
    alive = session_of(pool.queue).database.query("SELECT jobid FROM fetchwork.runs WHERE outcome IS NULL")
    assert {row["jobid"] for row in alive} == {*long, large}
    go.touch()
    assert pool.ended(too_large)["jobstatus"] == 4

    # one dynamic slot runs a row of short jobs under one claim
    short = pool.submit("true", count=6, RequestCpus=4, RequestMemory=64)
    for job in short:
        pool.ended(job)
    log = (pool.personal.condor.log / "StartLog").read_text()
    rows = session_of(pool.queue).database.query(
        "SELECT DISTINCT split_part(remotehost, '@', 1) AS slot FROM fetchwork.runs WHERE jobid = ANY (%s)",
        [short],
    )
    assert len(rows) < 6, "each job had a new dynamic slot"
    assert "Aborting" not in log
