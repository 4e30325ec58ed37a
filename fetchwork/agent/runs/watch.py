"""The agent's live runs, and the processes behind them.

Theory of operation
-------------------
The starter is the parent of its hooks; PREPARE_JOB shows the starter, and a pidfd shows its end in any case.
A run whose JOB_EXIT has come is over by then. A run without its JOB_EXIT gets a second of grace, for a report
that is still on its way or lies in the spool, and is then given up (detector 2 of three: a starter killed by
SIGKILL takes its job along and calls no hook).

An orphan is the exception: if condor_master is killed by SIGKILL, starter and startd end, and the job lives
on without a hook that will report it. Its run is not given up while the process lives, because the job would
then run twice at the same time. Its result can't be learnt either, so the agent ends the orphan if it may.

A slot that asks for work is free (detector 1), so its earlier run is over, with the same two exceptions. A
third exception is a dynamic slot: for an ad that it fetched, HTCondor 25 may make another dynamic slot, and
let the first one ask again at once. A run offered to a dynamic slot therefore gets some seconds until a
starter's PREPARE_JOB names its slot.

A busy slot may ask before its starter has called a hook. If the slot's known starter is gone, it is that of
the job before, and its end says nothing about the current job. A dynamic slot of the same name may have been
another slot, and its job may have been fetched by the partitionable slot or by another dynamic slot.

After a restart the agent reads its host's runs from the database, and finds their starters by pid and start
time, which no later process shares. Before that no slot is taken for free.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

from fetchwork.agent.root.signalrights import SignalRights
from fetchwork.agent.runs import orphans
from fetchwork.agent.runs.givingup import GivingUp
from fetchwork.agent.runs.orders import RunOrders
from fetchwork.agent.runs.starters import STALE_FETCH_S, Starter, Starters
from fetchwork.classad.ads import parse_old
from fetchwork.db.calls import hosts
from fetchwork.db.calls import runs as run_calls
from fetchwork.errors import DatabaseRefused, DatabaseUnavailable, FetchworkError, NotFound
from fetchwork.handlers.context import Answer
from fetchwork.handlers.host.keywords import KeywordContext
from fetchwork.handlers.host.runs import LiveRun, Runs, RunState
from fetchwork.handlers.host.session import HostSession
from fetchwork.handlers.requests.reply import DOES_NOT_ALLOW, reject, was_taken
from fetchwork.handlers.runad import RunKey
from fetchwork.ipc.peer import uid_of
from fetchwork.log import event
from fetchwork.process import Process

log = logging.getLogger(__name__)

#: seconds in which REPLY_FETCH may still be on its way after the slot has asked again
REPLY_GRACE_S = 0.3
#: seconds after the accept in which a starter is expected
START_GRACE_S = 2.0
#: the same for a run that a dynamic slot has fetched; slot_is_free.sql uses the same figure
DYNAMIC_GRACE_S = 10.0
CALL_S = 5.0


class WatchedRuns(Runs):
    """The live runs of this host; ``replay`` delivers the spool, ``on_free`` is called for free slots."""

    def __init__(
        self,
        replay: Callable[[], Awaitable[None]],
        on_free: Callable[[HostSession, str], None],
        rights: SignalRights | None = None,
    ) -> None:
        super().__init__()
        self._replay = replay
        self._on_free = on_free
        #: the rights to signal jobs
        self.rights = rights or SignalRights()
        self._giving_up = GivingUp(self, replay, self.rights)
        self._starters = Starters(self._starter_gone)
        self._tasks: set[asyncio.Task[None]] = set()
        #: runs that are not live but whose starters may be: at first those of the previous agent
        #: (``Updates``)
        self.left: list[LiveRun] = []
        self.taken_over = set[HostSession]()  #: sessions whose runs have been read since the start
        self._taking_over = asyncio.Lock()
        #: sessions whose runs should be read again: a hook of an unknown run came
        self.unknown_runs: set[HostSession] = set()
        self.orders = RunOrders()
        #: reports the end of a run without a JOB_EXIT whose starter is gone
        self.tell_end: Callable[[LiveRun, Process], Awaitable[Answer | None]] = _no_end
        # starter that asked for the start of a run without a JOB_EXIT -> run
        self._preparing: dict[Process, LiveRun] = {}
        # runs without a JOB_EXIT whose ends are being reported
        self._ending: set[LiveRun] = set()
        #: called before a job starts, when its run is among the live ones
        self.on_start: Callable[[], None] = lambda: None

    # -- called by handlers

    def preparing(self, run: LiveRun, starter: Process | None, slot: str) -> None:
        """Note that a starter asks for the run's start; without a JOB_EXIT its end tells the outcome."""
        super().preparing(run, starter, slot)
        waits = not run.is_running and run not in self._preparing.values()
        if run.plain and starter is not None and waits:
            # noted before the watch begins, because the starter may be gone already
            self._preparing[starter] = run
            self._starters.watch_beside(Starter(starter, run.context.session, slot))

    def started(self, run: LiveRun, starter: Process | None, slot: str) -> None:
        """Note that the run passed the fence, and watch its starter."""
        super().started(run, starter, slot)
        known = self._starters.on_slot(run.context.session, slot)
        # the starter of a chain is watched since its first job
        if starter is not None and (known is None or known.process != starter):
            self._starters.watch(starter, run.context.session, slot)
        self.on_start()

    def reported(self, run: LiveRun, job_pid: int) -> None:
        """Note the job's process, whose pid an update has named."""
        if run.job_process is None or run.job_process.pid != job_pid:
            run.job_process = Process.find(job_pid)

    def get(self, session: HostSession, run_id: int) -> LiveRun | None:
        """Return the live run with this id; if it is unknown, have the database's list read soon."""
        run = super().get(session, run_id)
        if run is None:
            self.unknown_runs.add(session)
        return run

    # -- called by fetches

    async def free_slot(self, context: KeywordContext, slot: str, ad: bytes, timeout_s: float) -> bool:
        """End the earlier runs of a free slot that asks for work; False if one of them lives on."""
        async with self._taking_over:
            if context.session not in self.taken_over:
                await self.take_over(context, timeout_s)
        before = self.on_slot(context.session, slot)
        if not before:
            return True
        if any(run.plain for run in before):
            self._starters.look_at(context.session, slot)
        if any(run.starts_soon(DYNAMIC_GRACE_S) for run in before):
            return False
        for run in before:
            if run.state == "reserved":
                # only the database knows the answer to an offer that the previous agent made
                untold = run.waits_for_starter and run.fetched_by
                await (self._settle(run, ad) if untold else self._take_back(run))
        before = [run for run in before if run.state not in ("reserved", "ended")]
        if any(run.exiting for run in before):
            await self._until_exited(before, timeout_s)
        try:
            await self._replay()
        except DatabaseUnavailable:
            # the spool may hold reports of these runs: none is over before the spool is delivered
            raise
        except FetchworkError as error:
            event(log, logging.ERROR, "spool", problem=error)
        before = [run for run in before if not run.ended and run.uploading != "outputs"]
        if not before:
            return True
        # a run whose report takes longer is not over: its job would run again though its end is known
        if any(run.exiting or run.uploading or orphans.of_run(run) for run in before):
            return False
        for run in before:
            await self._giving_up.look_into_start(run)
        before = [run for run in before if not run.ended]
        if not before:
            return True
        await context.session.slot_is_free(slot, timeout_s)
        for run in (run for run in before if not run.ended):
            event(
                log, logging.WARNING, "run_given_up", run=run.run_id, job=run.job, slot=slot, by="slot_asks"
            )
            self.ended(context.session, run.run_id)
        return True

    async def starter_before_next(self, context: KeywordContext, slot: str) -> Starter | None:
        """Return the starter of a busy slot if the slot is free after its end; None if that is unknown."""
        await self._until_started(self.on_slot(context.session, slot))
        starter = self._starters.on_slot(context.session, slot)
        if starter is not None and starter.gone.is_set():
            # it may belong to an earlier dynamic slot of this name; another slot fetched this slot's job
            beside = self.beside(context.session, slot)
            await self._until_started(beside)
            if any(run.waits_for_starter for run in beside):
                return None
            starter = self._starters.on_slot(context.session, slot)
        if starter is None or any(
            # the slot is busy with this run, whose starter is unknown
            run.waits_for_starter or (run.is_running and run.starter != starter.process)
            for run in self.on_slot(context.session, slot)
        ):
            return None
        if starter.gone.is_set() and time.monotonic() - starter.gone_at > STALE_FETCH_S:
            return None
        return starter

    async def _until_started(self, runs: Iterable[LiveRun]) -> None:
        """Wait until these runs have started, for a limited time each."""
        for run in runs:
            if run.state == "reserved" and not run.waits_for_starter:
                await self._until_not(run, "reserved", REPLY_GRACE_S)
            if run.waits_for_starter:
                await self._until_not(run, run.state, run.taken_at + START_GRACE_S - time.monotonic())

    async def _take_back(self, run: LiveRun) -> None:
        """Withdraw an offer that the slot has not answered, unless the answer is on its way."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REPLY_GRACE_S):
                await run.changed.wait()
        if run.state != "reserved":
            return
        # a claim that PostgreSQL lost in a crash counts as taken back
        with contextlib.suppress(NotFound, DatabaseRefused):
            await run.context.session.database.run(
                run_calls.withdraw(
                    run_id=run.run_id, token=run.token, reason="the slot asked again without an answer"
                ),
                timeout_s=CALL_S,
            )
        event(log, logging.INFO, "offer_unanswered", run=run.run_id, job=run.job, slot=run.slot)
        self.ended(run.context.session, run.run_id)

    async def _settle(self, run: LiveRun, ad: bytes) -> None:
        """Count an offer as accepted or refused, as the next ad of its slot says."""
        session = run.context.session
        if was_taken(parse_old(run.fetched_by), parse_old(ad)):
            self.taken(run)
            return
        # a claim that PostgreSQL lost in a crash counts as refused
        with contextlib.suppress(NotFound, DatabaseRefused):
            key = RunKey(run.run_id, run.token)
            await reject(session, self, key, DOES_NOT_ALLOW, rest=True, timeout_s=CALL_S)
        event(log, logging.INFO, "offer_refused", run=run.run_id, job=run.job, slot=run.slot)
        if run.state == "reserved":
            self.ended(session, run.run_id)

    async def _until_not(self, run: LiveRun, state: RunState, timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, timeout_s)):
                while run.state == state:
                    run.changed.clear()
                    await run.changed.wait()

    async def _until_exited(self, runs: list[LiveRun], timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                for run in runs:
                    while run.exiting:
                        run.changed.clear()
                        await run.changed.wait()

    # -- starters

    def alive(self, session: HostSession) -> dict[int, str]:
        """Return the runs whose starter or job lives, or whose files are being delivered: id -> token."""
        alive = {run.run_id: run.token for run in self.left if run.context.session is session}
        for run in self:
            runs = run.is_running and run.context.session is session
            if runs and (run.uploading or self._starter_lives(run) or orphans.of_run(run)):
                alive[run.run_id] = run.token
        return alive

    def _starter_lives(self, run: LiveRun) -> bool:
        starter = self._starters.on_slot(run.context.session, run.slot)
        return starter is not None and starter.process == run.starter and not starter.gone.is_set()

    def look(self) -> None:
        """Poll starters without a pidfd, and find job processes that no update has named."""
        for run in self:
            starter, job = run.starter, run.job_process
            # the process taken for the job may have been a site's own PREPARE_JOB that had called ours
            if run.is_running and starter is not None and (job is None or not job.alive):
                run.job_process = orphans.job_of(run) or job
            if run.waits_for_starter and time.monotonic() > run.taken_at + START_GRACE_S:
                self._spawn(self._giving_up.look_into_start(run))
        self._starters.look()

    def _starter_gone(self, starter: Starter) -> None:
        """End the runs of a starter that is gone, unless their job lives on."""
        self._on_free(starter.session, starter.slot)
        preparing = self._preparing.pop(starter.process, None)
        plain = {run for run in (preparing,) if run is not None and run.starter is None}
        for run in self.on_slot(starter.session, starter.slot):
            if run.starter == starter.process:
                plain.add(run) if run.plain else self._spawn(self._giving_up.after_grace(run))
        for run in plain:
            # a starter may be watched twice, with and without a slot
            if not run.ended and run not in self._ending:
                self._ending.add(run)
                # from now on, before the task runs: the slot may ask at once
                report = contextlib.ExitStack()
                report.enter_context(run.reporting())
                report.callback(self._ending.discard, run)
                self._spawn(self._end_plain(run, starter.process, report))

    async def _end_plain(self, run: LiveRun, starter: Process, report: contextlib.ExitStack) -> None:
        """Report the end of a run whose starter is gone and calls no JOB_EXIT; ``report`` ends then."""
        with report:
            while not run.ended and not orphans.of_run(run):
                answer = await self.tell_end(run, starter)
                if answer is None or answer.reply.code != "unavailable":
                    break
                # only the starter's own file has the end: the run is not over before it is reported
                await asyncio.sleep(random.uniform(0.5, 1.5))  # noqa: S311
        if run.starter == starter:
            await self._giving_up.after_grace(run, 0.0)

    # -- after a restart

    async def take_over(self, context: KeywordContext, timeout_s: float) -> None:
        """Read this host's runs from the database, and find their living processes."""
        self.unknown_runs.discard(context.session)
        known = [run for run in self if run.context.session is context.session]
        rows = await context.session.host_runs(timeout_s)
        await self.adopt(context, rows, known)
        self.taken_over.add(context.session)

    async def adopt(
        self, context: KeywordContext, rows: Sequence[hosts.HostRun], known: list[LiveRun]
    ) -> None:
        """Take over this host's runs from the database's ``rows``.

        Runs that were ``known`` before the rows were read, and are not among them, are over. A run whose
        process lives stays in the host's beat; the beat's answer says that it must end. A database that lost
        its last transactions waits for that (sql/functions/maintenance/note_move.sql).
        """
        living = {row.run_id for row in rows} | set(self.alive(context.session))
        for run in known:
            if run.run_id not in living and not run.exiting:
                self.ended(context.session, run.run_id)
        owners = {row.owner for row in rows} if context.check_accounts else set()
        uids = await asyncio.to_thread(lambda: {owner: uid_of(owner) for owner in owners})
        logs = context.starter_logs
        plain = await logs.tell_ends((row.run_id, str(row.token)) for row in rows)
        left = {(run.run_id, run.token): run for run in self.left if run.context.session is context.session}
        # no await from here on: a fetch must not find a run that is not watched yet
        for row in rows:
            if super().get(context.session, row.run_id) is not None or self._is_coming(context, row):
                continue
            run = LiveRun.of_row(row, context)
            run.plain = row.run_id in plain
            run.owner_uid = uids.get(row.owner)
            run.job_process = orphans.recorded_process(row)
            if (before := left.get((run.run_id, run.token))) is not None:
                run.memory_mib, run.disk_kib = before.memory_mib, before.disk_kib
                run.chain = run.chain or before.chain
            self.offered(run)
            if not run.is_running:
                continue
            event(log, logging.INFO, "run_adopted", run=run.run_id, job=run.job, slot=run.slot)
            if run.starter is not None:
                last = self._starters.on_slot(context.session, run.slot)
                self._starters.watch(run.starter, context.session, run.slot)
                if last is not None and last.process == run.starter and last.gone.is_set():
                    # a chain's: the answer that brought the run got lost, and the starter has ended since
                    self._spawn(self._giving_up.after_grace(run))

    def _is_coming(self, context: KeywordContext, row: hosts.HostRun) -> bool:
        """Whether the answer to a chain's request is on its way, and brings this run."""
        chain = self.chain(context.session, row.slot) if row.chain is not None else None
        return chain is not None and chain.first == row.chain and chain.turn.locked()

    # -- ending

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Stop watching."""
        for task in list(self._tasks):
            task.cancel()
        self._starters.close()


async def _no_end(run: LiveRun, starter: Process) -> Answer | None:
    """Return None: no record tells the run's end."""
    return None
