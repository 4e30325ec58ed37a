"""Brings what jobs of this access point left to where they were submitted, as a schedd does.

It looks in the database for owners of jobs that have ended by themselves and whose end waits for their
outputs (TransferringOutput); for each it goes through that owner's jobs alone, so that nobody waits behind
another's hundred thousand. Each job's are brought by a child of its owner, which alone touches the owner's
files; of one owner one job after the other, so that a file system that does not answer is in nobody else's
way. What can't be written holds its job, as with a schedd, and stays in the database; what failed for another
reason is tried again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from fetchwork.accesspoint.children import Account, Children
from fetchwork.accesspoint.later import Later
from fetchwork.client.wire import Json
from fetchwork.db.calls import files
from fetchwork.db.calls.files import CHUNK_BYTES, PART_BYTES, JobOutputs
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import NOT_NOW, BucketUnavailable, FetchworkError, ProtocolError
from fetchwork.log import event
from fetchwork.queue.contents import Progress
from fetchwork.queue.destinations import TransferFailed
from fetchwork.queue.retrieving import Told, part_of_output
from fetchwork.sandbox import objects

log = logging.getLogger(__name__)

#: between two looks for owners, which cost what these are many: a job's end waits for them
LOOK_S = 0.2
#: the same when the last one found nobody
IDLE_S = 0.5
#: an owner's jobs are looked through again after so many times what it took to find none to bring
REST = 20.0
#: seconds before the database is asked again that was away
AWAY_S = 1.0
#: seconds for a job's outputs; a child that brings chunk after chunk lives longer
BRING_S = 3600.0
#: so many jobs of an owner are asked for at once
PAGE = 50
#: owners whose outputs are brought at the same time, and as many out of buckets, which may not answer
MOST = 8
#: pauses before a job is tried again that neither came through nor was held
FIRST_RETRY_S = 10.0
LONGEST_RETRY_S = 3600.0
#: the longest of these where a bucket is away
BUCKET_RETRY_S = 60.0

_Job = tuple[int, int]


@dataclass(slots=True)
class _Passes:
    """How far an owner's jobs have been gone through."""

    #: when they are gone through again
    next_at: float = 0.0
    #: those that are tried again
    later: Later[_Job] = field(default_factory=Later)


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
        self._bucket_room = asyncio.Semaphore(MOST)
        self._turns: dict[str, asyncio.Lock] = {}
        #: of those owners of whom something waits
        self._passes: dict[str, _Passes] = {}
        #: jobs whose files were brought since the start
        self.brought = 0

    async def keep(self) -> None:
        """Bring what jobs leave for as long as the access point lives."""
        under_way: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                try:
                    waiting = await self._database.run(files.awaited_owners(access_point=self._name))
                except NOT_NOW as error:
                    # what failed goes on waiting for its next try
                    event(log, logging.WARNING, "outputs_wait", problem=error)
                    await asyncio.sleep(IDLE_S)
                    continue
                under_way = {owner: task for owner, task in under_way.items() if not task.done()}
                self._passes = {owner: self._passes[owner] for owner in waiting if owner in self._passes}
                now = time.monotonic()
                for owner in waiting:
                    of_owner = self._passes.setdefault(owner, _Passes())
                    if owner not in under_way and of_owner.next_at <= now:
                        under_way[owner] = asyncio.ensure_future(self._pass(owner, of_owner))
                await asyncio.sleep(LOOK_S if waiting else IDLE_S)
        finally:
            for task in under_way.values():
                task.cancel()
            await asyncio.gather(*under_way.values(), return_exceptions=True)

    async def retrieve(
        self, owner: str, jobs: Sequence[str] | None, progress: Progress | None = None
    ) -> list[Json]:
        """Bring outputs of an owner's jobs now, of all with None: a report for each."""
        reports: list[Json] = []
        told = Told(progress)
        after = (-1, -1)
        while True:
            page = await self._database.run(
                files.job_outputs(
                    jobs=jobs,
                    access_point=self._name,
                    of_owner=owner,
                    after_cluster=after[0],
                    after_proc=after[1],
                    most_jobs=PAGE,
                )
            )
            told.more(sum(file["size"] for one in page for file in one.files))
            for one in page:
                if (report := await self._bring(one, told)) is not None:
                    reports.append(report)
            if len(page) < PAGE:
                return reports
            after = (page[-1].cluster_id, page[-1].proc_id)

    async def _pass(self, owner: str, of_owner: _Passes) -> None:
        """Bring what waits of one owner, but for what failed a moment ago."""
        after = (-1, -1)
        there: set[_Job] = set()
        in_vain_s = 0.0
        try:
            while True:
                began = time.monotonic()
                page = await self._database.run(
                    files.awaited_outputs(
                        access_point=self._name,
                        of_owner=owner,
                        after_cluster=after[0],
                        after_proc=after[1],
                        most_jobs=PAGE,
                    )
                )
                due = [one for one in page if of_owner.later.is_due(_job(one))]
                if not due:
                    in_vain_s += time.monotonic() - began
                for one in due:
                    await self._bring(one)
                there.update(map(_job, page))
                if len(page) < PAGE:
                    break
                after = _job(page[-1])
            of_owner.later.keep(there)
        except NOT_NOW as error:
            event(log, logging.WARNING, "outputs_wait", person=owner, owner=owner, problem=error)
            in_vain_s = AWAY_S / REST
        except Exception:
            # it is this owner's, and tried again
            event(log, logging.ERROR, "outputs_failed", person=owner, exc_info=True, owner=owner)
            in_vain_s = FIRST_RETRY_S / REST
        of_owner.next_at = time.monotonic() + REST * in_vain_s

    async def _bring(self, outputs: JobOutputs, told: Told | None = None) -> Json | None:
        """Bring a job's outputs; None where somebody else did. Raises what says that the database is away."""
        job = _job(outputs)
        of_owner = self._passes.get(outputs.owner, _Passes())
        report: Json = {
            "job": f"{job[0]}.{job[1]}",
            "files": len(outputs.files),
            "bytes": 0,
            "problem": None,
            "errno": 0,
        }
        in_bucket = any(file.get("in_bucket") for file in outputs.files)
        room = self._bucket_room if in_bucket else self._room
        async with self._turns.setdefault(outputs.owner, asyncio.Lock()), room:
            acting = outputs.owner if await self._acts() else None
            try:
                try:
                    account = await self._account(outputs.owner)
                    report["bytes"] = await self._ask_child(account, outputs, acting, told)
                except TransferFailed as error:
                    await self._hold(outputs, error, acting)
                    return {**report, "files": 0, "problem": str(error), "errno": error.errno}
                dropped = await self._database.run(
                    files.drop_outputs(cluster=job[0], proc=job[1], run_id=outputs.run_id),
                    acting_for=acting,
                )
            except BucketUnavailable as error:
                # what others have left may be elsewhere
                of_owner.later.postpone(job, AWAY_S, BUCKET_RETRY_S)
                event(
                    log,
                    logging.WARNING,
                    "outputs_wait",
                    person=outputs.owner,
                    job=report["job"],
                    problem=error,
                )
                return {**report, "files": 0, "problem": str(error)}
            except NOT_NOW:
                raise
            except Exception as error:
                # whatever it is, it is this job's alone
                of_owner.later.postpone(job, FIRST_RETRY_S, LONGEST_RETRY_S)
                known = isinstance(error, FetchworkError | TimeoutError | OSError)
                problem = str(error) or "it took too long" if known else f"{type(error).__name__}: {error}"
                event(
                    log,
                    logging.WARNING,
                    "outputs_not_brought",
                    person=outputs.owner,
                    job=report["job"],
                    problem=problem,
                )
                return {**report, "files": 0, "problem": problem}
        of_owner.later.forget(job)
        if not dropped:
            return None
        self.brought += 1
        event(log, logging.INFO, "outputs_brought", job=report["job"], bytes=report["bytes"])
        return report

    async def _hold(self, outputs: JobOutputs, failed: TransferFailed, acting: str | None) -> None:
        """Hold a job whose outputs can't be written, if its end waits for them."""
        held = await self._database.run(
            files.not_brought(
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
        event(
            log,
            logging.WARNING,
            "outputs_not_written",
            person=outputs.owner,
            job=job,
            problem=failed,
            held=held,
        )

    async def _ask_child(
        self, account: Account, outputs: JobOutputs, acting: str | None, told: Told | None
    ) -> int:
        left = {file["content_id"] for file in outputs.files if file["source"] == "content"}
        in_bucket = {file["content_id"]: file["size"] for file in outputs.files if file.get("in_bucket")}

        async def chunk(want: Json) -> Json:
            content_id, n = want["content_id"], want["n"]
            if content_id not in left:
                # the child is an account's, and what the access point may read is everybody's
                raise ProtocolError(f"a child of '{outputs.owner}' asks for what the job has not left")
            if content_id not in in_bucket:
                data = await self._database.run(
                    files.read_output_chunk(content_id=content_id, n=n), acting_for=acting
                )
            else:
                part, at = divmod(n * CHUNK_BYTES, PART_BYTES)
                url = await self._database.run(
                    files.left_part_url(content_id=content_id, n=part), acting_for=acting
                )
                size = min(CHUNK_BYTES, in_bucket[content_id] - n * CHUNK_BYTES)
                data = None if url is None else await objects.aside(part_of_output, url, at, size)
            if told is not None:
                told.moved(len(data or b""))
            return {"data": data}

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


def _job(outputs: JobOutputs) -> _Job:
    return outputs.cluster_id, outputs.proc_id
