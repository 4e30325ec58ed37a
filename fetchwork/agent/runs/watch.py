"""The agent's live runs, and the processes behind them.

Theory of operation
-------------------
The starter is the parent of its hooks; PREPARE_JOB shows it, and a pidfd shows its end, however it ends.
A run whose JOB_EXIT has come is over by then. One whose JOB_EXIT has not come gets a second of grace, for a
report that is still on its way or lies in the spool, and is then given up (detector 2 of three: a starter
killed by SIGKILL takes its job along and calls no hook).

Unless the job lives on: when condor_master is killed by SIGKILL, starter and startd end, and the job stays as
an orphan that no hook will report. Its run is not given up while the process is there, because the job would
then run twice at the same time. Its result can't be learnt either, so the agent ends it, where it may.

A slot that asks for work is free (detector 1), so what it had before is over; the same two exceptions hold.
The third is a dynamic slot: for an ad that it fetched, HTCondor 25 may make another dynamic slot, and let the
first one ask again at once. What was offered to it gets some seconds until a starter's PREPARE_JOB says where
it runs.

A busy slot may ask before its starter has called a hook: the starter that is known for the slot, though
gone, is then that of the job before, and its end says nothing about this one. With a dynamic slot that may
have been another slot of the same name, and the job is one that the partitionable slot, or another dynamic
one, has fetched.

After a restart the agent reads its host's runs from the database, and finds their starters by number and
start time, which no later process shares. No slot is taken for free before that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

from fetchwork.agent import peer
from fetchwork.agent.root.signalrights import SignalRights
from fetchwork.agent.runs import orphans
from fetchwork.agent.runs.givingup import GivingUp
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
from fetchwork.log import event
from fetchwork.process import Process

log = logging.getLogger(__name__)

#: REPLY_FETCH may still be on its way when the slot asks again
REPLY_GRACE_S = 0.3
#: a starter comes up within this after the accept, or is waited for no more
START_GRACE_S = 2.0
#: the same for what a dynamic slot has fetched, as slot_is_free.sql has it
DYNAMIC_GRACE_S = 10.0
CALL_S = 5.0


class WatchedRuns(Runs):
    """The live runs of this host; ``replay`` delivers what is spooled, ``on_free`` hears of free slots."""

    def __init__(
        self,
        replay: Callable[[], Awaitable[None]],
        on_free: Callable[[HostSession, str], None],
        rights: SignalRights | None = None,
    ) -> None:
        super().__init__()
        self._replay = replay
        self._on_free = on_free
        #: to signal jobs
        self.rights = rights or SignalRights()
        self._giving_up = GivingUp(self, replay, self.rights)
        self._starters = Starters(self._starter_gone)
        self._tasks: set[asyncio.Task[None]] = set()
        #: not among the runs, but their starters may live: first those of the agent before (``Updates``)
        self.left: list[LiveRun] = []
        self.taken_over = set[HostSession]()  #: those whose runs of the agent before have been read
        self._taking_over = asyncio.Lock()
        #: sessions whose runs should be read again: a hook came of a run that is not known here
        self.unknown_runs: set[HostSession] = set()
        # runs that the database wants to end, from the host's beat
        self._to_end: set[tuple[HostSession, int]] = set()
        #: set when there are some
        self.end_soon = asyncio.Event()
        #: reports the end of a run whose starter, of this identity, is gone and calls no JOB_EXIT
        self.tell_end: Callable[[LiveRun, str], Awaitable[Answer | None]] = _no_end
        # runs without a JOB_EXIT whose starter has asked for the start, by that starter
        self._preparing: dict[str, LiveRun] = {}
        # those whose ends are being reported
        self._ending: set[LiveRun] = set()
        #: called before a job starts, with its run among the others
        self.on_start: Callable[[], None] = lambda: None

    # -- what handlers report

    def preparing(self, run: LiveRun, starter: str | None, slot: str) -> None:
        """A starter asks whether the run may start: without a JOB_EXIT its end tells what came of that."""
        super().preparing(run, starter, slot)
        waits = run.state in ("reserved", "accepted") and run not in self._preparing.values()
        if run.plain and starter is not None and waits:
            # before it is asked to be watched, for it may be gone
            self._preparing[starter] = run
            self._starters.watch_beside(Starter(starter, run.context.session, slot))

    def started(self, run: LiveRun, starter: str | None, slot: str) -> None:
        """The run passed the fence: watch its starter."""
        super().started(run, starter, slot)
        if starter is not None:
            self._starters.watch(starter, run.context.session, slot)
        self.on_start()

    def reported(self, run: LiveRun, job_pid: int) -> None:
        """An update named the number of the job's process."""
        if run.job_process is None or run.job_process.pid != job_pid:
            run.job_process = Process.find(job_pid)

    def get(self, session: HostSession, run_id: int) -> LiveRun | None:
        """The live run with this id; for one that is not known the database's list is read soon."""
        run = super().get(session, run_id)
        if run is None:
            self.unknown_runs.add(session)
        return run

    def end_wanted(self, session: HostSession, run_ids: Iterable[int]) -> None:
        """The database wants these runs of a session to end, and no others."""
        self._to_end = {one for one in self._to_end if one[0] is not session}
        wanted = {(session, run_id) for run_id in run_ids}
        self._to_end |= wanted
        if wanted:
            self.end_soon.set()

    def is_to_end(self, run: LiveRun) -> bool:
        """Whether the database wants a run to end; said once."""
        key = (run.context.session, run.run_id)
        wanted = key in self._to_end
        self._to_end.discard(key)
        return wanted

    # -- what fetches ask

    async def free_slot(self, context: KeywordContext, slot: str, ad: bytes, timeout_s: float) -> bool:
        """A free slot asks for work: what it had before is over. False if something of it lives on."""
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
                # of one that the agent before has offered only the database knows
                untold = run.waits_for_starter and run.fetched_by
                await (self._settle(run, ad) if untold else self._take_back(run))
        before = [run for run in before if run.state in ("accepted", "running")]
        if any(run.exiting for run in before):
            await self._until_exited(before, timeout_s)
        try:
            await self._replay()
        except DatabaseUnavailable:
            # the reports that wait there may be of these runs: nothing is over before they are delivered
            raise
        except FetchworkError as error:
            event(log, logging.ERROR, "spool", problem=error)
        before = [run for run in before if run.state != "ended" and not run.delivering]
        if not before:
            return True
        # what is reported for longer is not over: its job would be given again though its end is known
        if any(run.exiting or run.saving or orphans.of_run(run) for run in before):
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
        """The starter of a busy slot, if the slot is free after its end; None if that is unknown."""
        await self._until_started(self.on_slot(context.session, slot))
        starter = self._starters.on_slot(context.session, slot)
        if starter is not None and starter.gone.is_set():
            # it may be that of an earlier dynamic slot of this name: what this one runs, another has fetched
            beside = self.beside(context.session, slot)
            await self._until_started(beside)
            if any(run.waits_for_starter for run in beside):
                return None
            starter = self._starters.on_slot(context.session, slot)
        if starter is None or any(
            # it is busy with this one, of whose starter nothing is known
            run.waits_for_starter or (run.state == "running" and run.starter != starter.identity)
            for run in self.on_slot(context.session, slot)
        ):
            return None
        if starter.gone.is_set() and time.monotonic() - starter.gone_at > STALE_FETCH_S:
            return None
        return starter

    async def _until_started(self, runs: Iterable[LiveRun]) -> None:
        """Wait until these runs have started, each for a while."""
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
        # a claim that PostgreSQL forgot in a crash is as good as taken back
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
        """Take an offer for accepted or refused, as the next ad of its slot says."""
        session = run.context.session
        if was_taken(parse_old(run.fetched_by), parse_old(ad)):
            self.taken(run)
            return
        # a claim that PostgreSQL forgot in a crash is refused as well
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
        """The runs whose starter or job is alive, or whose files are being delivered, with their tokens."""
        alive = {run.run_id: run.token for run in self.left if run.context.session is session}
        for run in self:
            lives = run.state == "running" and run.context.session is session
            if lives and (run.delivering or run.saving or self._starter_lives(run) or orphans.of_run(run)):
                alive[run.run_id] = run.token
        return alive

    def _starter_lives(self, run: LiveRun) -> bool:
        starter = self._starters.on_slot(run.context.session, run.slot)
        return starter is not None and starter.identity == run.starter and not starter.gone.is_set()

    def look(self) -> None:
        """Look for the end of starters without a pidfd, and for job processes that no update has named."""
        for run in self:
            starter = Process.of_key(run.starter)
            job = run.job_process
            # what was taken for the job may have been a site's own PREPARE_JOB, which had called ours
            if run.state == "running" and starter is not None and (job is None or not job.alive):
                run.job_process = orphans.child_of(starter) or job
            if run.waits_for_starter and time.monotonic() > run.taken_at + START_GRACE_S:
                self._spawn(self._giving_up.look_into_start(run))
        self._starters.look()

    def _starter_gone(self, starter: Starter) -> None:
        """What ran under this starter is over, unless its job lives on."""
        self._on_free(starter.session, starter.slot)
        preparing = self._preparing.pop(starter.identity, None)
        plain = {run for run in (preparing,) if run is not None and run.starter is None}
        for run in self.on_slot(starter.session, starter.slot):
            if run.starter == starter.identity:
                plain.add(run) if run.plain else self._spawn(self._giving_up.after_grace(run))
        for run in plain:
            # a starter may be watched for its slot and for itself
            if not run.ended and run not in self._ending:
                self._ending.add(run)
                run.exiting += 1
                self._spawn(self._end_plain(run, starter.identity))

    async def _end_plain(self, run: LiveRun, starter: str) -> None:
        """Report the end of a run whose starter is gone and calls no JOB_EXIT."""
        try:
            while not run.ended and not orphans.of_run(run):
                answer = await self.tell_end(run, starter)
                if answer is None or answer.reply.code != "unavailable":
                    break
                # it is kept nowhere but in the starter's own file: nothing of this run is over before
                await asyncio.sleep(random.uniform(0.5, 1.5))  # noqa: S311
        finally:
            self._ending.discard(run)
            run.exiting -= 1
            run.changed.set()
        if run.starter == starter:
            await self._giving_up.after_grace(run, 0.0)

    # -- after a restart

    async def take_over(self, context: KeywordContext, timeout_s: float) -> None:
        """Read this host's runs from the database, and look which of their processes are there."""
        self.unknown_runs.discard(context.session)
        known = [run for run in self if run.context.session is context.session]
        rows = await context.session.host_runs(timeout_s)
        await self.adopt(context, rows, known)
        self.taken_over.add(context.session)

    async def adopt(
        self, context: KeywordContext, rows: Sequence[hosts.HostRun], known: list[LiveRun]
    ) -> None:
        """Take over the runs that the database has of this host.

        Those that were ``known`` before the rows were read, and are not among them, are over. One whose
        process is alive stays in the host's beat, which answers that it has to end: a database that lost its
        last transactions waits for that (sql/functions/maintenance/note_move.sql).
        """
        living = {row.run_id for row in rows} | set(self.alive(context.session))
        for run in known:
            if run.run_id not in living and not run.exiting:
                self.ended(context.session, run.run_id)
        owners = {row.owner for row in rows} if context.check_accounts else set()
        uids = await asyncio.to_thread(lambda: {owner: peer.uid_of(owner) for owner in owners})
        logs = context.starter_logs
        plain = await logs.tell_ends((row.run_id, str(row.token)) for row in rows)
        # from here on without a pause: a fetch must not find a run among the others that is not watched
        for row in rows:
            if super().get(context.session, row.run_id) is not None:
                continue
            run = LiveRun.of_row(row, context)
            run.plain = row.run_id in plain
            run.owner_uid = uids.get(row.owner)
            run.job_process = orphans.recorded_process(row)
            self.offered(run)
            if run.state != "running":
                continue
            event(log, logging.INFO, "run_adopted", run=run.run_id, job=run.job, slot=run.slot)
            if run.starter is not None:
                self._starters.watch(run.starter, context.session, run.slot)

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


async def _no_end(run: LiveRun, starter: str) -> Answer | None:
    """Nothing tells how the run ended."""
    return None
