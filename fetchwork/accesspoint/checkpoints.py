"""Deletes checkpoints at their destination that no run needs any more, as a schedd does for its jobs.

Of jobs of this access point: what a later checkpoint has replaced, and what jobs left there that are out of
the queue. HTCondor's clean-up plug-ins do it (``queue.cleanup``), in a child of the owner, which alone has
the owner's rights. Of one owner one after the other, a few files at a time and for a while only, so that
nobody waits behind another's thousands, of checkpoints or of files in one; what can't be deleted stays, is in
nothing's way, and is tried again, but less often.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable

from fetchwork.accesspoint.children import Account, Children
from fetchwork.accesspoint.later import Later
from fetchwork.db.calls import files
from fetchwork.db.calls.files import LeftCheckpoint
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import NOT_NOW, FetchworkError
from fetchwork.log import event
from fetchwork.queue.cleanup import Cleaners

log = logging.getLogger(__name__)

#: between two looks for owners
LOOK_S = 60.0
#: no other checkpoint of an owner is begun after so long, before the next look
PASS_S = 30.0
#: checkpoints that are looked up at once, each with the names of all its files
PAGE = 20
#: files for one request to a child, and seconds for their deletion
FILES = 10
DELETE_S = 600.0
#: owners of whom something is looked up, or files are deleted, at the same time
MOST = 4
#: pauses before what could not be deleted is tried again
FIRST_RETRY_S = 60.0
LONGEST_RETRY_S = 6 * 3600.0
#: what plug-ins get of this process's environment
_ENVIRONMENT = ("PATH", "CONDOR_CONFIG", "LANG", "TZ")


class Checkpoints:
    """Deletes checkpoints; one of an access point."""

    def __init__(
        self,
        database: AsyncDatabase,
        children: Children,
        name: str,
        account: Callable[[str], Awaitable[Account]],
        acts: Callable[[], Awaitable[bool]],
    ) -> None:
        self._database = database
        self._children = children
        self._name = name
        self._account = account
        self._acts = acts
        self._room = asyncio.Semaphore(MOST)
        #: by owner, what could not be deleted; "" where it could not even be looked for
        self._later: dict[str, Later[str]] = {}
        #: since the start
        self.deleted = 0

    async def keep(self) -> None:
        """Delete what no run needs for as long as the access point lives."""
        under_way: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                try:
                    owners = await self._database.run(files.checkpoint_owners(access_point=self._name))
                except NOT_NOW as error:
                    event(log, logging.DEBUG, "checkpoints_wait", problem=error)
                    owners = []
                else:
                    self._later = {one: self._later[one] for one in owners if one in self._later}
                under_way = {owner: task for owner, task in under_way.items() if not task.done()}
                for owner in owners:
                    later = self._later.get(owner)
                    if owner not in under_way and (later is None or later.is_due("")):
                        under_way[owner] = asyncio.ensure_future(self._pass(owner))
                await asyncio.sleep(LOOK_S)
        finally:
            for task in under_way.values():
                task.cancel()
            await asyncio.gather(*under_way.values(), return_exceptions=True)

    async def _pass(self, owner: str) -> None:
        """Delete what is left of one owner, but for what could not be deleted a moment ago."""
        later = self._later.setdefault(owner, Later())
        try:
            async with self._room:
                account = await self._account(owner)
                acting = owner if await self._acts() else None
            cleaners: Cleaners | None = None
            end = float("inf")
            passed: set[str] = set()
            while time.monotonic() < end:
                async with self._room:
                    page = await self._database.run(
                        files.left_checkpoints(
                            most_rows=PAGE, but_for=len(passed), access_point=self._name, of_owner=owner
                        ),
                        acting_for=acting,
                    )
                # what waits for room gets to delete one all the same
                end = min(end, time.monotonic() + PASS_S)
                if not page:
                    # what has gone meanwhile need not be remembered
                    later.keep(passed)
                    return
                for one in page:
                    if time.monotonic() >= end:
                        break
                    if not later.is_due(one.base):
                        passed.add(one.base)
                        continue
                    if cleaners is None:
                        cleaners = await asyncio.to_thread(Cleaners)
                    if not await self._delete(account, cleaners, one, later, acting):
                        passed.add(one.base)
        except NOT_NOW as error:
            event(log, logging.DEBUG, "checkpoints_wait", owner=owner, problem=error)
        except FetchworkError as error:
            # as of an account that is not here any more
            later.postpone("", FIRST_RETRY_S, LONGEST_RETRY_S)
            event(log, logging.WARNING, "checkpoints_not_deleted", person=owner, owner=owner, problem=error)
        except Exception:
            # it is this owner's, and tried again
            event(log, logging.ERROR, "checkpoints_failed", person=owner, exc_info=True, owner=owner)

    async def _delete(
        self, account: Account, cleaners: Cleaners, one: LeftCheckpoint, later: Later[str], acting: str | None
    ) -> bool:
        """Delete one, and forget it; False, and it is tried again, where it can't be."""
        try:
            request = {
                "do": "clean",
                "command": cleaners.command(one.base),
                "timeout_s": cleaners.timeout_s,
                "env": {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                "cluster": one.cluster_id,
                "proc": one.proc_id,
                "owner": one.owner,
                "base": one.base,
            }
            first = 0
            while names := list(one.names[first : first + FILES]):
                # others' come between
                async with self._room:
                    answer = await self._children.ask(account, {**request, "names": names}, DELETE_S)
                # it may have had no time for all
                first += max(1, min(int(answer["deleted"]), len(names)))
        except (FetchworkError, TimeoutError, OSError) as error:
            later.postpone(one.base, FIRST_RETRY_S, LONGEST_RETRY_S)
            event(
                log,
                logging.WARNING,
                "checkpoint_not_deleted",
                person=one.owner,
                job=f"{one.cluster_id}.{one.proc_id}",
                base=one.base,
                problem=str(error) or "it took too long",
            )
            return False
        # who deletes it twice has the same result
        forgotten = await self._database.run(
            files.forget_checkpoint(cluster=one.cluster_id, proc=one.proc_id, base=one.base),
            acting_for=acting,
        )
        later.forget(one.base)
        self.deleted += forgotten
        event(
            log,
            logging.INFO,
            "checkpoint_deleted",
            job=f"{one.cluster_id}.{one.proc_id}",
            base=one.base,
        )
        return True
