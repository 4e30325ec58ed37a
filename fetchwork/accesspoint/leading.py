"""Evaluates the policies of jobs that don't run, and empties buckets, for the whole pool (``leadertasks``).

An access point sees all jobs, so it does these tasks where all hosts were invited without ``--trusted``. Of
several processes that may, one does each task in each period.
"""

from __future__ import annotations

import asyncio
import logging

from fetchwork import leadertasks
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import NOT_NOW, FetchworkError, InsufficientPrivilege
from fetchwork.log import event
from fetchwork.matchmaker.client import Matchmaker

log = logging.getLogger(__name__)

#: seconds between two looks for due tasks, and after the database has refused
LOOK_S = 10.0
REFUSED_S = 600.0


class Leading:
    """The leader tasks of one access point; its matchmaker's process starts with the first policy."""

    def __init__(self, database: AsyncDatabase) -> None:
        self._database = database
        self._matchmaker = Matchmaker()

    async def keep(self) -> None:
        """Do due tasks for as long as the access point lives; none, if its role is no access point's."""
        try:
            while True:
                pause_s = LOOK_S
                try:
                    await leadertasks.do_due(self._database, self._matchmaker)
                except InsufficientPrivilege as error:
                    pause_s = REFUSED_S
                    event(log, logging.DEBUG, "leader_tasks_refused", problem=error)
                except NOT_NOW as error:
                    event(log, logging.DEBUG, "leader_tasks_wait", problem=error)
                except FetchworkError as error:
                    event(log, logging.WARNING, "leader_tasks", problem=error)
                await asyncio.sleep(pause_s)
        finally:
            await self._matchmaker.close()
