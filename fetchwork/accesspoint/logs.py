"""Keeps the event logs of the jobs that were submitted here up to date: the files that ``log = FILE`` names.

Theory of operation
-------------------
One reader follows the stream of all events. Those of this access point's jobs go to their logs, each written
by a child of the job's owner (``child``), so no path, file system or quota of one person is in another's way.
A state file keeps the cursor behind which every event is in its log.

A submit event is written before the submission is answered, which may be long before the stream shows it: a
transaction that is open anywhere holds the stream back. What was written early is remembered, and left out
when the stream comes to it.

An access point that was killed may have written what its cursor does not cover. So its successor looks, for
every event older than itself, whether the end of the log has it already. A log that can't be written for now
(a full disk, a file system that does not answer) falls behind: the state file keeps a cursor for this owner,
and from there it is tried again, alone, while everybody else's logs go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import pwd
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fetchwork.accesspoint.children import Account, ChildEnded, Children
from fetchwork.codes import EventType
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import NOT_NOW, DatabaseUnavailable, FetchworkError
from fetchwork.log import event
from fetchwork.queue.ask import Found, Pause
from fetchwork.queue.events import Cursor, CursorExpired, JobEvent
from fetchwork.queue.reader import Reader
from fetchwork.queue.session import AsyncSession

log = logging.getLogger(__name__)

#: seconds for a log to take its entries
APPEND_S = 15.0
#: a submission waits so long for the first contact with the database
READY_S = 15.0
#: pauses before an owner who is behind is tried again
FIRST_RETRY_S = 2.0
LONGEST_RETRY_S = 60.0
#: between two looks where no job of this access point has a log
IDLE_S = 0.5
#: after a database that did not answer
PAUSE_S = 1.0
#: clusters of others that are remembered not to be looked up again
FOREIGN = 100_000

#: what may be better soon; any other error is for ever
_FOR_NOW = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.ENFILE}
)

_LOGS = """
SELECT clusterid, procid, owner, ad ->> 'UserLog' AS log
FROM fetchwork.{}
WHERE clusterid = ANY(%s)
    AND (clusterid, procid) IN (SELECT * FROM unnest(%s::integer[], %s::integer[]))
    AND ad ->> 'FetchWorkAccessPoint' = %s
"""
_LOGS_OF_JOBS = f"{_LOGS.format('jobs')} UNION ALL {_LOGS.format('history')}"

_SUBMITTED = """
SELECT
    concat_ws(
        E'\\t', xid, eventid, eventtypenumber, clusterid, procid, coalesce(runid, -1),
        extract(epoch FROM event_at), info
    ) AS line
FROM fetchwork.events
WHERE clusterid = %s AND eventtypenumber = 0
ORDER BY xid, eventid
"""


@dataclass(frozen=True, slots=True)
class Log:
    """A log file, and whose it is."""

    owner: str
    path: str


class _Behind(Exception):
    """A log could not be written for now; ``sure``: nothing of it was."""

    def __init__(self, problem: str, *, sure: bool) -> None:
        super().__init__(problem)
        self.sure = sure


@dataclass(slots=True)
class _Lag:
    """From where on a log's entries are missing; not ``sure``: it may have some of them."""

    cursor: Cursor
    sure: bool


class LogKeeper:
    """Writes the logs of one access point's jobs."""

    def __init__(
        self,
        database: AsyncDatabase,
        children: Children,
        state: Path,
        name: str,
        serves: Callable[[str, int], bool],
    ) -> None:
        self._session = AsyncSession(database)
        self._database = database
        self._children = children
        self._state = state
        self._name = name
        self._serves = serves
        self._cursor: Cursor | None = None
        self._behind: dict[Log, _Lag] = {}
        self._retries: dict[Log, asyncio.Task[None]] = {}
        self._logs: dict[tuple[int, int], Log | None] = {}
        self._foreign: dict[int, None] = {}
        self._early: dict[Log, Counter[str]] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        #: the end of the last page that is being written, or is
        self._taken = Cursor(0, 0)
        self._page_done = asyncio.Event()
        self._page_done.set()
        self._ready = asyncio.Event()
        #: by the database's clock
        self._started_at = 0.0
        self._refused: dict[Log, str] = {}
        self.entries = 0

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

    # -- the stream

    async def keep(self) -> None:
        """Follow the events for as long as the access point lives."""
        while True:
            try:
                await self._begin()
                self._ready.set()
                await self._follow()
            except NOT_NOW as error:
                event(log, logging.WARNING, "logs_wait", problem=error)
            except CursorExpired as error:
                event(log, logging.ERROR, "events_missed", problem=error)
                self._cursor = None
                self._save(Cursor.parse(await self._session.run(Reader.now())))
            await asyncio.sleep(PAUSE_S)

    async def _begin(self) -> None:
        if self._cursor is None:
            kept = await asyncio.to_thread(self._load)
            now = Cursor.parse(await self._session.run(Reader.now()))
            (row,) = await self._database.query("SELECT extract(epoch FROM clock_timestamp())::float8 AS at")
            self._started_at = row["at"]
            if kept is None:
                self._save(now)
            else:
                self._cursor = Cursor.parse(kept["cursor"])
                self._behind = {
                    Log(owner, path): _Lag(Cursor.parse(cursor), sure=False)
                    for owner, path, cursor in kept["behind"]
                }
        assert self._cursor is not None
        self._taken = max(self._taken, self._cursor)
        for behind in self._behind:
            self._retry(behind)

    async def _follow(self) -> None:
        reader = Reader(after=str(self._cursor))
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
                    # without jobs of its own that have a log there is little to wait for
                    await asyncio.sleep(step.seconds if any(self._logs.values()) else IDLE_S)
                else:
                    answer = await self._session.answer(step)

    async def _write_page(self, events: list[JobEvent], end: Cursor) -> None:
        await self._find_logs(events)
        self._taken = end
        # a retry that ends from here on has written this page, too
        behind = frozenset(self._behind)
        self._page_done.clear()
        try:
            by_owner: dict[str, dict[Log, list[JobEvent]]] = {}
            for one in events:
                found = self._logs.get((one.cluster, one.proc))
                if found is not None and found not in behind:
                    by_owner.setdefault(found.owner, {}).setdefault(found, []).append(one)
                if one.type_number in (EventType.JOB_TERMINATED, EventType.JOB_ABORTED):
                    self._logs.pop((one.cluster, one.proc), None)
            await asyncio.gather(*(self._write_owner(owner, logs) for owner, logs in by_owner.items()))
        finally:
            self._page_done.set()
        await asyncio.to_thread(self._save, end)

    async def _write_owner(self, owner: str, logs: dict[Log, list[JobEvent]]) -> None:
        try:
            account = await self._account(owner)
        except FetchworkError as error:
            event(log, logging.WARNING, "log_not_written", owner=owner, problem=error)
            return
        async with self._turn(owner):
            for found, events in logs.items():
                try:
                    await self._write(found, account, events)
                except _Behind as error:
                    self._falls_behind(found, sure=error.sure)
                except FetchworkError as error:
                    event(log, logging.WARNING, "log_not_written", owner=owner, problem=error)

    async def _write(self, found: Log, account: Account, events: Iterable[JobEvent]) -> None:
        """Write events that the stream or a retry brought."""
        events = list(events)
        left = self._not_early(found, events)
        old = [one.log_entry for one in left if one.epoch <= self._started_at]
        fresh = [one.log_entry for one in left if one.epoch > self._started_at]
        for entries, check in ((old, True), (fresh, False)):
            if not entries:
                continue
            try:
                await self._append(found, account, entries, check=check)
            except _Behind as error:
                # the page's other part may be written
                raise _Behind(
                    str(error), sure=error.sure and len(left) == len(events) == len(entries)
                ) from None

    def _not_early(self, found: Log, events: Iterable[JobEvent]) -> list[JobEvent]:
        """The events that no submission has written already."""
        early = self._early.get(found)
        if early is None:
            return list(events)
        left = []
        for one in events:
            text = one.log_entry
            if early[text] > 0:
                early[text] -= 1
                if not early[text]:
                    del early[text]
            else:
                left.append(one)
        if not early:
            del self._early[found]
        return left

    def _falls_behind(self, found: Log, *, sure: bool) -> None:
        assert self._cursor is not None
        self._behind.setdefault(found, _Lag(self._cursor, sure))
        self._retry(found)

    async def _append(self, found: Log, account: Account, entries: list[str], *, check: bool) -> str | None:
        """Append to a log; the problem, if it is for ever. Raises _Behind."""
        request = {"do": "append", "path": found.path, "entries": entries, "check": check}
        try:
            answer = await self._children.ask(account, request, APPEND_S)
        except (TimeoutError, ChildEnded):
            raise _Behind(f"'{found.path}' does not answer", sure=False) from None
        if "problem" not in answer:
            self.entries += answer["written"]
            self._refused.pop(found, None)
            return None
        problem = f"cannot write event log '{found.path}' as {found.owner}: {answer['problem']}"
        if self._refused.get(found) != problem:
            self._refused[found] = problem
            event(log, logging.WARNING, "log_not_written", owner=found.owner, problem=problem)
        if answer["errno"] in _FOR_NOW:
            raise _Behind(problem, sure=True)
        return problem

    def _turn(self, owner: str) -> asyncio.Lock:
        return self._turns.setdefault(owner, asyncio.Lock())

    # -- a log that is behind

    def _retry(self, behind: Log) -> None:
        if behind not in self._retries:
            self._retries[behind] = asyncio.ensure_future(self._catch_up(behind))

    async def _catch_up(self, behind: Log) -> None:
        pause = FIRST_RETRY_S
        try:
            while behind in self._behind:
                await asyncio.sleep(pause)
                pause = min(LONGEST_RETRY_S, pause * 2)
                try:
                    await self._catch_up_once(behind, self._behind[behind])
                except NOT_NOW:
                    continue
                except _Behind as error:
                    self._behind[behind].sure &= error.sure
                except FetchworkError as error:
                    event(log, logging.WARNING, "log_not_written", owner=behind.owner, problem=error)
                    del self._behind[behind]
        finally:
            self._retries.pop(behind, None)

    async def _catch_up_once(self, behind: Log, lag: _Lag) -> None:
        """Write what a log lacks, up to where the stream is."""
        account = await self._account(behind.owner)
        reader = Reader(after=str(lag.cursor), log=behind.path)
        while True:
            events = [JobEvent(line) for line in await self._session.run(_lines(reader))]
            await self._find_logs(events)
            own = [one for one in events if self._logs.get((one.cluster, one.proc)) == behind]
            async with self._turn(behind.owner):
                # of what is ahead of the stream a submission may have written some, and the stream writes the
                # rest
                own = [one for one in own if Cursor.parse(one.cursor) <= self._taken]
                entries = [one.log_entry for one in self._not_early(behind, own)]
                if entries:
                    await self._append(behind, account, entries, check=not lag.sure)
                assert reader.position is not None
                if reader.position >= self._taken:
                    del self._behind[behind]
                    return
                lag.cursor, lag.sure = reader.position, True
            if not events:
                await asyncio.sleep(0.05)

    # -- submissions

    async def submitted(self, cluster: int, account: Account, *, again: bool) -> list[str]:
        """Have the submit events of a cluster in their logs before it returns; a line for each problem.

        ``again``: the cluster was there before, so its logs may have them.
        """
        rows = await self._database.query(_SUBMITTED, [cluster])
        events = [JobEvent(row["line"]) for row in rows]
        await self._find_logs(events)
        logs: dict[Log, list[JobEvent]] = {}
        for one in events:
            found = self._logs.get((one.cluster, one.proc))
            if found is not None and found.owner == account.name:
                logs.setdefault(found, []).append(one)
        problems = []
        for found, entries in logs.items():
            try:
                problem = await self._write_early(found, account, entries, again=again)
            except _Behind as error:
                problem = f"event log is written later: {error}"
            if problem is not None:
                problems.append(problem)
        return problems

    async def _write_early(
        self, found: Log, account: Account, events: list[JobEvent], *, again: bool
    ) -> str | None:
        async with self._turn(found.owner):
            ahead = [one for one in events if Cursor.parse(one.cursor) > self._taken]
            if ahead:
                texts = [one.log_entry for one in ahead]
                # before they are written: the stream may come by while they are
                self._early.setdefault(found, Counter()).update(texts)
                try:
                    problem = await self._append(found, account, texts, check=again)
                except _Behind as error:
                    self._not_early(found, ahead)
                    if not error.sure:
                        self._falls_behind(found, sure=False)
                    raise
                if problem is not None:
                    self._not_early(found, ahead)
                return problem
        # the stream has them
        await self._page_done.wait()
        if found in self._behind:
            raise _Behind(self._refused.get(found, f"'{found.path}' does not answer"), sure=True)
        return self._refused.get(found)

    # -- which logs

    async def _find_logs(self, events: list[JobEvent]) -> None:
        unknown = {
            (one.cluster, one.proc) for one in events if one.cluster not in self._foreign
        } - self._logs.keys()
        if not unknown:
            return
        clusters, procs = (list(column) for column in zip(*unknown, strict=True))
        rows = await self._database.query(_LOGS_OF_JOBS, [clusters, clusters, procs, self._name] * 2)
        for cluster in set(clusters) - {row["clusterid"] for row in rows}:
            self._foreign[cluster] = None
        while len(self._foreign) > FOREIGN:
            del self._foreign[next(iter(self._foreign))]
        for row in rows:
            path = row["log"]
            named = path and path != "/dev/null" and path.startswith("/")
            self._logs[row["clusterid"], row["procid"]] = Log(row["owner"], path) if named else None

    async def _account(self, owner: str) -> Account:
        try:
            account = await asyncio.to_thread(lambda: Account.of(pwd.getpwnam(owner)))
        except KeyError:
            raise FetchworkError(f"no account '{owner}' on this machine") from None
        if not self._serves(account.name, account.uid):
            raise FetchworkError(f"account '{owner}' is not served here")
        return account

    # -- state

    def _load(self) -> dict[str, Any] | None:
        try:
            state = json.loads(self._state.read_text())
            return {"cursor": str(state["cursor"]), "behind": list(state["behind"])}
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FetchworkError(f"cannot read state file '{self._state}': {error}") from None

    def _save(self, cursor: Cursor) -> None:
        behind = [[found.owner, found.path, str(lag.cursor)] for found, lag in self._behind.items()]
        text = json.dumps({"cursor": str(cursor), "behind": behind, "saved_at": int(time.time())})
        temporary = self._state.with_name(self._state.name + ".new")
        temporary.write_text(text)
        temporary.replace(self._state)
        self._cursor = cursor


def _lines(reader: Reader) -> Any:
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
