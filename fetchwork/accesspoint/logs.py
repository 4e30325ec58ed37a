"""Keeps the event logs of jobs up to date, for an access point or ``fetchwork userlog``: ``log = FILE``.

Theory of operation
-------------------
One reader follows the stream of all events. Events of the keeper's jobs (``joblogs``) go to their logs. A
child of the job's owner writes each log (``child``), so no path, file system or quota of one person delays
another's logs. ``fetchwork userlog`` writes the logs of its caller's jobs itself. A state file holds the
cursor up to which every event is in its log.

A submit event is written before the submission is answered; the stream, which gets its events in batches,
shows it later. The keeper remembers entries that it wrote early, and leaves them out when the stream comes to
them.

A killed keeper may have written entries that its cursor does not cover. So its successor checks for each
event older than itself whether the end of the log has it already. So does a keeper whose database was
restored or moved to another server, because it may show the events of the last seconds before that again.

A log that can't be written for now (a full disk, a file system that does not answer) falls behind: the state
file holds a cursor for this log, and the keeper retries it from there, alone, while all other logs go on.
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
from fetchwork.codes import EventType
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import NOT_NOW, DatabaseUnavailable, FetchworkError
from fetchwork.ipc.frames import Json
from fetchwork.queue.ask import Found, Pause
from fetchwork.queue.events.jobevents import Cursor, CursorExpired, JobEvent
from fetchwork.queue.events.reader import Reader
from fetchwork.queue.session import AsyncSession

#: seconds that a submission waits for the first contact with the database
READY_S = 15.0
#: backoff of a log that is behind
FIRST_RETRY_S = 2.0
LONGEST_RETRY_S = 60.0
#: seconds between two polls, whose events are written together; DAGMan reads its nodes log once a second
GATHER_S = 0.05
#: seconds between two polls while no known job has a log
IDLE_S = 0.5
#: seconds of pause after the database did not answer
PAUSE_S = 1.0

_SUBMITTED = """
SELECT
    concat_ws(
        -- an event without a place is ahead of the stream
        E'\\t', coalesce(batch, 9223372036854775807), eventid, eventtypenumber, clusterid, procid,
        coalesce(runid, -1), extract(epoch FROM event_at), info
    ) AS line
FROM fetchwork.events
WHERE clusterid = %s AND eventtypenumber IN (0, 35)
ORDER BY batch, eventid
"""


#: the last events of a job or a late cluster
_LAST = (EventType.JOB_TERMINATED, EventType.JOB_ABORTED, EventType.CLUSTER_REMOVE)


@dataclass(slots=True)
class Lag:
    """The cursor after which a log lacks entries; not ``sure``: it may have some of them."""

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
        #: the end of the last page that is written or being written
        self._taken = Cursor(0, 0)
        self._page_done = asyncio.Event()
        self._page_done.set()
        self._ready = asyncio.Event()
        self._advanced = asyncio.Event()
        self._ending = asyncio.Event()
        #: logs may have entries of events that are older than this, by the database's clock
        self._checked_until = 0.0

    async def ready(self) -> None:
        """Wait until the keeper has its first cursor: events of a job submitted now come after it."""
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
        """The number of entries written since the start."""
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
        """Follow the events for ``seconds`` (None: until cancelled), then write all events up to that moment.

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
            self._behind = {log: Lag(cursor, sure=False) for log, cursor in kept.behind.items()}
            # from now on the logs may be ahead of the state file
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
        """Have each event up to now compared with the end of its log."""
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
                        # only events of other jobs came
                        await self._write_page([], reader.position)
                    if self._ending.is_set():
                        return
                    # without logs of its own jobs the keeper polls less often
                    await asyncio.sleep(GATHER_S if self._logs.any else IDLE_S)
                else:
                    answer = await self._session.answer(step)

    async def _write_page(self, events: list[JobEvent], end: Cursor) -> None:
        await self._logs.find(events)
        if self._taken.lies_before_move(end):
            await self._check_until_now()
        self._taken = end
        # a retry that ends after this point has written this page too
        behind = frozenset(self._behind)
        self._page_done.clear()
        try:
            by_owner: dict[str, dict[Log, list[JobEvent]]] = {}
            for event in events:
                for log in self._logs.of(event):
                    if log not in behind:
                        by_owner.setdefault(log.owner, {}).setdefault(log, []).append(event)
                if event.type_number in _LAST:
                    self._logs.forget(event)
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
            for log, events in logs.items():
                try:
                    await self._write(log, account, events)
                except Behind as error:
                    self._falls_behind(log, sure=error.sure)
                except FetchworkError as error:
                    self._report(logging.WARNING, "log_not_written", owner, error)

    async def _write(self, log: Log, account: Account, events: Iterable[JobEvent]) -> None:
        """Write events from the stream or from a retry."""
        events = list(events)
        left = self._files.not_early(log, events)
        old = [event.entry(xml=log.xml) for event in left if event.epoch <= self._checked_until]
        fresh = [event.entry(xml=log.xml) for event in left if event.epoch > self._checked_until]
        for entries, check in ((old, True), (fresh, False)):
            if not entries:
                continue
            try:
                await self._files.append(log, account, entries, check=check)
            except Behind as error:
                # the page's other part may have been written
                raise Behind(
                    str(error), sure=error.sure and len(left) == len(events) == len(entries)
                ) from None

    def _falls_behind(self, log: Log, *, sure: bool) -> None:
        assert self._cursor is not None
        self._behind.setdefault(log, Lag(self._cursor, sure))
        self._retry(log)

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
        """Write the entries that a log lacks, up to the position of the stream."""
        account = await self.account(behind.owner)
        reader = self._logs.reader(lag.cursor, behind.path)
        while True:
            events = [JobEvent(line) for line in await self._session.run(reader.found())]
            await self._logs.find(events)
            own = [event for event in events if behind in self._logs.of(event)]
            async with self._files.turn(behind.owner):
                # leave out events ahead of the stream: a submission may have written some, the stream will
                # write the others
                own = [event for event in own if Cursor.parse(event.cursor) <= self._taken]
                entries = [event.entry(xml=behind.xml) for event in self._files.not_early(behind, own)]
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
        """Record the logs of a new cluster whose jobs all have this ad."""
        self._logs.note(cluster, count, owner, ad)

    async def submitted(self, cluster: int, account: Account, *, again: bool) -> list[str]:
        """Write the submit events of a cluster to their logs; return a line for each problem.

        ``again``: the cluster existed before, so its logs may have them already.
        """
        taken = self._taken
        events = await self._submit_events(cluster)
        problems = []
        async with self._files.turn(account.name):
            if self._taken != taken:
                # the stream may have shown some since they were read
                events = await self._submit_events(cluster)
            logs: dict[Log, list[JobEvent]] = {}
            for event in events:
                for log in self._logs.of(event):
                    if log.owner == account.name:
                        logs.setdefault(log, []).append(event)
            shown = []
            for log, entries in logs.items():
                if ahead := [event for event in entries if Cursor.parse(event.cursor) > self._taken]:
                    problems.append(await self._write_early(log, account, ahead, again=again))
                else:
                    shown.append(log)
        if shown:
            await self._page_done.wait()
        for log in shown:
            problem = self._files.problem(log)
            is_behind = log in self._behind
            problems.append(_later(problem or f"'{log.path}' does not answer") if is_behind else problem)
        return [problem for problem in problems if problem is not None]

    async def _submit_events(self, cluster: int) -> list[JobEvent]:
        rows = await self._database.query(_SUBMITTED, [cluster], kept=True)
        events = [JobEvent(row["line"]) for row in rows]
        await self._logs.find(events)
        return events

    async def _write_early(
        self, log: Log, account: Account, events: list[JobEvent], *, again: bool
    ) -> str | None:
        """Write events that the stream has not shown; the caller has the owner's turn."""
        # a repeated request may overtake the first one
        ahead = [event for event in events if not self._files.is_early(log, event)]
        if not ahead:
            return None
        texts = [event.entry(xml=log.xml) for event in ahead]
        # before the write, as the stream may show them during it
        self._files.expect(log, texts)
        try:
            problem = await self._files.append(log, account, texts, check=again)
        except Behind as error:
            self._files.not_early(log, ahead)
            if not error.sure:
                self._falls_behind(log, sure=False)
            return _later(error)
        if problem is not None:
            self._files.not_early(log, ahead)
        return problem

    async def drained(self) -> None:
        """Return when every event up to now is in its log, or its log is behind; raises NOT_NOW errors.

        A program that starts afterwards finds all earlier events in its log.
        """
        await self.ready()
        now = Cursor.parse(await self._session.run(Reader.now()))
        while self._cursor is None or self._cursor < now:
            self._advanced.clear()
            await self._advanced.wait()

    async def account(self, owner: str) -> Account:
        """Return the account of an owner who is served here; raises FetchworkError for any other."""
        try:
            account = await asyncio.to_thread(lambda: Account.of(pwd.getpwnam(owner)))
        except KeyError:
            raise FetchworkError(f"no account '{owner}' on this machine") from None
        if not self._serves(account.name, account.uid):
            raise FetchworkError(f"account '{owner}' is not served here")
        return account

    async def _save(self, cursor: Cursor, *, exact: bool = False) -> None:
        # a copy: retries change the set of logs behind while the file is written
        kept = Kept(cursor, {log: lag.cursor for log, lag in self._behind.items()}, exact)
        await asyncio.to_thread(self._state.save, kept)
        self._cursor = cursor
        self._advanced.set()


def _later(problem: object) -> str:
    return f"event log is written later: {problem}"
