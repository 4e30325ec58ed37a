"""Delivers the uploaded outputs of this access point's jobs to the submit host, as a schedd does.

It polls the database for owners of jobs that have ended by themselves and wait for their outputs
(TransferringOutput). It goes through each owner's jobs separately, so that no owner waits behind another's
hundred thousand. A child of the owner delivers a job's outputs and alone touches the owner's files. One
owner's jobs are delivered in turn, so a file system that does not answer delays no other owner. An output
that can't be written holds its job, as with a schedd, and stays in the database; other failures are retried.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from fetchwork.accesspoint.backoff import Backoff
from fetchwork.accesspoint.children import Account, Children
from fetchwork.db.calls import files
from fetchwork.db.calls.files import CHUNK_BYTES, PART_BYTES, JobOutputs
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import NOT_NOW, BucketUnavailable, FetchworkError, ProtocolError
from fetchwork.ipc.frames import Json
from fetchwork.log import event
from fetchwork.queue.outputs.destinations import TransferFailed
from fetchwork.queue.outputs.retrieving import Told, part_of_output
from fetchwork.queue.submitting.contents import Progress
from fetchwork.sandbox import objects

log = logging.getLogger(__name__)

#: seconds between two polls for owners, whose cost grows with their number; a job's end waits for a poll
LOOK_S = 0.2
#: the same if the last poll found no owner
IDLE_S = 0.5
#: pause between two passes, as a multiple of the time spent on pages without a job to deliver
REST = 20.0
#: seconds until the next try after the database was away
AWAY_S = 1.0
#: seconds for a job's outputs; each chunk extends the child's own time limit
BRING_S = 3600.0
#: jobs of an owner in one query
PAGE = 50
#: owners whose outputs are delivered at the same time; as many again from buckets, which may not answer
MOST = 8
#: backoff of a job whose delivery failed without holding it
FIRST_RETRY_S = 10.0
LONGEST_RETRY_S = 3600.0
#: longest backoff while a bucket is away
BUCKET_RETRY_S = 60.0

_Job = tuple[int, int]


@dataclass(slots=True)
class _Passes:
    """The state of the passes through an owner's jobs."""

    #: monotonic time of the next pass
    next_at: float = 0.0
    #: jobs in backoff
    later: Backoff[_Job] = field(default_factory=Backoff)


class Outputs:
    """Delivers the outputs of one access point's jobs."""

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
        #: by owner, while an output of the owner waits
        self._passes: dict[str, _Passes] = {}
        #: jobs whose files were delivered since the start
        self.brought = 0

    async def keep(self) -> None:
        """Deliver outputs for as long as the access point lives."""
        under_way: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                try:
                    waiting = await self._database.run(files.awaited_owners(access_point=self._name))
                except NOT_NOW as error:
                    # failed jobs keep their backoff
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
        """Deliver outputs of an owner's jobs now (None: of all jobs); return a report for each."""
        reports: list[Json] = []
        progress_report = Told(progress)
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
            progress_report.more(sum(file["size"] for one in page for file in one.files))
            for one in page:
                if (report := await self._bring(one, progress_report)) is not None:
                    reports.append(report)
            if len(page) < PAGE:
                return reports
            after = (page[-1].cluster_id, page[-1].proc_id)

    async def _pass(self, owner: str, of_owner: _Passes) -> None:
        """Deliver one owner's waiting outputs, except those in backoff."""
        after = (-1, -1)
        there: set[_Job] = set()
        idle_s = 0.0
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
                    idle_s += time.monotonic() - began
                for one in due:
                    await self._bring(one)
                there.update(map(_job, page))
                if len(page) < PAGE:
                    break
                after = _job(page[-1])
            of_owner.later.keep(there)
        except NOT_NOW as error:
            event(log, logging.WARNING, "outputs_wait", person=owner, owner=owner, problem=error)
            idle_s = AWAY_S / REST
        except Exception:
            # the failure is this owner's alone, and is retried
            event(log, logging.ERROR, "outputs_failed", person=owner, exc_info=True, owner=owner)
            idle_s = FIRST_RETRY_S / REST
        of_owner.next_at = time.monotonic() + REST * idle_s

    async def _bring(self, outputs: JobOutputs, progress_report: Told | None = None) -> Json | None:
        """Deliver a job's outputs; None if they were delivered meanwhile. Raises errors of NOT_NOW."""
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
                    report["bytes"] = await self._ask_child(account, outputs, acting, progress_report)
                except TransferFailed as error:
                    await self._hold(outputs, error, acting)
                    return {**report, "files": 0, "problem": str(error), "errno": error.errno}
                dropped = await self._database.run(
                    files.drop_outputs(cluster=job[0], proc=job[1], run_id=outputs.run_id),
                    acting_for=acting,
                )
            except BucketUnavailable as error:
                # other jobs' outputs may be in a different bucket
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
                # the failure is this job's alone
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
        self, account: Account, outputs: JobOutputs, acting: str | None, progress_report: Told | None
    ) -> int:
        left = {file["content_id"] for file in outputs.files if file["source"] == "content"}
        in_bucket = {file["content_id"]: file["size"] for file in outputs.files if file.get("in_bucket")}

        async def chunk(want: Json) -> Json:
            content_id, n = want["content_id"], want["n"]
            if content_id not in left:
                # the child has one account's rights; the access point may read the contents of all accounts
                raise ProtocolError(
                    f"a child of '{outputs.owner}' asks for a content that is not an output of its job"
                )
            if content_id not in in_bucket:
                data = await self._database.run(
                    files.read_chunk(content_id=content_id, n=n), acting_for=acting
                )
            else:
                part, at = divmod(n * CHUNK_BYTES, PART_BYTES)
                url = await self._database.run(
                    files.content_url(method="GET", content_id=content_id, n=part), acting_for=acting
                )
                size = min(CHUNK_BYTES, in_bucket[content_id] - n * CHUNK_BYTES)
                data = None if url is None else await objects.aside(part_of_output, url, at, size)
            if progress_report is not None:
                progress_report.moved(len(data or b""))
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
