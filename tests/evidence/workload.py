"""The workload of a history: clients that submit, run, change and read jobs, and faults, chosen by a seed.

A host here follows the rules of an agent with the agent's own calls (``fetchwork.db.calls``): it keeps a
lease, executes a job only behind the fence, ends its jobs before its lease may be over, and repeats a report
until it is answered. Each client writes what it asked and what it was told (``history.py``).
"""

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from psycopg.conninfo import conninfo_to_dict

from fetchwork.db import eventpages
from fetchwork.db.calls import call as sqlcall
from fetchwork.db.calls import hosts, jobs, maintenance, matching, runs
from fetchwork.db.calls.call import Row
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import DatabaseUnavailable, FetchworkError
from fetchwork.pool.postgres import PostgresServer
from tests.evidence.history import Outcome, Recorder, hashed, next_answer
from tests.evidence.model import HELD
from tests.faults.proxy import DatabaseProxy
from tests.support.client_programs import program

OWNER = "nobody"
#: acts of people; a frequent one stands several times
_ACTS = ("hold", "hold", "release", "release", "release", "vacate", "edit", "edit")
LEASE_S = 1.5
#: a host ends its jobs when its last answered beat is so old
FENCE_S = 1.0
OFFER_S = 4.0
#: so long that only the host's lease counts
RUN_LEASE_S = 1800.0
_BEAT_S = 0.25
#: a host compares its runs with the database's so often, and after each outage
_COMPARE_S = 2.0
_CALL_S = 1.0
#: after the faults, the time in which every job must find its end
_QUIET_S = 30.0

_STARTER = "1:1"
_REPORT = {"JobPid": 77, "JobDuration": 0.1, "ExitBySignal": False}
#: the attributes that all jobs of a chain have in common
_COMPARED = ["requestmemory"]

_SNAPSHOT = """
SELECT
    (
        SELECT jsonb_object_agg(j.jobid, jsonb_build_array(j.jobstatus, j.ad -> 'EvidenceValue'))
        FROM fetchwork.jobs AS j
    ) AS queued,
    (
        SELECT jsonb_object_agg(h.jobid, jsonb_build_array(h.jobstatus, h.ad -> 'EvidenceValue'))
        FROM fetchwork.history AS h
    ) AS ended,
    (
        SELECT jsonb_build_object(
            1, coalesce(sum(t.idle), 0), 2, coalesce(sum(t.running), 0),
            5, coalesce(sum(t.held), 0), 3, coalesce(sum(t.ending), 0)
        )
        FROM fetchwork.totals AS t
    ) AS totals
"""


#: does a call, and ends its transaction a while later
_SLOWLY = """
WITH done AS MATERIALIZED (
    SELECT * FROM ({}) AS d
),
waited AS MATERIALIZED (
    SELECT pg_sleep(0.15) FROM (SELECT count(*) FROM done) AS c
)
SELECT d.* FROM done AS d, waited
"""
#: gets a transaction id, and does a call a while later
_LATE = """
WITH waited AS MATERIALIZED (
    SELECT pg_current_xact_id() AS xid, pg_sleep(0.15)
)
SELECT d.*
FROM waited AS w
CROSS JOIN LATERAL (SELECT c.* FROM ({}) AS c WHERE w.xid IS NOT NULL OFFSET 0) AS d
"""


@dataclass
class Size:
    """The size of a history."""

    submissions: int = 8
    hosts: int = 3
    slots: int = 3
    seconds: float = 5.0
    faults: int = 4


class Attempts(AsyncDatabase):
    """A database that knows whether a call was sent: one that was not has had no effect."""

    def __init__(self, conninfo: str, size: int) -> None:
        super().__init__(conninfo, size=size, timeout_s=_CALL_S)

    @contextlib.contextmanager
    def attempts(self) -> Iterator[list[None]]:
        """Yields a list that is empty until a call of this task is sent."""
        sent: list[None] = []
        token = _sent.set(sent)
        try:
            yield sent
        finally:
            _sent.reset(token)

    async def _run(self, *arguments: Any) -> list[Row]:
        _sent.get([]).append(None)
        return await super()._run(*arguments)


#: of the present call of a task: an entry for each time that it was sent
_sent: ContextVar[list[None]] = ContextVar("sent")


@dataclass
class Clients:
    """The recorder and the database of all clients."""

    recorder: Recorder
    conninfo: str
    random: random.Random
    #: ids of submitted jobs
    jobs: list[str] = field(default_factory=list)
    #: set when an end is acknowledged
    told_end: asyncio.Event = field(default_factory=asyncio.Event)
    #: set when the faults are over: a job that would run until it is ended comes to its own end
    calm: asyncio.Event = field(default_factory=asyncio.Event)
    #: defects of the workload itself
    defects: list[BaseException | None] = field(default_factory=list)

    async def call(
        self,
        database: Attempts,
        client: str,
        function: str,
        call: sqlcall.Call[Any],
        shown: Callable[[Any], Any] = lambda result: result,
        **arguments: Any,
    ) -> tuple[Outcome, Any]:
        """Make a recorded call; return what the client knows of it."""

        async def run() -> Any:
            return await database.run(call, timeout_s=_CALL_S, again=False)

        return await self.record(database, client, function, run, shown, **arguments)

    async def record(
        self,
        database: Attempts,
        client: str,
        function: str,
        ask: Callable[[], Awaitable[Any]],
        shown: Callable[[Any], Any] = lambda result: result,
        **arguments: Any,
    ) -> tuple[Outcome, Any]:
        """As ``call``, for any question to a database. One that was not sent had no effect."""
        number = self.recorder.invoke(client, function, **arguments)
        with database.attempts() as sent:
            try:
                result = await ask()
            except DatabaseUnavailable:
                self.recorder.answer(number, Outcome.UNKNOWN if sent else Outcome.FAIL, None)
                return Outcome.UNKNOWN, None
            except FetchworkError as error:
                self.recorder.answer(number, Outcome.FAIL, type(error).__name__)
                return Outcome.FAIL, error
        self.recorder.answer(number, Outcome.OK, shown(result))
        return Outcome.OK, result


class RecordedServer:
    """A server whose ends are in the history: commits that do not wait for the disk may go with it."""

    def __init__(self, server: PostgresServer, recorder: Recorder) -> None:
        self._server = server
        self._recorder = recorder

    @property
    def directory(self) -> Path:
        """The directory of the server."""
        return self._server.directory

    def start(self) -> None:
        """Start the server."""
        self._server.start()

    def crash(self) -> None:
        """Kill the server."""
        self._end("crash")

    def stop(self, mode: Literal["fast", "immediate"]) -> None:
        """Stop the server; ``immediate`` is as a crash."""
        self._end(mode)

    def dump(self, conninfo: str, path: Path) -> None:
        """Dump a database, as an administrator does for a backup."""
        number = self._recorder.invoke("faults", "dump")
        program(self._server, "pg_dump", conninfo, "-Fc", "-f", str(path))
        self._recorder.answer(number, Outcome.OK)

    def restore(self, conninfo: str, path: Path) -> None:
        """Restore the dump under the same name; no client sees it half done."""
        name = conninfo_to_dict(conninfo)["dbname"]
        number = self._recorder.invoke("faults", "restore")
        self._server.query(f'DROP DATABASE "{name}" WITH (FORCE)')
        self._server.query(f'CREATE DATABASE "{name}"')
        program(self._server, "pg_restore", conninfo, "-1", str(path))
        self._recorder.answer(number, Outcome.OK)

    def _end(self, way: str) -> None:
        number = self._recorder.invoke("faults", "stop" if way == "fast" else "crash")
        if way == "crash":
            self._server.crash()
        else:
            self._server.stop(way)  # type: ignore[arg-type]
        self._recorder.answer(number, Outcome.OK)


@dataclass(frozen=True, slots=True)
class _Work:
    """A run whose job may be executed; ``compared`` is what the other jobs of its chain have in common."""

    run: int
    token: uuid.UUID
    job: str
    compared: dict[str, Any]


def _compared(ad: Mapping[str, Any]) -> dict[str, Any]:
    return {name.lower(): value for name, value in ad.items() if name.lower() in _COMPARED}


class Host:
    """A host with its agent: claims for its free slots, executes jobs, beats."""

    def __init__(self, clients: Clients, name: str, slots: int, proxy: DatabaseProxy) -> None:
        self.clients = clients
        self.name = name
        self.proxy = proxy
        self._slots = [f"slot{n + 1}@{name}" for n in range(slots)]
        self._database = Attempts(proxy.conninfo(clients.conninfo), slots + 3)
        self._tasks: set[asyncio.Task[None]] = set()
        self._host_id = 0
        #: the last is that of the present agent
        self._agent_ids: list[str] = []
        #: by run: its token and the event that ends its execution
        self._running: dict[int, tuple[uuid.UUID, asyncio.Event]] = {}
        self._renewed = 0.0
        self._compare_due = 0.0
        self._busy: set[str] = set()
        #: of those that are busy, the slots that ask for nothing any more
        self._gone: set[str] = set()

    async def on(self) -> None:
        """Power on: a new agent, whose slots are free."""
        self._agent_ids.append(str(uuid.uuid4()))
        self._busy.clear()
        self._gone.clear()
        while not await self._hello():
            await asyncio.sleep(0.1)
        for slot in self._slots:
            await self._free(slot)
        self._spawn(self._beat())
        self._spawn(self._fetch())

    async def _hello(self) -> bool:
        invoked = time.monotonic()
        outcome, greeting = await self._call(
            "hello",
            hosts.hello(
                host=self.name,
                agent_version="1",
                agent_id=self._agent_ids[-1],
                wanted_lease_s=LEASE_S,
                replaces=self._agent_ids[:-1],
            ),
            lambda greeting: greeting.host_id,
            host=self.name,
        )
        if outcome != Outcome.OK:
            return False
        self._host_id, self._renewed = greeting.host_id, invoked
        return True

    async def off(self) -> None:
        """Power off: everything of the host ends at once."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        self._running.clear()

    async def close(self) -> None:
        """Power off for good."""
        await self.off()
        await self._database.close()

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            # a defect of the workload, which the history must not hide
            self.clients.defects.append(task.exception())

    async def _call(
        self,
        function: str,
        call: sqlcall.Call[Any],
        shown: Callable[[Any], Any] = lambda result: result,
        **arguments: Any,
    ) -> tuple[Outcome, Any]:
        return await self.clients.call(self._database, self.name, function, call, shown, **arguments)

    async def _free(self, slot: str) -> None:
        await self._call(
            "slot_is_free", hosts.slot_is_free(host_id=self._host_id, slot=slot), host=self.name, slot=slot
        )

    # ---- the lease

    async def _beat(self) -> None:
        is_sure = True
        while True:
            await asyncio.sleep(_BEAT_S)
            alive = dict(self._running)
            invoked = time.monotonic()
            if invoked > self._renewed + FENCE_S:
                for _, end in alive.values():
                    end.set()
            outcome, answer = await self._call(
                "beat",
                hosts.beat(
                    host_id=self._host_id,
                    alive=list(alive),
                    tokens=[token for token, _ in alive.values()],
                    agent_id=self._agent_ids[-1],
                ),
                lambda unwanted: [[run.run_id, run.action] for run in unwanted],
                host=self.name,
                alive=list(alive),
            )
            if outcome != Outcome.OK:
                is_sure = False
                if outcome == Outcome.FAIL:
                    # a database of an earlier time does not know this agent
                    await self._hello()
                continue
            self._renewed = invoked
            for unwanted in answer:
                alive[unwanted.run_id][1].set()
            if not is_sure:
                is_sure = True
                self._compare_due = 0.0
            if time.monotonic() >= self._compare_due:
                self._compare_due = time.monotonic() + _COMPARE_S
                self._spawn(self._compare())

    async def _compare(self) -> None:
        """Free the slots whose runs ended while the database was away, or before its restore.

        slot_is_free leaves out a job that another transaction holds, so this is repeated, as an agent does.
        """
        outcome, found = await self._call(
            "host_runs",
            hosts.host_runs(host_id=self._host_id),
            lambda rows: [{"run": row.run_id, "job": f"{row.cluster_id}.{row.proc_id}"} for row in rows],
            host=self.name,
        )
        for row in found if outcome == Outcome.OK else ():
            if row.slot not in self._busy:
                self._busy.add(row.slot)
                self._spawn(self._recover(row.slot))
            elif row.slot in self._gone and row.state == "running":
                self._spawn(self._free(row.slot))

    # ---- work

    async def _fetch(self) -> None:
        chosen = self.clients.random
        while True:
            await asyncio.sleep(chosen.uniform(0.02, 0.1))
            free = [slot for slot in self._slots if slot not in self._busy]
            # jobs end before the lease does, so none begins late in it
            if not free or time.monotonic() > self._renewed + FENCE_S / 2:
                continue
            # demand is read anew each time; its answer is no promise
            with contextlib.suppress(FetchworkError):
                demand = await self._database.run(
                    matching.read_demand(host_id=self._host_id, queues=["default"], since="0"),
                    timeout_s=_CALL_S,
                )
                if demand.autoclusters:
                    await self._claim(free, demand)

    async def _claim(self, free: list[str], demand: matching.DemandRead) -> None:
        self._busy.update(free)
        number_of_kinds = len(demand.autoclusters)
        outcome, claimed = await self._call(
            "claim",
            matching.claim_many(
                host_id=self._host_id,
                autoclusters=demand.autoclusters,
                prios=demand.prios,
                hints=[0] * number_of_kinds,
                slots=[
                    {
                        "slot": slot,
                        "exclusive": True,
                        "choices": list(range(1, number_of_kinds + 1)),
                        "weights": 1.0,
                    }
                    for slot in free
                ],
                offer_s=OFFER_S,
                lease_s=RUN_LEASE_S,
            ),
            lambda rows: [
                {
                    "run": row.run_id,
                    "job": f"{row.cluster_id}.{row.proc_id}",
                    "slot": free[row.slot_number - 1],
                    "token": hashed(row.token),
                }
                for row in rows
                if row.problem is None
            ],
            host=self.name,
            offer_s=OFFER_S,
            lease_s=RUN_LEASE_S,
            free=free,
        )
        got = {}
        if outcome == Outcome.OK:
            got = {free[row.slot_number - 1]: row for row in claimed if row.problem is None}
        for slot in free:
            if slot in got:
                self._spawn(self._run(slot, got[slot]))
            elif outcome == Outcome.UNKNOWN:
                self._spawn(self._recover(slot))
            else:
                self._busy.discard(slot)

    async def _recover(self, slot: str) -> None:
        """The answer to the claim was lost: like a startd, say that the slot is free."""
        await asyncio.sleep(0.1)
        await self._free(slot)
        self._busy.discard(slot)

    async def _run(self, slot: str, claimed: matching.Claimed) -> None:
        chosen = self.clients.random
        run, token = claimed.run_id, claimed.token
        job = f"{claimed.cluster_id}.{claimed.proc_id}"
        if chosen.random() < 0.03 and len(self._gone) < len(self._slots) - 1:
            # the slot is gone: only the offer's time ends the run
            self._gone.add(slot)
            return
        work: _Work | None = _Work(run, token, job, _compared(claimed.ad or {}))
        chain = run if chosen.random() < 0.5 else None
        try:
            if chosen.random() < 0.7:
                await self._call("accept", runs.accept(run_id=run, token=token), run=run)
            await asyncio.sleep(chosen.choice([0.0, 0.0, 0.1, 0.3]))
            if not await self._start(run, token, _STARTER):
                work = None
            while work is not None and time.monotonic() < self._renewed + FENCE_S:
                work = await self._execute(work, slot, chain)
        finally:
            self._busy.discard(slot)
        await self._free(slot)

    async def _start(self, run: int, token: uuid.UUID, starter: str) -> bool:
        """Pass the fence; the same starter asks again if it gets no answer."""
        while True:
            outcome, reason = await self._call(
                "start", runs.start(run_id=run, token=token, starter=starter), run=run, starter=starter
            )
            if outcome != Outcome.UNKNOWN:
                return outcome == Outcome.OK and reason is None
            await asyncio.sleep(0.05)

    async def _execute(self, work: _Work, slot: str, chain: int | None) -> _Work | None:
        """Execute a job and report its end; return the next one of its chain."""
        end = asyncio.Event()
        self._running[work.run] = work.token, end
        began = time.monotonic()
        try:
            seconds = self.clients.random.uniform(0.02, 0.6)
            reason = await self._until_end(work.run, work.token, end, seconds)
        finally:
            self.clients.recorder.executed(self.name, work.job, work.run, began, time.monotonic())
            self._running.pop(work.run, None)
        if chain is None or reason != "exit":
            await self._finish(work, reason)
            return None
        answer = await self._next(slot, chain, work, work.token)
        if answer is None or not answer.ended:
            await self._finish(work, reason)
        if answer is not None and not answer.ended:
            answer = await self._next(slot, chain, work, None)
        if answer is None or answer.run_id is None:
            return None
        assert answer.token is not None
        assert answer.ad is not None
        job = f"{answer.cluster_id}.{answer.proc_id}"
        return _Work(answer.run_id, answer.token, job, _compared(answer.ad))

    async def _finish(self, work: _Work, reason: str) -> None:
        """Report the end of a job until there is an answer, sometimes once more."""
        chosen = self.clients.random
        exit_code = {"ExitCode": 0} if reason == "exit" else {}
        for _ in range(1 + (chosen.random() < 0.15)):
            while True:
                outcome, _ = await self._call(
                    "finish",
                    runs.finish(
                        run_id=work.run,
                        token=work.token,
                        hook_reason=reason,
                        report={**_REPORT, "JobState": "Exited", **exit_code},
                    ),
                    run=work.run,
                    reason=reason,
                )
                if outcome != Outcome.UNKNOWN:
                    self.clients.told_end.set()
                    break
                await asyncio.sleep(0.1)

    async def _next(
        self, slot: str, chain: int, work: _Work, token: uuid.UUID | None, **more: Any
    ) -> runs.Next | None:
        """Report an end by its token, and ask for the next job of the chain; None if there was no answer.

        Without a token the end has been reported before. The call is not repeated: it would take other jobs.
        """
        try:
            demand = await self._database.run(
                matching.read_demand(host_id=self._host_id, queues=["default"], since="0"), timeout_s=_CALL_S
            )
        except FetchworkError:
            return None
        number_of_kinds = len(demand.autoclusters)
        outcome, answers = await self._call(
            "next",
            runs.next_runs(
                host_id=self._host_id,
                end_ids=[work.run] if token else [],
                end_tokens=[token] if token else [],
                reports=[{**_REPORT, "ExitCode": 0}] if token else [],
                autoclusters=demand.autoclusters,
                prios=demand.prios,
                hints=[0] * number_of_kinds,
                slots=[
                    {
                        "slot": slot,
                        "exclusive": True,
                        "choices": list(range(1, number_of_kinds + 1)),
                        "weights": [1.0] * number_of_kinds,
                        "end": 1 if token else None,
                        "starter": _STARTER,
                        "chain": chain,
                        "same": work.compared,
                    }
                ],
                compared=_COMPARED,
                lease_s=RUN_LEASE_S,
            ),
            lambda rows: next_answer(asdict(rows[0]), _COMPARED),
            host=self.name,
            slot=slot,
            starter=_STARTER,
            lease_s=RUN_LEASE_S,
            same=work.compared,
            **({"run": work.run} if token else {}),
            **more,
        )
        if outcome != Outcome.OK:
            return None
        (answer,) = answers
        if answer.ended and self.clients.random.random() < 0.2:
            # most crashes come behind an end without a chain
            self.clients.told_end.set()
        return answer

    async def _until_end(self, run: int, token: uuid.UUID, end: asyncio.Event, seconds: float) -> str:
        """Execute the job; return the reason of its end."""
        chosen = self.clients.random
        # some jobs run until they are ended
        until = time.monotonic() + (10.0 if chosen.random() < 0.1 else seconds)
        while (now := time.monotonic()) < until and now < self._renewed + FENCE_S and not end.is_set():
            if self.clients.calm.is_set():
                until = min(until, now + seconds)
            # no call may delay the job's end, so none is awaited here
            if chosen.random() < 0.15:
                self._spawn(self._heartbeat(run, token, end))
            elif chosen.random() < 0.03:
                self._spawn(self._misbehave(run, token))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(0.05, until - now)):
                    await end.wait()
        if end.is_set() or chosen.random() < 0.1:
            return "evict"
        # as its lease ends it may have come to its own end, too
        return "exit" if time.monotonic() >= until or chosen.random() < 0.5 else "evict"

    async def _heartbeat(self, run: int, token: uuid.UUID, end: asyncio.Event) -> None:
        outcome, beat = await self._call(
            "heartbeat",
            runs.heartbeat(run_id=run, token=token, report={"JobState": "Running", "JobPid": 77}),
            lambda beat: beat.action,
            run=run,
        )
        if outcome == Outcome.OK and beat.action is not None:
            end.set()

    async def _misbehave(self, run: int, token: uuid.UUID) -> None:
        """Calls that must have no effect: with another token, of another starter."""
        forged = uuid.uuid4()
        match self.clients.random.choice(["starter", "finish", "accept", "start", "next"]):
            case "starter":
                await self._call(
                    "start", runs.start(run_id=run, token=token, starter="2:2"), run=run, starter="2:2"
                )
            case "finish":
                await self._call(
                    "finish",
                    runs.finish(
                        run_id=run, token=forged, hook_reason="exit", report={"ExitCode": 0, "JobPid": 1}
                    ),
                    run=run,
                    forged=True,
                )
            case "accept":
                await self._call("accept", runs.accept(run_id=run, token=forged), run=run, forged=True)
            case "next":
                work = _Work(run, forged, "", {})
                await self._next(f"no slot@{self.name}", run, work, forged, forged=True)
            case _:
                await self._call(
                    "start", runs.start(run_id=run, token=forged, starter=_STARTER), run=run, forged=True
                )


class People:
    """Persons who submit jobs and change them."""

    def __init__(
        self, clients: Clients, proxy: DatabaseProxy, attributes: Callable[[], dict[str, Any]] = dict
    ) -> None:
        self.clients = clients
        #: further attributes of a job
        self._attributes = attributes
        self._database = Attempts(proxy.conninfo(clients.conninfo), 4)
        self._values = iter(range(1, 1_000_000))
        #: the job that was changed last
        self._in_hand: str | None = None

    async def close(self) -> None:
        """Close their connections."""
        await self._database.close()

    async def submit_all(self, submissions: int, seconds: float) -> None:
        """Submit clusters over so many seconds."""
        for number in range(submissions):
            await self.submit(number)
            await asyncio.sleep(self.clients.random.uniform(0, seconds / submissions))

    async def submit(self, number: int) -> None:
        """Submit a cluster, and again after a lost answer; sometimes a second time with the same key."""
        chosen = self.clients.random
        key = f"key {number}"
        again = chosen.random() < 0.2
        value = next(self._values)
        while True:
            cluster = await self._reserve(key)
            if cluster is None:
                return
            procs = [self._attributes() for _ in range(chosen.randint(1, 3))]
            outcome = await self._submit("submitter", cluster, key, procs, value)
            if outcome == Outcome.OK:
                self.clients.jobs += [f"{cluster}.{proc}" for proc in range(len(procs))]
            if outcome != Outcome.UNKNOWN:
                break
            await asyncio.sleep(0.1)
        if again and (other := await self._new_cluster()) is not None:
            # a second sender that did not ask first
            await self._submit("second sender", other, key, [self._attributes()], value)

    async def _submit(
        self, client: str, cluster: int, key: str, procs: list[dict[str, Any]], value: int
    ) -> Outcome:
        common = {
            "Cmd": "/bin/true",
            "Owner": OWNER,
            "EvidenceValue": value,
            "RequestMemory": 64 + (cluster % 5 == 0),
        }
        outcome, _ = await self.clients.call(
            self._database,
            client,
            "submit",
            jobs.submit_noted(owner=OWNER, key=key, common=common, procs=procs, cluster=cluster),
            lambda _: cluster,
            key=key,
            cluster=cluster,
            procs=len(procs),
            value=value,
        )
        return outcome

    async def _reserve(self, key: str) -> int | None:
        """The cluster for a key; None if it is made already."""
        while True:
            try:
                begun = await self._database.run(jobs.begin_submission(owner=OWNER, key=key))
            except FetchworkError:
                await asyncio.sleep(0.1)
                continue
            if begun.is_made:
                self.clients.jobs.append(f"{begun.cluster_id}.0")
            return None if begun.is_made else begun.cluster_id

    async def _new_cluster(self) -> int | None:
        with contextlib.suppress(FetchworkError):
            return await self._database.run(jobs.reserve_cluster())
        return None

    async def act(self) -> None:
        """Two persons change jobs for ever, each one after the other."""
        await asyncio.gather(self._act("person 1"), self._act("person 2"))

    async def _act(self, person: str) -> None:
        chosen = self.clients.random
        while True:
            await asyncio.sleep(chosen.uniform(0.01, 0.2))
            if not self.clients.jobs:
                continue
            # the newest, most of which have not ended; often the one that the other person has just changed
            if chosen.random() < 0.5 or self._in_hand is None:
                self._in_hand = chosen.choice(self.clients.jobs[-12:])
            job = self._in_hand
            await self._change(person, job, chosen.choice(_ACTS))
            if chosen.random() < 0.04:
                await self._change(person, job, "remove")

    async def release(self, jobs_: list[str]) -> None:
        """Release these jobs."""
        for job in jobs_:
            await self._change("person 1", job, "release")

    async def _change(self, person: str, job: str, verb: str) -> None:
        value = next(self._values)
        call: sqlcall.Call[int] = (
            jobs.edit(jobs=[job], changes={"EvidenceValue": value})
            if verb == "edit"
            else getattr(jobs, verb)(jobs=[job])
        )
        arguments: dict[str, Any] = {"job": job, **({"value": value} if verb == "edit" else {})}
        if verb in ("hold", "edit") and self.clients.random.random() < 0.15:
            await self._within(_SLOWLY, person, verb, call, arguments)
        elif verb in ("hold", "release") and self.clients.random.random() < 0.3:
            await self._within(_LATE, person, verb, call, arguments)
        else:
            await self.clients.call(self._database, person, verb, call, **arguments)

    async def _within(
        self, statement: str, person: str, verb: str, call: sqlcall.Call[int], arguments: dict[str, Any]
    ) -> None:
        """In a transaction that stays open for a while."""
        sql, params = call.statement()

        async def ask() -> Any:
            rows = await self._database.query(statement.format(sql), params, again=False)
            return call.read(rows)

        await self.clients.record(self._database, person, verb, ask, **arguments)


class Reader:
    """Reads events from the beginning on, and snapshots."""

    def __init__(self, clients: Clients, name: str, proxy: DatabaseProxy) -> None:
        self.clients = clients
        self.name = name
        self._database = Attempts(proxy.conninfo(clients.conninfo), 1)
        self._after = (0, 0)
        self._since: str | None = None

    async def close(self) -> None:
        """Close its connection."""
        await self._database.close()

    async def read(self) -> None:
        """Read for ever."""
        while True:
            await asyncio.sleep(self.clients.random.uniform(0.02, 0.2))
            await self.events()
            if self.clients.random.random() < 0.3:
                await self.snapshot()

    async def events(self) -> int | None:
        """Read the next page: the number of its events; None if there was no answer."""
        recorder = self.clients.recorder
        number = recorder.invoke(self.name, "events", after=self._after)
        try:
            done = await self._database.run(maintenance.sequence_events(since=self._since))
            self._since = done.until
            statement = eventpages.page(
                eventpages.all_events(), after_batch=self._after[0], after_id=self._after[1], most=None
            )
            rows = await self._database.query(statement.sql, statement.params)
        except FetchworkError:
            recorder.answer(number, Outcome.UNKNOWN)
            return None
        page = eventpages.EventPage.from_row(rows[0])
        events = [_event(line) for line in (page.lines or "").splitlines()]
        self._after = page.until_batch, page.until_id
        recorder.answer(number, Outcome.OK, events)
        return len(events)

    async def snapshot(self) -> dict[str, list[int]] | None:
        """Read the state of all jobs, and the totals; return the jobs in the queue."""
        number = self.clients.recorder.invoke(self.name, "snapshot")
        try:
            (row,) = await self._database.query(_SNAPSHOT)
        except FetchworkError:
            self.clients.recorder.answer(number, Outcome.UNKNOWN)
            return None
        queued = row["queued"] or {}
        states = {**queued, **(row["ended"] or {})}
        self.clients.recorder.answer(
            number, Outcome.OK, {"jobs": states, "queued": queued, "totals": row["totals"]}
        )
        return queued


def _event(line: str) -> list[Any]:
    batch, number, kind, cluster, proc, run = line.split("\t")[:6]
    return [int(batch), int(number), int(kind), f"{cluster}.{proc}", int(run)]


def is_restored(seed: int) -> bool:
    """Whether the database of a history is restored from a dump at some time."""
    return seed % 6 == 5


async def play(server: PostgresServer, conninfo: str, path: Path, seed: int) -> None:
    """Write the history of one seed to ``path``."""
    restored = conninfo if is_restored(seed) else None
    # with few slots jobs wait, so that chains go on
    size = Size(slots=random.Random(seed).choice((1, 2, 3)))

    async def faults(recorder: Recorder, everyone: list[Host], chosen: random.Random) -> None:
        await _break(RecordedServer(server, recorder), everyone, chosen, size, restored)

    await play_with(faults, lambda: DatabaseProxy(server.port), conninfo, path, seed, size)


async def play_with(
    faults: Callable[[Recorder, list[Host], random.Random], Awaitable[None]],
    proxy: Callable[[], DatabaseProxy],
    conninfo: str,
    path: Path,
    seed: int,
    size: Size,
) -> None:
    """Write a history under these faults; each client reaches the database through a proxy of its own."""
    chosen = random.Random(f"evidence {seed}")
    recorder = Recorder(path, seed=seed, lease_s=LEASE_S)
    clients = Clients(recorder, conninfo, chosen)
    async with _parts(proxy, clients, size) as (everyone, people, readers, last):
        background = [asyncio.create_task(work) for work in (people.act(), *(one.read() for one in readers))]
        background.append(asyncio.create_task(_maintain(conninfo)))
        try:
            # no host is powered off before it is on
            await asyncio.gather(*(host.on() for host in everyone))
            await asyncio.gather(
                people.submit_all(size.submissions, size.seconds),
                faults(recorder, everyone, chosen),
            )
            background[0].cancel()
            await settle(people, last)
        finally:
            for task in background:
                task.cancel()
            ends = await asyncio.gather(*background, return_exceptions=True)
    recorder.close()
    # maintenance that ended in silence would leave leases unwatched
    for defect in [*clients.defects, *(end for end in ends if isinstance(end, Exception))]:
        raise RuntimeError(f"the workload of seed {seed} has a defect") from defect


@contextlib.asynccontextmanager
async def _parts(
    make_proxy: Callable[[], DatabaseProxy], clients: Clients, size: Size
) -> AsyncIterator[tuple[list[Host], People, list[Reader], Reader]]:
    async with contextlib.AsyncExitStack() as stack:

        async def proxy() -> DatabaseProxy:
            return await stack.enter_async_context(make_proxy())

        everyone = [Host(clients, f"h{n + 1}", size.slots, await proxy()) for n in range(size.hosts)]
        people = People(clients, await proxy())
        readers = [Reader(clients, f"reader {n + 1}", await proxy()) for n in range(2)]
        last = Reader(clients, "last reader", await proxy())
        for close in (
            people.close,
            *(host.close for host in everyone),
            *(reader.close for reader in (*readers, last)),
        ):
            stack.push_async_callback(close)
        yield everyone, people, readers, last


async def _maintain(conninfo: str) -> None:
    """Do the work of the leading agent."""
    async with AsyncDatabase(conninfo, size=1) as database:
        while True:
            await asyncio.sleep(0.2)
            with contextlib.suppress(FetchworkError):
                await database.run(maintenance.maintain_queue())


async def _break(
    server: RecordedServer, everyone: list[Host], chosen: random.Random, size: Size, restored: str | None
) -> None:
    """Faults at times of the seed; everything is whole again at the end.

    The database ``restored`` is dumped after the first and restored after the second.
    """
    dump = server.directory / "evidence.dump"
    for number in range(size.faults):
        if restored and number in (1, 2):
            await asyncio.to_thread(server.dump if number == 1 else server.restore, restored, dump)
        await asyncio.sleep(chosen.uniform(0.3, 1.0) * size.seconds / size.faults)
        host = chosen.choice(everyone)
        match chosen.choice(["cut", "cut", "deaf", "slow", "power", "crash", "crash", "short"]):
            case "power":
                await host.off()
                await asyncio.sleep(chosen.choice([0.1, LEASE_S + 0.5]))
                await host.on()
            case "crash":
                # right behind an acknowledged end, which must be on the disk
                host.clients.told_end.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(host.clients.told_end.wait(), 1.0)
                await asyncio.to_thread(server.crash)
                await asyncio.to_thread(server.start)
            case "short":
                await host.proxy.set_mode("cut")
                await host.proxy.set_mode("open")
            case mode:
                await host.proxy.set_mode(mode, 0.05)  # type: ignore[arg-type]
                await asyncio.sleep(chosen.choice([0.3, LEASE_S + 0.5, LEASE_S + 1.5]))
                await host.proxy.set_mode("open")


async def settle(people: People, last: Reader) -> None:
    """Let every job find its end, and read the outcome."""
    people.clients.calm.set()
    end = time.monotonic() + _QUIET_S
    while time.monotonic() < end:
        queued = await last.snapshot()
        if queued is not None:
            if not queued:
                break
            await people.release([job for job, (status, _) in queued.items() if status == HELD])
        await asyncio.sleep(0.2)
    while await last.events() != 0 and time.monotonic() < end + _QUIET_S:
        await asyncio.sleep(0.1)
    await last.snapshot()
