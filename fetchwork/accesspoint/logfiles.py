"""Event logs as files: a child of each log's owner appends the entries."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

from fetchwork.accesspoint import child
from fetchwork.accesspoint.children import Account, ChildEnded
from fetchwork.accesspoint.joblogs import Log
from fetchwork.ipc.frames import Json
from fetchwork.log import event
from fetchwork.queue.events import logentry
from fetchwork.queue.events.jobevents import JobEvent

log = logging.getLogger(__name__)

#: seconds for one append
APPEND_S = 15.0


class Behind(Exception):
    """A log can't be written for now; ``sure``: no entry was written."""

    def __init__(self, problem: str, *, sure: bool) -> None:
        super().__init__(problem)
        self.sure = sure


class Appender(Protocol):
    """Answers requests with an account's rights: ``Children``, or ``OwnRights``."""

    async def ask(self, account: Account, request: Json, timeout_s: float) -> Json:
        """Answer a request; raises ChildEnded and TimeoutError."""


class OwnRights:
    """Appends to logs with the rights of this process, for every account."""

    async def ask(self, account: Account, request: Json, timeout_s: float) -> Json:
        """Answer the request ``append``, without a time limit: these logs are the caller's own."""
        return await asyncio.to_thread(child.append, request)


#: called with a logging level, an event's name, the log's owner if any, and the problem
Report = Callable[[int, str, str | None, object], None]


def logged(level: int, name: str, owner: str | None, problem: object) -> None:
    """Log a problem with event logs."""
    event(log, level, name, person=owner, owner=owner, problem=problem)


class LogFiles:
    """Appends to logs, and remembers entries of submissions that the stream has not shown yet."""

    def __init__(self, appender: Appender, report: Report) -> None:
        self._appender = appender
        self._report = report
        self._early: dict[Log, Counter[str]] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._refused: dict[Log, str] = {}
        #: entries written since the start
        self.written = 0

    def turn(self, owner: str) -> asyncio.Lock:
        """Return the lock that is held while a log of this owner is written."""
        return self._turns.setdefault(owner, asyncio.Lock())

    def problem(self, target: Log) -> str | None:
        """The problem of the last try to write the log; None if it succeeded."""
        return self._refused.get(target)

    def expect(self, target: Log, entries: Iterable[str]) -> None:
        """Remember entries that a submission writes before the stream shows them."""
        self._early.setdefault(target, Counter()).update(entries)

    def is_early(self, target: Log, job_event: JobEvent) -> bool:
        """Whether a submission has written an event that the stream has not shown yet."""
        return job_event.entry(xml=target.xml) in self._early.get(target, ())

    def not_early(self, target: Log, events: Iterable[JobEvent]) -> list[JobEvent]:
        """Return the events whose entries no submission has written."""
        early = self._early.get(target)
        if early is None:
            return list(events)
        left = []
        for job_event in events:
            text = job_event.entry(xml=target.xml)
            if early[text] > 0:
                early[text] -= 1
                if not early[text]:
                    del early[text]
            else:
                left.append(job_event)
        if not early:
            del self._early[target]
        return left

    async def append(self, target: Log, account: Account, entries: list[str], *, check: bool) -> str | None:
        """Append to a log; return the problem if it is permanent. Raises Behind."""
        request = {"do": "append", "path": target.path, "entries": entries, "check": check}
        try:
            answer = await self._appender.ask(account, request, APPEND_S)
        except (TimeoutError, ChildEnded):
            raise Behind(f"'{target.path}' does not answer", sure=False) from None
        if "problem" not in answer:
            self.written += answer["written"]
            self._refused.pop(target, None)
            return None
        problem = f"cannot write event log '{target.path}' as {target.owner}: {answer['problem']}"
        if self._refused.get(target) != problem:
            self._refused[target] = problem
            self._report(logging.WARNING, "log_not_written", target.owner, problem)
        if answer["errno"] in logentry.FOR_NOW:
            raise Behind(problem, sure=True)
        return problem
