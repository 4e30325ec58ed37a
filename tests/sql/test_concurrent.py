"""Every session does everything at once: no deadlock, only the callers' own errors, all invariants hold."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import Claimed, DirectQueue
from tests.support.invariants import violations

SESSIONS = 8
SECONDS = 4.0

# errors of a caller that names a run or a job that has gone meanwhile
EXPECTED = ("FWNOT", "FWDEN", "FWTOK")


class Session:
    """One of the sessions that work on the queue; its acts are drawn from its own random numbers."""

    def __init__(self, conninfo: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.connection = psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)
        self.queue = DirectQueue(self.connection)
        self.slots = [f"slot{n}@h{seed % 3}" for n in range(1, 4)]
        self.host_id = self.queue.host(f"h{seed % 3}")
        self.runs: list[Claimed] = []
        self.done: Counter[str] = Counter()

    def jobs(self, most: int = 5) -> list[str]:
        known = [
            row[0] for row in self.queue.rows("SELECT JobId FROM fetchwork.jobs ORDER BY ClusterId, ProcId")
        ]
        return self.random.sample(known, min(len(known), self.random.randint(1, most))) or ["1.0"]

    def a_run(self) -> Claimed | None:
        return self.random.choice(self.runs) if self.runs else None

    def submit(self) -> None:
        ads: list[dict[str, Any]] = [
            {
                "Cmd": "/bin/true",
                "Owner": self.random.choice(["alice", "bob"]),
                "JobPrio": self.random.randint(0, 2),
                "RequestMemory": self.random.randint(1, 6),
                "JobBatchName": self.random.choice(["one", "two"]),
                **({"JobStatus": 5} if self.random.random() < 0.1 else {}),
                **(
                    {"ConcurrencyLimits": self.random.choice(["x,y", "y", "x:2"])}
                    if self.random.random() < 0.3
                    else {}
                ),
            }
            for _ in range(self.random.randint(1, 5))
        ]
        self.queue.submit_many(ads, {})

    def claim(self) -> None:
        autoclusters = self.queue.candidates(self.host_id, self.random.choice(self.slots))
        self.random.shuffle(autoclusters)
        run = self.queue.claim(
            self.random.choice(self.slots),
            host_id=self.host_id,
            wanted=[(autocluster["autocluster_id"], autocluster["job_prio"]) for autocluster in autoclusters],
        )
        if run is not None:
            self.runs.append(run)

    def start(self) -> None:
        if run := self.a_run():
            self.queue.start(run, starter=str(self.random.randint(1, 3)))

    def chain(self) -> None:
        """Start the next jobs of two slots; some of them end a run first."""
        slots = {slot: self.a_run() for slot in self.random.sample(self.slots, 2)}
        if len({run.run_id for run in slots.values() if run}) < 2:
            slots = dict.fromkeys(slots)
        self.chained(slots)

    def chained(self, slots: Mapping[str, Claimed | None]) -> list[Claimed | None]:
        """End the slots' runs and start the next; return these."""
        report = {"ExitCode": 0, "JobPid": 1, "JobDuration": 5.0}
        found: list[Claimed | None] = []
        for row in self.queue.next_runs(self.host_id, slots, report=report):
            self.done["ended in a chain"] += row["ended"]
            if row["run_id"] is None:
                found.append(None)
                continue
            self.done["started in a chain"] += 1
            job = f"{row['cluster_id']}.{row['proc_id']}"
            found.append(Claimed(row["run_id"], row["token"], job, row["position"], row["ad"], 0))
        self.runs.extend(run for run in found if run is not None)
        return found

    def of_run(self) -> None:
        if run := self.a_run():
            self.random.choice(  # type: ignore[no-untyped-call]
                [
                    lambda: self.queue.of(run, "accept"),
                    lambda: self.queue.of(run, "reject"),
                    lambda: self.queue.of(run, "refuse_start", reason="no such Cmd"),
                    lambda: self.queue.of(run, "starter_gone"),
                    lambda: self.queue.of(run, "withdraw", reason="gone"),
                    lambda: self.queue.heartbeat(run, JobState=self.random.choice(["Running", "Suspended"])),
                    lambda: self.queue.heartbeat(run),
                ]
            )()

    def finish(self) -> None:
        if self.runs:
            run = self.runs[self.random.randrange(len(self.runs))]
            verdict = self.random.choice(
                [None, None, {"action": "requeue"}, {"action": "hold"}, {"action": "remove"}]
            )
            report = self.random.choice(
                [{"ExitCode": 0, "JobPid": 1}, {"ExitCode": 1, "JobPid": 1, "JobDuration": 0.1}, {}]
            )
            self.queue.finish(  # type: ignore[arg-type]
                run, self.random.choice(["exit", "exit", "evict"]), verdict, **(report or {"x": 1})
            )

    def people(self) -> None:
        jobs = self.jobs()
        name = self.random.choice(["hold", "release", "remove", "vacate", "edit", "release"])
        arguments = (
            {"changes": {"RequestMemory": self.random.randint(1, 6), "JobPrio": 1}} if name == "edit" else {}
        )
        self.queue.act(name, *jobs, **arguments)

    def whole_owner(self) -> None:
        name = self.random.choice(["hold", "release", "vacate"])
        self.queue.scalar(name, jobs=None, owner=self.random.choice(["alice", "bob"]))

    def housekeeping(self) -> None:
        self.random.choice(  # type: ignore[no-untyped-call]
            [
                lambda: self.queue.call("maintain_queue"),
                lambda: self.queue.beat(self.host_id, *self.runs[-20:]),
                lambda: self.queue.scalar("preempt"),
                lambda: self.queue.scalar(
                    "slot_is_free", host_id=self.host_id, slot=self.random.choice(self.slots)
                ),
                lambda: self.queue.host(f"h{self.random.randint(0, 2)}"),
                lambda: self.queue.scalar("maintain_tables"),
                lambda: self.queue.connection.execute(
                    "UPDATE fetchwork.run SET deadline = now() - interval '1 s' WHERE run_id IN (SELECT run_id FROM fetchwork.run ORDER BY random() LIMIT 2 FOR UPDATE SKIP LOCKED)"
                ),
                lambda: self.queue.connection.execute(
                    "UPDATE fetchwork.job SET not_before = now() WHERE (cluster_id, proc_id) IN (SELECT cluster_id, proc_id FROM fetchwork.job WHERE not_before IS NOT NULL FOR UPDATE SKIP LOCKED)"
                ),
            ]
        )()

    ACTS = (
        submit,
        claim,
        claim,
        claim,
        start,
        start,
        of_run,
        of_run,
        finish,
        finish,
        chain,
        chain,
        people,
        whole_owner,
        housekeeping,
        housekeeping,
    )

    def act(self) -> None:
        """Do one of the things that a user might do now."""
        act = self.random.choice(self.ACTS)
        try:
            act(self)
            self.done[act.__name__] += 1
        except psycopg.Error as error:
            if error.sqlstate not in EXPECTED:
                raise
            self.done[f"{act.__name__} {error.sqlstate}"] += 1
        del self.runs[:-30]

    def work(self, until: float) -> None:
        while time.monotonic() < until:
            self.act()


@pytest.mark.parametrize("seed", range(3))
def test_after_any_sequence_of_acts_counts_and_events_tell_what_the_tables_tell(
    queue_conninfo: str, queue: DirectQueue, seed: int
) -> None:
    session = Session(queue_conninfo, seed)
    queue.set("max_not_started", 3)
    queue.scalar("set_limit", name="x", maximum=3)
    for _ in range(20):
        for _ in range(12):
            session.act()
        queue.check()
    session.connection.close()


def test_chains_go_on_while_people_act_on_their_jobs(queue_conninfo: str, queue: DirectQueue) -> None:
    """No deadlock; a job runs once at a time, and no end of a run is overlooked."""
    queue.submit_many([{}] * 500)
    chains, people = [Session(queue_conninfo, seed) for seed in (0, 1)], Session(queue_conninfo, 5)
    failures: list[str] = []
    over = threading.Event()

    def run_chains(session: Session) -> None:
        slots: dict[str, Claimed | None] = dict.fromkeys(session.slots)
        while not over.is_set():
            rows = session.chained(slots)
            for (slot, run), following in zip(list(slots.items()), rows, strict=True):
                if run is not None and session.queue.outcome(run) is None:
                    # not the common end: the agent reports it alone
                    session.done[session.queue.finish(run)] += 1
                slots[slot] = following

    def act_on_jobs() -> None:
        until = time.monotonic() + SECONDS
        acts = ("hold", "release", "edit", "vacate", "remove", "release")
        while time.monotonic() < until and not failures:
            name = people.random.choice(acts)
            jobs = [row[0] for row in people.queue.rows("SELECT JobId FROM fetchwork.jobs LIMIT 40")]
            if len(jobs) < 40:
                people.queue.submit_many([{}] * 100)
                continue
            changes = {"changes": {"JobPrio": people.random.randint(0, 1)}} if name == "edit" else {}
            some = people.random.sample(jobs, 1 if name == "remove" else 5)
            try:
                people.done[name] += people.queue.act(name, *some, **changes)
            except psycopg.Error as error:
                if error.sqlstate not in EXPECTED:
                    raise
            failures.extend(violations(people.connection))
        over.set()

    def guarded(work: Callable[..., None], *arguments: Session) -> None:
        try:
            work(*arguments)
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")
            over.set()

    threads = [threading.Thread(target=guarded, args=(run_chains, session)) for session in chains]
    threads.append(threading.Thread(target=guarded, args=(act_on_jobs,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failures.extend(violations(queue.connection))
    done = sum((session.done for session in [*chains, people]), Counter[str]())
    for session in [*chains, people]:
        session.connection.close()
    assert not failures, "\n".join(failures)
    assert done["ended in a chain"] > 5, done
    assert done["hold"] and done["release"], done
    started = queue.value("SELECT count(*) FROM fetchwork.events WHERE EventTypeNumber = 1")
    assert started == done["started in a chain"]


def test_sessions_that_do_everything_at_once_do_not_deadlock_and_the_invariants_hold(
    queue_conninfo: str, queue: DirectQueue
) -> None:
    queue.set("max_not_started", 20)
    queue.set("black_hole_runs", 100000)
    queue.scalar(
        "set_queue", name="default", changes={"preempt_ratio": 1.0001, "preempt_prio": 1, "max_running": 40}
    )
    queue.scalar("set_limit", name="x", maximum=8)
    queue.scalar("set_limit", name="y", maximum=8)
    sessions = [Session(queue_conninfo, seed) for seed in range(SESSIONS)]
    failures: list[str] = []

    def work(session: Session, until: float) -> None:
        try:
            session.work(until)
        except Exception as error:
            detail = getattr(getattr(error, "diag", None), "message_detail", None)
            context = getattr(getattr(error, "diag", None), "context", None)
            failures.append(f"{type(error).__name__}: {error} {detail} {context}")

    until = time.monotonic() + SECONDS
    threads = [threading.Thread(target=work, args=(session, until)) for session in sessions]
    for thread in threads:
        thread.start()
    while time.monotonic() < until and not failures:
        time.sleep(0.5)
        # at any moment, not only when all is quiet
        failures.extend(violations(queue.connection))
    for thread in threads:
        thread.join()
    done = sum((session.done for session in sessions), Counter[str]())
    for session in sessions:
        session.connection.close()
    assert not failures, "\n".join(failures)
    # every kind of act did happen: work was claimed, started and finished
    missing = {
        "submit",
        "claim",
        "start",
        "finish",
        "people",
        "whole_owner",
        "housekeeping",
        "started in a chain",
    }
    missing -= done.keys()
    assert not missing, done
