"""Periodic delivery of the spooled reports."""

from __future__ import annotations

import asyncio
import logging
import time

from fetchwork import handlers
from fetchwork.errors import DatabaseUnavailable
from fetchwork.handlers.context import Caller, Task
from fetchwork.handlers.host.keywords import KeywordContext
from fetchwork.handlers.host.runs import Runs
from fetchwork.hook.spool import Rejected, Report, Spool
from fetchwork.log import event

log = logging.getLogger(__name__)

CALL_S = 5.0
#: reports read and delivered together
BATCH = 50
#: tries after which a report that fails by a fault of ours is moved aside
MAX_FAILURES = 10
#: number of moved-aside files kept, the latest ones
KEPT_BAD = 1000


class Replay:
    """The spool of a host with the keywords ``contexts``; ``trusted`` accounts may report any run."""

    def __init__(self, spool: Spool, contexts: dict[str, KeywordContext], trusted: frozenset[int]) -> None:
        self.spool = spool
        self.contexts = contexts
        self.trusted = trusted
        self._busy = asyncio.Lock()
        self._failures: dict[str, int] = {}

    async def deliver(self, runs: Runs) -> None:
        """Deliver the spooled reports, oldest first; raises only DatabaseUnavailable.

        A report that two processes deliver counts once.
        """
        async with self._busy:
            while await self._deliver_some(runs):
                pass

    async def _deliver_some(self, runs: Runs) -> int:
        """Deliver or move aside the waiting files; returns the number of files done."""
        names = await asyncio.to_thread(self.spool.waiting)
        done = 0
        try:
            for start in range(0, len(names), BATCH):
                reading = await asyncio.to_thread(self.spool.read, names[start : start + BATCH])
                for rejected in reading.rejected:
                    _log_rejected(rejected)
                    done += 1
                for report in reading.reports:
                    done += await self._deliver(report, runs)
        finally:
            if names and (deleted := await asyncio.to_thread(self.spool.trim_bad, KEPT_BAD)):
                event(log, logging.WARNING, "spool_bad_deleted", person="all", files=deleted, kept=KEPT_BAD)
        return done

    async def _reject(self, report: Report, reason: str) -> None:
        rejected = await asyncio.to_thread(self.spool.reject, report, reason)
        if rejected is not None:
            _log_rejected(rejected)

    async def _deliver(self, report: Report, runs: Runs) -> int:
        request = report.request
        context = self.contexts.get(request.keyword.lower())
        if context is None:
            await self._reject(report, "its keyword is not in the host file")
            return 1
        caller = Caller(report.uid, report.uid in self.trusted)
        answer = await handlers.handle(Task(request, caller, context, runs, time.monotonic() + CALL_S))
        code, message = answer.reply.code, answer.reply.message
        fields = answer.log_fields()
        person = report.uid if code else (report.uid, fields.get("run"))
        event(log, logging.INFO, "spool_job_exit", person=person, **fields, uid=report.uid)
        if not code:
            await asyncio.to_thread(self.spool.delete, report)
        elif code in ("bad_request", "denied"):
            await self._reject(report, message)
        elif code == "unavailable":
            raise DatabaseUnavailable(message)
        else:
            self._failures[report.name] = self._failures.get(report.name, 0) + 1
            if self._failures[report.name] < MAX_FAILURES:
                return 0
            await self._reject(report, message)
        self._failures.pop(report.name, None)
        return 1


def _log_rejected(rejected: Rejected) -> None:
    event(
        log,
        logging.WARNING,
        "spool_rejected",
        person=rejected.uid,
        file=rejected.name,
        uid=rejected.uid,
        reason=rejected.reason,
    )
