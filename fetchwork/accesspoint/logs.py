"""Keeps the event logs of jobs up to date, for an access point or ``fetchwork userlog``: ``log = FILE``.

Theory of operation
-------------------
One reader follows the stream of all events. Those of its jobs (``joblogs``) go to their logs, each written by
a child of the job's owner (``child``), so no path, file system or quota of one person is in another's way.
``fetchwork userlog`` writes the logs of its caller's jobs itself. A state file keeps the cursor behind which
every event is in its log.

A submit event is written before the submission is answered, which may be long before the stream shows it: a
transaction that is open anywhere holds the stream back. What was written early is remembered, and left out
when the stream comes to it.

A keeper that was killed may have written entries that its cursor does not cover. So its successor looks, for
every event older than itself, whether the end of the log has it already. So does one whose database was
restored or moved to another server, which may show the events of the last seconds before that again.

A log that can't be written for now (a full disk, a file system that does not answer) falls behind: the state
file keeps a cursor for this owner, and from there it is tried again, alone, while all other logs go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pwd
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from fetchwork.accesspoint.children import Account
from fetchwork.accesspoint.joblogs import JobLogs, Log
from fetchwork.accesspoint.logfiles import Appender, Behind, LogFiles, Report, logged
from fetchwork.accesspoint.logstate import Kept, StateFile
from fetchwork.client.wire import Json
from fetchwork.codes import EventType
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import NOT_NOW, DatabaseUnavailable, FetchworkError
from fetchwork.queue.ask import Found, Pause, Steps
from fetchwork.queue.events import Cursor, CursorExpired, JobEvent
from fetchwork.queue.reader import Reader
from fetchwork.queue.session import AsyncSession

#: a submission waits so long for the first contact with the database
READY_S = 15.0
#: pauses before an owner who is behind is tried again
FIRST_RETRY_S = 2.0
LONGEST_RETRY_S = 60.0
#: between two looks: what comes meanwhile is written at once, and DAGMan reads its nodes log once a second
GATHER_S = 0.05
#: where no job of this access point has a log
IDLE_S = 0.5
#: after a database that did not answer
PAUSE_S = 1.0

_SUBMITTED = """
SELECT
    concat_ws(
        -- an event without a place is ahead of the stream
        E'\\t', coalesce(batch, 9223372036854775807), eventid, eventtypenumber, clusterid, procid,
        coalesce(runid, -1), extract(epoch FROM event_at), info
    ) AS line
FROM fetchwork.events
WHERE clusterid = %s AND eventtypenumber = 0
ORDER BY batch, eventid
"""


@dataclass(slots=True)
class Lag:
    """From where on a log's entries are missing; not ``sure``: it may have some of them."""

    cursor: Cursor
    sure: bool


class LogKeeper:
    """Writes the logs of jobs, without a state file from ``after`` on (None: the oldest event kept)."""

    def __init__(
        self,
        database: AsyncDatabase,
        logs: JobLogs,
        appender: Appender,
        state: Path,
        serves: Callable[[str, int], bool],
        *,
        after: str | None = "now",
        report: Report = logged,
    ) -> None:
        self._session = AsyncSession(database)
        self._database = database
        self._state = StateFile(state)
        self._serves = serves
        self._cursor: Cursor | None = None
        self._behind: dict[Log, Lag] = {}
        self._retries: dict[Log, asyncio.Task[None]] = {}
        self._logs = logs
        self._files = LogFiles(appender, report)
        self._report = report
        self._after = after
        #: the end of the last page that is being written, or is
        self._taken = Cursor(0, 0)
        self._page_done = asyncio.Event()
        self._page_done.set()
        self._ready = asyncio.Event()
        self._advanced = asyncio.Event()
        self._ending = asyncio.Event()
        #: logs may have entries of events that are older than this, by the database's clock
        self._checked_until = 0.0

    async def ready(self) -> None:
        """Wait until it is known from where on events are written: a job submitted now is behind it."""
        try:
            async with asyncio.timeout(READY_S):
                await self._ready.wait()
        except TimeoutError:
            raise DatabaseUnavailable("the access point has not reached the database yet") from None

    @property
    def owners_behind(self) -> list[str]:
        """Owners with a log that can't be written for now."""
        return sorted({behind.owner for behind in self._behind})

    @property
    def entries(self) -> int:
        """How many entries were written since the start."""
        return self._files.written

    # -- the stream

    async def keep(self) -> None:
        """Follow the events until ``keep_for`` ends this."""
        while True:
            try:
                await self._begin()
                self._ready.set()
                await self._follow()
                return
            except NOT_NOW as error:
                self._report(logging.WARNING, "logs_wait", None, error)
            except CursorExpired as error:
                self._report(logging.ERROR, "events_missed", None, error)
                self._taken = Cursor.parse(await self._session.run(Reader.now()))
                await self._save(self._taken)
            if self._ending.is_set():
                return
            await asyncio.sleep(PAUSE_S)

    async def keep_for(self, seconds: float | None) -> None:
        """Follow the events for so long (None: until it is cancelled), and to the end of those of then.

        Logs that are behind are tried once more at the end.
        """
        keeping = asyncio.ensure_future(self.keep())
        try:
            await asyncio.wait([keeping], timeout=seconds)
            self._ending.set()
            await keeping
            await asyncio.gather(*self._retries.values())
            if self._cursor is not None:
                await self._save(self._cursor, exact=True)
        finally:
            keeping.cancel()

    async def _begin(self) -> None:
        if self._cursor is None:
            kept = await asyncio.to_thread(self._state.load)
            if kept is None:
                kept = Kept(await self._start(), {})
            if not kept.exact:
                await self._check_until_now()
            self._behind = {found: Lag(cursor, sure=False) for found, cursor in kept.behind.items()}
            # it is exact no longer
            await self._save(kept.cursor)
        assert self._cursor is not None
        self._taken = max(self._taken, self._cursor)
        for behind in self._behind:
            self._retry(behind)

    async def _start(self) -> Cursor:
        if self._after is None:
            return Cursor.parse(await self._session.run(Reader.oldest()))
        return Cursor.parse(await self._session.run(Reader.now()) if self._after == "now" else self._after)

    async def _check_until_now(self) -> None:
        """Look, for each event up to now, whether its log has it already."""
        (row,) = await self._database.query("SELECT extract(epoch FROM clock_timestamp())::float8 AS at")
        self._checked_until = row["at"]

    async def _follow(self) -> None:
        assert self._cursor is not None
        reader = self._logs.reader(self._cursor)
        stream = reader.lines(None)
        with contextlib.closing(stream):
            answer: object = None
            while True:
                step = stream.send(answer)
                answer = None
                if isinstance(step, Found):
                    assert reader.position is not None
                    await self._write_page([JobEvent(line) for line in step.items], reader.position)
                elif isinstance(step, Pause):
                    if reader.position is not None and reader.position > self._taken:
                        # by events of other jobs
                        await self._write_page([], reader.position)
                    if self._ending.is_set():
                        return
                    # without jobs of its own that have a log there is little to wait for
                    await asyncio.sleep(GATHER_S if self._logs.any else IDLE_S)
                else:
                    answer = await self._session.answer(step)

    async def _write_page(self, events: list[JobEvent], end: Cursor) -> None:
        await self._logs.find(events)
        if self._taken.lies_before_move(end):
            await self._check_until_now()
        self._taken = end
        # a retry that ends from here on has written this page, too
        behind = frozenset(self._behind)
        self._page_done.clear()
        try:
            by_owner: dict[str, dict[Log, list[JobEvent]]] = {}
            for one in events:
                for found in self._logs.of(one):
                    if found not in behind:
                        by_owner.setdefault(found.owner, {}).setdefault(found, []).append(one)
                if one.type_number in (EventType.JOB_TERMINATED, EventType.JOB_ABORTED):
                    self._logs.forget(one)
            await asyncio.gather(*(self._write_owner(owner, logs) for owner, logs in by_owner.items()))
        finally:
            self._page_done.set()
        await self._save(end)

    async def _write_owner(self, owner: str, logs: dict[Log, list[JobEvent]]) -> None:
        try:
            account = await self.account(owner)
        except FetchworkError as error:
            self._report(logging.WARNING, "log_not_written", owner, error)
            return
        async with self._files.turn(owner):
            for found, events in logs.items():
                try:
                    await self._write(found, account, events)
                except Behind as error:
                    self._falls_behind(found, sure=error.sure)
                except FetchworkError as error:
                    self._report(logging.WARNING, "log_not_written", owner, error)

    async def _write(self, found: Log, account: Account, events: Iterable[JobEvent]) -> None:
        """Write events that the stream or a retry brought."""
        events = list(events)
        left = self._files.not_early(found, events)
        old = [one.entry(xml=found.xml) for one in left if one.epoch <= self._checked_until]
        fresh = [one.entry(xml=found.xml) for one in left if one.epoch > self._checked_until]
        for entries, check in ((old, True), (fresh, False)):
            if not entries:
                continue
            try:
                await self._files.append(found, account, entries, check=check)
            except Behind as error:
                # the page's other part may be written
                raise Behind(
                    str(error), sure=error.sure and len(left) == len(events) == len(entries)
                ) from None

    def _falls_behind(self, found: Log, *, sure: bool) -> None:
        assert self._cursor is not None
        self._behind.setdefault(found, Lag(self._cursor, sure))
        self._retry(found)

    # -- a log that is behind

    def _retry(self, behind: Log) -> None:
        if behind not in self._retries:
            self._retries[behind] = asyncio.ensure_future(self._catch_up(behind))

    async def _catch_up(self, behind: Log) -> None:
        pause = FIRST_RETRY_S
        try:
            while behind in self._behind:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ending.wait(), pause)
                ending = self._ending.is_set()
                pause = min(LONGEST_RETRY_S, pause * 2)
                try:
                    await self._catch_up_once(behind, self._behind[behind])
                except NOT_NOW:
                    pass
                except Behind as error:
                    self._behind[behind].sure &= error.sure
                except FetchworkError as error:
                    self._report(logging.WARNING, "log_not_written", behind.owner, error)
                    del self._behind[behind]
                if ending:
                    return
        finally:
            self._retries.pop(behind, None)

    async def _catch_up_once(self, behind: Log, lag: Lag) -> None:
        """Write what a log lacks, up to where the stream is."""
        account = await self.account(behind.owner)
        reader = self._logs.reader(lag.cursor, behind.path)
        while True:
            events = [JobEvent(line) for line in await self._session.run(_lines(reader))]
            await self._logs.find(events)
            own = [one for one in events if behind in self._logs.of(one)]
            async with self._files.turn(behind.owner):
                # of what is ahead of the stream a submission may have written some, and the stream writes the
                # rest
                own = [one for one in own if Cursor.parse(one.cursor) <= self._taken]
                entries = [one.entry(xml=behind.xml) for one in self._files.not_early(behind, own)]
                assert reader.position is not None
                if entries:
                    check = not lag.sure or lag.cursor.lies_before_move(reader.position)
                    await self._files.append(behind, account, entries, check=check)
                if reader.position >= self._taken:
                    del self._behind[behind]
                    return
                lag.cursor, lag.sure = reader.position, True
            if not events:
                await asyncio.sleep(0.05)

    # -- submissions

    def note(self, cluster: int, count: int, owner: str, ad: Json) -> None:
        """Take the logs of jobs that were submitted just now, each with this ad, from that."""
        self._logs.note(cluster, count, owner, ad)

    async def submitted(self, cluster: int, account: Account, *, again: bool) -> list[str]:
        """Have the submit events of a cluster in their logs before it returns; a line for each problem.

        ``again``: the cluster was there before, so its logs may have them.
        """
        rows = await self._database.query(_SUBMITTED, [cluster], kept=True)
        events = [JobEvent(row["line"]) for row in rows]
        await self._logs.find(events)
        logs: dict[Log, list[JobEvent]] = {}
        for one in events:
            for found in self._logs.of(one):
                if found.owner == account.name:
                    logs.setdefault(found, []).append(one)
        problems = []
        for found, entries in logs.items():
            try:
                problem = await self._write_early(found, account, entries, again=again)
            except Behind as error:
                problem = f"event log is written later: {error}"
            if problem is not None:
                problems.append(problem)
        return problems

    async def _write_early(
        self, found: Log, account: Account, events: list[JobEvent], *, again: bool
    ) -> str | None:
        async with self._files.turn(found.owner):
            ahead = [one for one in events if Cursor.parse(one.cursor) > self._taken]
            if ahead:
                # who repeats a request while it is worked on may come first
                ahead = [one for one in ahead if not self._files.is_early(found, one)]
                if not ahead:
                    return None
                texts = [one.entry(xml=found.xml) for one in ahead]
                # before they are written: the stream may come by while they are
                self._files.expect(found, texts)
                try:
                    problem = await self._files.append(found, account, texts, check=again)
                except Behind as error:
                    self._files.not_early(found, ahead)
                    if not error.sure:
                        self._falls_behind(found, sure=False)
                    raise
                if problem is not None:
                    self._files.not_early(found, ahead)
                return problem
        # the stream has them
        await self._page_done.wait()
        if found in self._behind:
            raise Behind(self._files.problem(found) or f"'{found.path}' does not answer", sure=True)
        return self._files.problem(found)

    async def drained(self) -> None:
        """Return when every event up to now is in its log, or its log is behind; raises what is NOT_NOW.

        Who is started now and reads a log finds there all that happened before.
        """
        await self.ready()
        now = Cursor.parse(await self._session.run(Reader.now()))
        while self._cursor is None or self._cursor < now:
            self._advanced.clear()
            await self._advanced.wait()

    async def account(self, owner: str) -> Account:
        """The account of an owner who is served here; raises FetchworkError for any other."""
        try:
            account = await asyncio.to_thread(lambda: Account.of(pwd.getpwnam(owner)))
        except KeyError:
            raise FetchworkError(f"no account '{owner}' on this machine") from None
        if not self._serves(account.name, account.uid):
            raise FetchworkError(f"account '{owner}' is not served here")
        return account

    async def _save(self, cursor: Cursor, *, exact: bool = False) -> None:
        # copied here: retries change what is behind while the file is written
        kept = Kept(cursor, {found: lag.cursor for found, lag in self._behind.items()}, exact)
        await asyncio.to_thread(self._state.save, kept)
        self._cursor = cursor
        self._advanced.set()


def _lines(reader: Reader) -> Steps[list[str]]:
    """Steps: the lines that a reader finds now."""
    found: list[str] = []
    stream = reader.lines(0)
    answer: object = None
    while True:
        try:
            step = stream.send(answer)
        except StopIteration:
            return found
        if isinstance(step, Found):
            found.extend(step.items)
            return found
        answer = yield step
