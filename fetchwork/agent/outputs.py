"""The delivery of what jobs leave: from where JOB_EXIT parks it to the database, then the run's end.

JOB_EXIT tells of a directory, or it is found there: after a restart, or when no agent was there to be told.
Its run counts as alive until all of it is delivered, however long a database is away, though its starter is
gone and its slot has other work. Each step can be repeated: a content that was begun goes on where it
stopped, the list of files replaces the one before, the end of a run counts once, and only then the
directory goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import replace

from fetchwork import handlers
from fetchwork.agent.parked import OutputSpool, Parked
from fetchwork.agent.sending import CALL_S, RunOver, send
from fetchwork.db import calls
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import (
    DatabaseRefused,
    DatabaseUnavailable,
    FetchworkError,
    ProtocolError,
    one_line,
)
from fetchwork.handlers.context import Caller, Task
from fetchwork.handlers.keywords import KeywordContext
from fetchwork.handlers.runad import RunKey, read_starter_ad, run_key
from fetchwork.handlers.runs import Runs
from fetchwork.handlers.session import HostSession
from fetchwork.log import event
from fetchwork.sandbox.checkpoint import USE as CHECKPOINT
from fetchwork.sandbox.failure import of_output

log = logging.getLogger(__name__)

#: directories that are delivered at a time
AT_ONCE = 4
#: of one account
AT_ONCE_EACH = 2
#: directories whose contents are known; the others wait unread
MOST_KNOWN = 1000
MOST_KNOWN_EACH = 200
#: of one account with those that others of it come after, as a manifest may say of any
MOST_AWAITED_EACH = 1000
REPORT_S = 10.0
#: what another directory has to wait for is looked for again at this interval
AGAIN_S = 0.1
#: a delivery that fails over our own fault so often is put aside
MAX_FAILURES = 20


class Outputs:
    """Delivers what is parked in ``spool``; ``databases`` has a connection for files by session."""

    def __init__(
        self,
        spool: OutputSpool,
        contexts: Mapping[str, KeywordContext],
        runs: Runs,
        trusted: frozenset[int],
        databases: Mapping[HostSession, AsyncDatabase],
    ) -> None:
        self.spool = spool
        self._contexts = contexts
        self._runs = runs
        self._trusted = trusted
        self._databases = databases
        self._deliveries: dict[str, asyncio.Task[None]] = {}
        #: those of them that others come after: they take no room of other accounts
        self._awaited: set[str] = set()
        #: whose run's it is, and whether that is over with it
        self._keys: dict[str, tuple[HostSession, int, bool]] = {}
        #: bytes of each that are delivered
        self._sent: Counter[str] = Counter()
        #: why checkpoints could not be saved, the last ones
        self._refused: OrderedDict[str, str] = OrderedDict()
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._turns: dict[int, asyncio.Semaphore] = {}
        self._known: Counter[int] = Counter()
        #: bytes that wait to be delivered, by account
        self._bytes: Counter[int] = Counter()

    async def look(self) -> None:
        """Begin to deliver what is parked and is not being delivered."""
        for name in await asyncio.to_thread(self.spool.names):
            await self.deliver(name)
        self.mark()

    def mark(self) -> None:
        """Mark the runs, as far as they are known by now, whose files are being delivered."""
        for session, run_id, ends in self._keys.values():
            run = self._runs.get(session, run_id)
            if run is None:
                continue
            if ends:
                run.delivering = True
            else:
                run.saving = True

    async def deliver(self, name: str, *, awaited: bool = False) -> None:
        """Begin to deliver one directory; ``awaited``: others that are known come after it."""
        others = len(self._deliveries) - len(self._awaited)
        if name in self._deliveries or (others >= MOST_KNOWN and not awaited):
            return
        # before anything waits: once
        self._deliveries[name] = asyncio.ensure_future(asyncio.sleep(0))
        try:
            known = self._known[await asyncio.to_thread(self.spool.account, name)]
            if known >= (MOST_AWAITED_EACH if awaited else MOST_KNOWN_EACH):
                self._deliveries.pop(name)
                return
            parked = await asyncio.to_thread(self.spool.read, name)
            context = self._contexts.get(parked.request.keyword.lower())
            if context is None:
                raise ProtocolError("its keyword is not in the host file")
            key = run_key(read_starter_ad(parked.request.body))
            size = await asyncio.to_thread(self.spool.size, name)
        except FileNotFoundError:
            # somebody has delivered it meanwhile
            self._deliveries.pop(name)
            return
        except (FetchworkError, OSError) as error:
            await self._set_aside(name, str(error))
            self._deliveries.pop(name)
            return
        self._keys[name] = (context.session, key.run_id, parked.use != CHECKPOINT)
        self._known[parked.uid] += 1
        self._bytes[parked.uid] += size
        if awaited:
            self._awaited.add(name)
        self.mark()
        self._deliveries[name] = asyncio.ensure_future(self._deliver(parked, size, context, key))

    def bytes_of(self, uid: int) -> int:
        """Bytes of an account's files that are known to wait to be delivered."""
        return self._bytes[uid]

    @property
    def waiting(self) -> int:
        """Directories that are not delivered yet."""
        return len(self._deliveries)

    async def close(self) -> None:
        """Stop; the next agent goes on."""
        tasks = list(self._deliveries.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- one directory

    async def _deliver(self, parked: Parked, size: int, context: KeywordContext, key: RunKey) -> None:
        failures = 0
        for earlier in parked.after:
            await self._until_delivered(earlier, parked.uid)
        while True:
            try:
                turn = self._turns.setdefault(parked.uid, asyncio.Semaphore(AT_ONCE_EACH))
                async with turn, self._turn:
                    await self._deliver_once(parked, context, key)
                break
            except DatabaseUnavailable:
                await asyncio.sleep(random.uniform(0.5, 1.5))  # noqa: S311
            except (ProtocolError, DatabaseRefused, handlers.context.Denied) as error:
                self._refuse(parked, str(error))
                await self._set_aside(parked.name, str(error))
                break
            except Exception as error:
                failures += 1
                log.exception("delivery of %s failed", parked.name)
                if failures >= MAX_FAILURES:
                    await self._set_aside(parked.name, f"{type(error).__name__}: {error}")
                    break
                await asyncio.sleep(failures)
        self._known[parked.uid] -= 1
        self._bytes[parked.uid] -= size
        session, run_id, ends = of_run = self._keys.pop(parked.name)
        run = self._runs.get(session, run_id)
        if run is not None and of_run not in self._keys.values():
            if ends:
                run.delivering = False
            else:
                run.saving = False
            run.changed.set()
        del self._sent[parked.name]
        self._awaited.discard(parked.name)
        self._deliveries.pop(parked.name, None)

    async def _until_delivered(self, name: str, uid: int) -> None:
        """Wait until an earlier directory of an account is delivered, or put aside."""
        while await asyncio.to_thread(self.spool.is_there, name, uid):
            await self.deliver(name, awaited=True)
            await asyncio.sleep(AGAIN_S)

    def _refuse(self, parked: Parked, problem: str) -> None:
        if parked.use == CHECKPOINT:
            self._refused[parked.name] = problem
            while len(self._refused) > MOST_KNOWN:
                self._refused.popitem(last=False)

    async def saved(self, name: str, uid: int, end: float) -> str:
        """What became of a checkpoint that was parked: "saved", "refused" and why, "saving" and the bytes.

        Waits for news until the monotonic time ``end``.
        """
        sent = -1
        while await asyncio.to_thread(self.spool.is_there, name, uid):
            await self.deliver(name)
            sent = self._sent[name]
            if time.monotonic() + AGAIN_S > end:
                return f"saving {sent}"
            await asyncio.sleep(AGAIN_S)
        if name in self._refused or await asyncio.to_thread(self.spool.was_set_aside, name):
            return f"refused {one_line(self._refused.get(name, 'it was put aside'), 400)}"
        return "saved"

    async def _save(
        self, parked: Parked, context: KeywordContext, key: RunKey, database: AsyncDatabase
    ) -> None:
        """Bring a checkpoint into the database, where it takes the place of the one before all at once."""
        began = time.monotonic()
        answer = "late"
        with contextlib.suppress(RunOver):
            try:
                answer = await self._keep(database, key, parked)
            except OSError as error:
                raise ProtocolError(f"reading what was parked: {error.strerror}") from None
        event(
            log,
            logging.INFO if answer == "kept" else logging.WARNING,
            "checkpoint_saved" if answer == "kept" else "checkpoint_late",
            run=key.run_id,
            number=parked.number,
            files=len(parked.files),
            bytes=self._sent[parked.name],
            ms=int((time.monotonic() - began) * 1000),
        )
        if answer == "late":
            self._runs.ended(context.session, key.run_id)
        await asyncio.to_thread(self.spool.delete, parked.name)

    async def _keep(self, database: AsyncDatabase, key: RunKey, parked: Parked) -> str:
        """Bring the files into the database, and their list: "kept", or "late" if the run is over."""
        self._sent[parked.name] = 0

        def told(size: int) -> None:
            self._sent[parked.name] += size

        manifest = await send(database, key, self.spool, parked, told)
        kept = await database.run(
            calls.keep_outputs(
                run_id=key.run_id,
                token=key.token,
                manifest=manifest,
                spool=parked.use in ("spool", CHECKPOINT),
                checkpoint=parked.number,
            ),
            timeout_s=CALL_S,
        )
        if kept == "busy":
            raise DatabaseUnavailable("the run is being ended")
        return kept

    async def _deliver_once(self, parked: Parked, context: KeywordContext, key: RunKey) -> None:
        began = time.monotonic()
        caller = Caller(parked.uid, parked.uid in self._trusted)
        task = Task(parked.request, caller, context, self._runs, time.monotonic() + REPORT_S)
        await task.own_run(key)
        database = self._databases[context.session]
        if parked.use == CHECKPOINT:
            await self._save(parked, context, key, database)
            return
        failure = parked.failure
        try:
            await _note(database, key, "output")
            try:
                if parked.use != "nothing" and await self._keep(database, key, parked) == "late":
                    raise RunOver
            except DatabaseRefused as error:
                failure = failure or of_output(str(error), 122)
            except OSError as error:
                failure = failure or of_output(f"reading what was parked: {error.strerror}", error.errno or 5)
        except RunOver:
            event(log, logging.WARNING, "outputs_late", run=key.run_id, directory=parked.name)
            await asyncio.to_thread(self.spool.delete, parked.name)
            self._runs.ended(context.session, key.run_id)
            return
        size = self._sent[parked.name]
        await _note(database, key, "output", size, parked.seconds + time.monotonic() - began)
        task = replace(task, end=time.monotonic() + REPORT_S, failure=failure)
        answer = await handlers.handle(task)
        event(
            log,
            logging.INFO,
            "outputs_delivered",
            **answer.log_fields(),
            files=len(parked.files),
            bytes=size,
            use=parked.use,
            problem=failure,
            ms=int((time.monotonic() - began) * 1000),
        )
        if answer.reply.code == "unavailable":
            raise DatabaseUnavailable(answer.reply.message)
        if answer.reply.code == "failed":
            raise FetchworkError(answer.reply.message)
        if answer.reply.code:
            raise ProtocolError(answer.reply.message)
        await asyncio.to_thread(self.spool.delete, parked.name)

    async def _set_aside(self, name: str, problem: str) -> None:
        event(log, logging.WARNING, "outputs_set_aside", directory=name, problem=problem)
        await asyncio.to_thread(self.spool.set_aside, name)


async def _note(
    database: AsyncDatabase, key: RunKey, phase: str, size: int | None = None, seconds: float | None = None
) -> None:
    await database.run(
        calls.note_transfer(
            run_id=key.run_id,
            token=key.token,
            phase=phase,
            direction="output" if size is not None else None,
            bytes=size,
            seconds=seconds,
        ),
        timeout_s=CALL_S,
    )
