"""Deletes checkpoints at their destination that no run needs any more, as a schedd does for its jobs.

These are checkpoints of this access point's jobs that a later checkpoint has replaced, or whose job has left
the queue. HTCondor's clean-up plug-ins delete them (``queue.cleanup``), in a child of the owner, which alone
has the owner's rights. One owner's checkpoints are deleted in turn, a few files at a time and for a limited
time, so that no owner waits behind another's thousands of checkpoints or files. A checkpoint that can't be
deleted stays, blocks no other, and is retried with backoff.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable

from fetchwork.accesspoint.backoff import Backoff
from fetchwork.accesspoint.children import Account, Children
from fetchwork.db.calls import files
from fetchwork.db.calls.files import LeftCheckpoint
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import NOT_NOW, FetchworkError
from fetchwork.log import event
from fetchwork.queue.outputs.cleanup import Cleaners

log = logging.getLogger(__name__)

#: seconds between two polls for owners
LOOK_S = 60.0
#: seconds of one poll after which no further checkpoint of an owner is begun
PASS_S = 30.0
#: checkpoints of one query, each with the names of all its files
PAGE = 20
#: files of one request to a child, and seconds for their deletion
FILES = 10
DELETE_S = 600.0
#: owners whose checkpoints are looked up or deleted at the same time
MOST = 4
#: backoff of a checkpoint that could not be deleted
FIRST_RETRY_S = 60.0
LONGEST_RETRY_S = 6 * 3600.0
#: variables of this process's environment that plug-ins get
_ENVIRONMENT = ("PATH", "CONDOR_CONFIG", "LANG", "TZ")


class Checkpoints:
    """Deletes the checkpoints of one access point's jobs."""

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
        #: by owner, the checkpoints that failed; "" stands for a failed look-up
        self._later: dict[str, Backoff[str]] = {}
        #: checkpoints deleted since the start
        self.deleted = 0

    async def keep(self) -> None:
        """Delete unneeded checkpoints for as long as the access point lives."""
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
        """Delete one owner's unneeded checkpoints, except those in backoff."""
        later = self._later.setdefault(owner, Backoff())
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
                # also a pass that waited long for room deletes at least one
                end = min(end, time.monotonic() + PASS_S)
                if not page:
                    # forget the backoff of checkpoints that are gone
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
            # for example: the account no longer exists here
            later.postpone("", FIRST_RETRY_S, LONGEST_RETRY_S)
            event(log, logging.WARNING, "checkpoints_not_deleted", person=owner, owner=owner, problem=error)
        except Exception:
            # the failure is this owner's alone, and is retried
            event(log, logging.ERROR, "checkpoints_failed", person=owner, exc_info=True, owner=owner)

    async def _delete(
        self,
        account: Account,
        cleaners: Cleaners,
        one: LeftCheckpoint,
        later: Backoff[str],
        acting: str | None,
    ) -> bool:
        """Delete one checkpoint, and forget it; if it can't be deleted, return False and retry it later."""
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
                # other owners' requests come between
                async with self._room:
                    answer = await self._children.ask(account, {**request, "names": names}, DELETE_S)
                # the child may not have had time for all files
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
        # a second deletion has the same result
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
