"""Brings what jobs of this access point left to where they were submitted, as a schedd does.

It looks in the database for jobs that have ended by themselves and whose end waits for their outputs
(TransferringOutput). Each is brought by a child of its owner, which alone touches the owner's files; of one
owner one job after the other, so that a file system that does not answer is in nobody else's way. What can't
be written holds its job, as with a schedd, and stays in the database; what failed for another reason is tried
again.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from fetchwork.accesspoint.children import Account, Children
from fetchwork.client.wire import Json
from fetchwork.db import calls
from fetchwork.db.calls import JobOutputs
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import NOT_NOW, FetchworkError
from fetchwork.log import event
from fetchwork.queue.destinations import TransferFailed

log = logging.getLogger(__name__)

#: between two looks, which cost what there is to bring: a job's end waits for them
LOOK_S = 0.2
#: seconds for a job's outputs; a child that brings chunk after chunk lives longer
BRING_S = 3600.0
#: so many jobs are asked for at once
PAGE = 200
#: owners whose outputs are brought at the same time
MOST = 8
#: pauses before a job is tried again that neither came through nor was held
FIRST_RETRY_S = 10.0
LONGEST_RETRY_S = 3600.0

_Job = tuple[int, int]


class Outputs:
    """Brings outputs; one of an access point."""

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
        self._turns: dict[str, asyncio.Lock] = {}
        #: jobs that are tried again: when, and the pause before
        self._later: dict[_Job, tuple[float, float]] = {}
        #: jobs whose files were brought since the start
        self.brought = 0

    async def keep(self) -> None:
        """Bring what jobs leave for as long as the access point lives."""
        under_way: dict[str, asyncio.Task[None]] = {}
        while True:
            began = time.monotonic()
            try:
                found = await self._found(None, awaited=True)
            except NOT_NOW as error:
                event(log, logging.WARNING, "outputs_wait", problem=error)
                found = []
            now = time.monotonic()
            # many make a look longer: then there are fewer
            pause = max(LOOK_S, 20 * (now - began))
            by_owner: dict[str, list[JobOutputs]] = {}
            for one in found:
                if self._later.get((one.cluster_id, one.proc_id), (0.0, 0.0))[0] <= now:
                    by_owner.setdefault(one.owner, []).append(one)
            there = {(one.cluster_id, one.proc_id) for one in found}
            self._later = {job: when for job, when in self._later.items() if job in there}
            under_way = {owner: task for owner, task in under_way.items() if not task.done()}
            for owner, jobs in by_owner.items():
                if owner not in under_way:
                    under_way[owner] = asyncio.ensure_future(self._bring_all(jobs))
            await asyncio.sleep(pause)

    async def retrieve(self, owner: str, jobs: Sequence[str] | None) -> list[Json]:
        """Bring outputs of an owner's jobs now, of all with None: a report for each."""
        reports: list[Json] = []
        for one in await self._found(jobs):
            if one.owner == owner and (report := await self._bring(one)) is not None:
                reports.append(report)
        return reports

    async def _found(self, jobs: Sequence[str] | None, *, awaited: bool = False) -> list[JobOutputs]:
        found: list[JobOutputs] = []
        after = (-1, -1)
        while True:
            page = await self._database.run(
                calls.job_outputs(
                    jobs=jobs,
                    access_point=self._name,
                    after_cluster=after[0],
                    after_proc=after[1],
                    most_jobs=PAGE,
                    awaited=awaited,
                )
            )
            found += page
            if len(page) < PAGE:
                return found
            after = (page[-1].cluster_id, page[-1].proc_id)

    async def _bring_all(self, jobs: Sequence[JobOutputs]) -> None:
        for one in jobs:
            await self._bring(one)

    async def _bring(self, outputs: JobOutputs) -> Json | None:
        """Bring a job's outputs; None where somebody else did, or the database is away."""
        job = (outputs.cluster_id, outputs.proc_id)
        acting = outputs.owner if await self._acts() else None
        report: Json = {
            "job": f"{job[0]}.{job[1]}",
            "files": len(outputs.files),
            "bytes": 0,
            "problem": None,
            "errno": 0,
        }
        async with self._turns.setdefault(outputs.owner, asyncio.Lock()), self._room:
            try:
                try:
                    account = await self._account(outputs.owner)
                    report["bytes"] = await self._ask_child(account, outputs, acting)
                except TransferFailed as error:
                    await self._hold(outputs, error, acting)
                    return {**report, "files": 0, "problem": str(error), "errno": error.errno}
                dropped = await self._database.run(
                    calls.drop_outputs(cluster=job[0], proc=job[1], run_id=outputs.run_id),
                    acting_for=acting,
                )
            except NOT_NOW as error:
                event(log, logging.WARNING, "outputs_wait", job=report["job"], problem=error)
                return None
            except (FetchworkError, TimeoutError) as error:
                pause = min(LONGEST_RETRY_S, 2 * self._later.get(job, (0.0, FIRST_RETRY_S / 2))[1])
                self._later[job] = (time.monotonic() + pause, pause)
                event(log, logging.WARNING, "outputs_not_brought", job=report["job"], problem=error)
                return {**report, "files": 0, "problem": str(error) or "it took too long"}
        self._later.pop(job, None)
        if not dropped:
            return None
        self.brought += 1
        event(log, logging.INFO, "outputs_brought", job=report["job"], bytes=report["bytes"])
        return report

    async def _hold(self, outputs: JobOutputs, failed: TransferFailed, acting: str | None) -> None:
        """Hold a job whose outputs can't be written, if its end waits for them."""
        held = await self._database.run(
            calls.not_brought(
                cluster=outputs.cluster_id,
                proc=outputs.proc_id,
                run_id=outputs.run_id,
                reason=f"Transfer output files failure at access point {self._name} while receiving files"
                f" from execution point. Details: {failed}",
                errno=failed.errno,
            ),
            acting_for=acting,
        )
        job = f"{outputs.cluster_id}.{outputs.proc_id}"
        event(log, logging.WARNING, "outputs_not_written", job=job, problem=failed, held=held)

    async def _ask_child(self, account: Account, outputs: JobOutputs, acting: str | None) -> int:
        async def chunk(want: Json) -> Json:
            data = await self._database.run(
                calls.read_output_chunk(content_id=want["content_id"], n=want["n"]), acting_for=acting
            )
            return {"data": None if data is None else base64.b64encode(data).decode()}

        request = {
            "do": "bring",
            "ad": dict(outputs.ad),
            "run_id": outputs.run_id,
            "files": [dict(file) for file in outputs.files],
        }
        async for answer in self._children.answers(account, request, BRING_S, wanted=chunk):
            if answer.get("problem") is not None:
                raise TransferFailed(str(answer["problem"]), int(answer["errno"]))
            return int(answer["bytes"])
        return 0
