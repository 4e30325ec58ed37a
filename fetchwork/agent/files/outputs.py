"""The upload of jobs' outputs from the directory in which JOB_EXIT stages them, then the run's end.

JOB_EXIT announces a directory, or the agent finds it: after a restart, or if no agent was there to hear of
it. The run counts as alive until all of its outputs are uploaded, however long a database is away, though its
starter is gone and its slot has other work. Each step can be repeated: a cut upload goes on where it stopped,
the list of files replaces the earlier one, the end of a run counts once, and only then the directory is
deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import random
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fetchwork import handlers
from fetchwork.agent.files.parked import OutputSpool, Parked
from fetchwork.agent.files.sending import CALL_S, RunOver, send
from fetchwork.agent.turns import Deliveries, Delivery
from fetchwork.db.calls import files
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import (
    BucketUnavailable,
    DatabaseRefused,
    DatabaseUnavailable,
    FetchworkError,
    ProtocolError,
    SubmitError,
    one_line,
)
from fetchwork.handlers.context import Caller, Task
from fetchwork.handlers.host.keywords import KeywordContext
from fetchwork.handlers.host.runs import Runs
from fetchwork.handlers.host.session import HostSession
from fetchwork.handlers.runad import RunKey, read_starter_ad, run_key
from fetchwork.log import event
from fetchwork.sandbox.checkpoint import USE as CHECKPOINT
from fetchwork.sandbox.failure import FileFailure, TransferFailure, of_output

log = logging.getLogger(__name__)

#: longest backoff in seconds for a bucket that does not answer
BUCKET_RETRY_S = 60.0
#: most directories that are read, in all and of one account; others wait unread
MOST_KNOWN = 1000
MOST_KNOWN_EACH = 200
#: the same of one account, including directories that must come before others: a manifest may name any
MOST_AWAITED_EACH = 1000
REPORT_S = 10.0
#: seconds between two checks whether an earlier directory is uploaded
AGAIN_S = 0.1
#: tries for a file that changes while it is uploaded
MAX_CHANGES = 3
#: tries after other failures; then the end of the run is reported without its files
MAX_FAILURES = 20


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A directory that waits for its turn; its content, which may be large, is read only then."""

    name: str
    uid: int
    use: str
    after: tuple[str, ...]
    size: int
    context: KeywordContext
    key: RunKey


class Outputs:
    """Uploads the outputs staged in ``spool``; ``databases`` has each session's connection for files."""

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
        #: directories among them that must come before others; they do not count against ``MOST_KNOWN``
        self._awaited: set[str] = set()
        #: directory -> session and run, and its use
        self._keys: dict[str, tuple[HostSession, RunKey, str]] = {}
        #: directory -> bytes uploaded
        self._sent: Counter[str] = Counter()
        #: checkpoint's directory -> reason why it could not be saved, the latest ones
        self._refused: OrderedDict[str, str] = OrderedDict()
        self._turns = Deliveries()
        self._known: Counter[int] = Counter()
        #: uid -> bytes that wait to be uploaded; unread directory -> uid and bytes
        self._bytes: Counter[int] = Counter()
        self._unknown: dict[str, tuple[int, int]] = {}

    async def look(self) -> None:
        """Begin to upload staged directories that are not being uploaded yet."""
        names = await asyncio.to_thread(self.spool.names, frozenset(self._unknown))
        for name in names:
            if name not in self._unknown or self._has_room(self._unknown[name][0]):
                await self.deliver(name)
        for name in self._unknown.keys() - set(names):
            self._count_unknown(name, None)
        self.mark()

    def _count_unknown(self, name: str, of: tuple[int, int] | None) -> None:
        """Count an unread directory's bytes for its account (uid, bytes); None: stop counting it."""
        if before := self._unknown.pop(name, None):
            self._bytes[before[0]] -= before[1]
        if of is not None:
            self._unknown[name] = of
            self._bytes[of[0]] += of[1]

    def mark(self) -> None:
        """Mark the known runs whose files are being uploaded."""
        for session, key, use in self._keys.values():
            run = self._runs.get(session, key.run_id)
            # without its token a directory says nothing about a run: any account may write any number there
            if run is not None and run.token == key.token and run.uploading != "outputs":
                run.uploading = "checkpoint" if use == CHECKPOINT else "outputs"

    async def deliver(self, name: str, *, awaited: bool = False) -> None:
        """Begin to upload one directory; ``awaited``: known directories must come after it."""
        if name in self._deliveries or self.spool.is_stuck(name):
            return
        # set before the first await, so that a directory is uploaded once
        self._deliveries[name] = asyncio.ensure_future(asyncio.sleep(0))
        try:
            waiting = await self._waiting(name, awaited)
        except FileNotFoundError:
            # it was uploaded meanwhile
            waiting = None
        except (FetchworkError, OSError) as error:
            await self._set_aside(name, None, str(error))
            waiting = None
        if waiting is None:
            self._deliveries.pop(name)
            return
        self._count_unknown(name, None)
        self._keys[name] = (waiting.context.session, waiting.key, waiting.use)
        self._known[waiting.uid] += 1
        self._bytes[waiting.uid] += waiting.size
        if awaited:
            self._awaited.add(name)
        self.mark()
        self._deliveries[name] = asyncio.ensure_future(self._deliver(waiting))

    async def _waiting(self, name: str, awaited: bool) -> _Waiting | None:
        """Read the facts of a directory that are needed until its turn; None if it has to wait unread."""
        known = self._unknown.get(name)
        uid, size = known if known is not None else await asyncio.to_thread(self.spool.weigh, name)
        if not (self._known[uid] < MOST_AWAITED_EACH if awaited else self._has_room(uid, but=1)):
            self._count_unknown(name, (uid, size))
            return None
        parked = await asyncio.to_thread(self.spool.read, name)
        context = self._context(parked)
        key = run_key(read_starter_ad(parked.request.body))
        return _Waiting(name, parked.uid, parked.use, parked.after, size, context, key)

    def _has_room(self, uid: int, but: int = 0) -> bool:
        """Whether a further directory of an account may be read; ``but``: directories that do not count."""
        others = len(self._deliveries) - len(self._awaited) - but
        return others < MOST_KNOWN and self._known[uid] < MOST_KNOWN_EACH

    def _context(self, parked: Parked) -> KeywordContext:
        context = self._contexts.get(parked.request.keyword.lower())
        if context is None:
            raise ProtocolError("its keyword is not in the host file")
        return context

    def bytes_of(self, uid: int) -> int:
        """Return the bytes of an account's files that wait to be uploaded."""
        return self._bytes[uid]

    @property
    def waiting(self) -> int:
        """The number of directories that are read and not uploaded yet."""
        return len(self._deliveries)

    async def close(self) -> None:
        """Stop the uploads; the next agent goes on with them."""
        tasks = list(self._deliveries.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- one directory

    async def _deliver(self, one: _Waiting) -> None:
        failures, given_up, away_s = 0, "", 0.5
        for earlier in one.after:
            await self._until_delivered(earlier, one.uid)
        while True:
            try:
                async with self._turns.of(one.uid) as turn:
                    await self._deliver_once(one, given_up, turn)
                break
            except BucketUnavailable as error:
                event(log, logging.WARNING, "outputs_wait", person=one.uid, run=one.key.run_id, problem=error)
                # back off, because each try reads the file again
                away_s = min(BUCKET_RETRY_S, 2 * away_s)
                pause_s = away_s
            except DatabaseUnavailable:
                pause_s = random.uniform(0.5, 1.5)  # noqa: S311
            except (ProtocolError, DatabaseRefused, handlers.context.Denied) as error:
                await self._refuse(one, str(error))
                break
            except Exception as error:
                failures += 1
                pause_s = failures
                changed = isinstance(error, FileFailure | SubmitError)
                problem = str(error) if changed else f"{type(error).__name__}: {error}"
                if not changed:
                    event(
                        log,
                        logging.ERROR,
                        "outputs_failed",
                        person=one.uid,
                        exc_info=True,
                        run=one.key.run_id,
                    )
                if failures >= (MAX_CHANGES if changed else MAX_FAILURES):
                    if given_up or one.use == CHECKPOINT:
                        await self._refuse(one, problem)
                        break
                    given_up = one_line(problem, 400)
            # outside of the handler, because the exception keeps all data that were read
            await asyncio.sleep(pause_s)
        self._known[one.uid] -= 1
        self._bytes[one.uid] -= one.size
        session, key, _ = self._keys.pop(one.name)
        run = self._runs.get(session, key.run_id)
        if run is not None and run.token == key.token:
            run.uploading = None
            self.mark()
            run.changed.set()
        del self._sent[one.name]
        self._awaited.discard(one.name)
        self._deliveries.pop(one.name, None)

    async def _until_delivered(self, name: str, uid: int) -> None:
        """Wait until an earlier directory of an account is uploaded or set aside."""
        while await asyncio.to_thread(self.spool.is_there, name, uid):
            await self.deliver(name, awaited=True)
            await asyncio.sleep(AGAIN_S)

    async def _refuse(self, one: _Waiting, problem: str) -> None:
        if one.use == CHECKPOINT:
            self._refused[one.name] = problem
            while len(self._refused) > MOST_KNOWN:
                self._refused.popitem(last=False)
        await self._set_aside(one.name, one.key.run_id, problem)

    async def saved(self, name: str, uid: int, end: float) -> str:
        """Return a staged checkpoint's state: "saved", "refused" with the reason, "saving" with the bytes.

        Waits for its end until the monotonic time ``end``.
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
        self, parked: Parked, context: KeywordContext, key: RunKey, database: AsyncDatabase, turn: Delivery
    ) -> None:
        """Upload a checkpoint; in the database it replaces the one before all at once."""
        began = time.monotonic()
        answer = "late"
        with contextlib.suppress(RunOver):
            try:
                answer = await self._keep(database, key, parked, turn)
            except OSError as error:
                raise ProtocolError(f"reading the staged files: {error.strerror}") from None
        event(
            log,
            logging.INFO if answer == "kept" else logging.WARNING,
            "checkpoint_saved" if answer == "kept" else "checkpoint_late",
            person=None if answer == "kept" else parked.uid,
            run=key.run_id,
            number=parked.number,
            files=len(parked.files),
            bytes=self._sent[parked.name],
            ms=int((time.monotonic() - began) * 1000),
        )
        if answer == "late":
            self._runs.ended(context.session, key.run_id)
        await asyncio.to_thread(self.spool.delete, parked.name)

    async def _keep(self, database: AsyncDatabase, key: RunKey, parked: Parked, turn: Delivery) -> str:
        """Upload the files and their list; return "kept", or "late" if the run is over."""
        self._sent[parked.name] = 0

        def on_progress(size: int) -> None:
            self._sent[parked.name] += size

        manifest = await send(database, key, self.spool, parked, on_progress, turn.aside)
        kept = await database.run(
            files.keep_outputs(
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

    async def _keep_or_why_not(
        self,
        database: AsyncDatabase,
        key: RunKey,
        parked: Parked,
        failure: TransferFailure | None,
        turn: Delivery,
    ) -> TransferFailure | None:
        """Upload the files; return the reason to hold the job: ``failure``, or the failure of the upload."""
        try:
            if await self._keep(database, key, parked, turn) == "late":
                raise RunOver
        except DatabaseRefused as error:
            return failure or of_output(str(error), errno.EDQUOT)
        except ProtocolError as error:
            # a process that the job left behind may rename a staged file: the job's end is reported all the
            # same
            return failure or of_output(f"reading the staged files: {error}", errno.EIO)
        except OSError as error:
            return failure or of_output(
                f"reading the staged files: {error.strerror}", error.errno or errno.EIO
            )
        return failure

    async def _deliver_once(self, one: _Waiting, given_up: str, turn: Delivery) -> None:
        """Upload a directory and report the end; ``given_up``: the reason why its files are left out."""
        began = time.monotonic()
        parked = replace(await asyncio.to_thread(self.spool.read, one.name), after=one.after, use=one.use)
        context, key = one.context, one.key
        caller = Caller(one.uid, one.uid in self._trusted)
        task = Task(parked.request, caller, context, self._runs, time.monotonic() + REPORT_S)
        await task.own_run(key)
        database = self._databases[context.session]
        if parked.use == CHECKPOINT:
            await self._save(parked, context, key, database, turn)
            return
        failure = parked.failure
        try:
            await _note(database, key, "output")
            if given_up:
                failure = failure or of_output(given_up, errno.EIO)
            elif parked.use != "nothing":
                failure = await self._keep_or_why_not(database, key, parked, failure, turn)
        except RunOver:
            event(log, logging.WARNING, "outputs_late", person=one.uid, run=key.run_id)
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

    async def _set_aside(self, name: str, run_id: int | None, problem: str) -> None:
        uid = None
        with contextlib.suppress(OSError):
            uid = await asyncio.to_thread(self.spool.account, name)
        event(log, logging.WARNING, "outputs_set_aside", person=uid, uid=uid, run=run_id, problem=problem)
        await asyncio.to_thread(self.spool.set_aside, name)


async def _note(
    database: AsyncDatabase, key: RunKey, phase: str, size: int | None = None, seconds: float | None = None
) -> None:
    await database.run(
        files.note_transfer(
            run_id=key.run_id,
            token=key.token,
            phase=phase,
            direction="output" if size is not None else None,
            bytes=size,
            seconds=seconds,
        ),
        timeout_s=CALL_S,
    )
