"""The leader tasks that show the jobs of all: policies of jobs that don't run, and deletes in buckets.

Each period one process does each of them: an access point, or an agent unless its host was invited without
``--trusted``. The database decides which callers may (``take_leader_task``).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Sequence

from fetchwork.codes import JobStatus
from fetchwork.db.calls import maintenance
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import BucketRefused, BucketUnavailable, FetchworkError
from fetchwork.log import event
from fetchwork.matchmaker.client import Matchmaker
from fetchwork.matchmaker.messages import Job, Judgement
from fetchwork.sandbox import objects

log = logging.getLogger(__name__)

#: seconds between two passes over the policies, and between two rounds of deletes
POLICY_S = 60.0
OBJECTS_S = 60.0
#: most seconds for deleting objects, while other tasks wait
DELETE_S = 10.0
#: objects that are deleted before the database is told
OBJECTS = 100
#: refusals after which a bucket is left alone until the next round
REFUSALS = 10
#: jobs in one page of the policy pass
PAGE = 500
CALL_S = 10.0


async def do_due(database: AsyncDatabase, matchmaker: Matchmaker) -> None:
    """Do each task that is due and that no other process has taken."""
    if await take(database, "policy", POLICY_S):
        await policy_pass(database, matchmaker)
    if await take(database, "objects", OBJECTS_S):
        await delete_objects(database)


async def take(database: AsyncDatabase, name: str, every_s: float) -> bool:
    """Whether this process is to do a leader task, which is due every ``every_s`` seconds."""
    # not repeated: a second call would find the task taken
    call = maintenance.take_leader_task(name=name, every_s=every_s)
    return await database.run(call, timeout_s=CALL_S, again=False)


async def delete_objects(database: AsyncDatabase) -> int:
    """Delete the objects of deleted contents from their buckets; return the number of objects."""
    deleted = 0
    deleting = _Deleting(time.monotonic() + DELETE_S)
    while time.monotonic() < deleting.end:
        over = await database.run(maintenance.objects_over(most=OBJECTS), timeout_s=CALL_S)
        gone, refused = await asyncio.to_thread(deleting.delete, over)
        if gone:
            deleted += await database.run(
                maintenance.objects_deleted(
                    objects=[part.object for part in gone], ns=[part.n for part in gone]
                ),
                timeout_s=CALL_S,
            )
        if refused:
            # move them behind all others, so that no other object waits for one that is never deleted
            await database.run(
                maintenance.postpone_objects(
                    objects=[part.object for part in refused], ns=[part.n for part in refused]
                ),
                timeout_s=CALL_S,
            )
        if not gone and not refused:
            break
    if deleting.problem is not None:
        event(log, logging.WARNING, "objects", problem=deleting.problem)
    if deleted:
        event(log, logging.INFO, "objects", deleted=deleted)
    return deleted


class _Deleting:
    """Deletes objects until the monotonic time ``end``; a server that does not answer is asked once.

    If a bucket refuses some objects (an object is locked, the key may not delete), others are tried.
    """

    def __init__(self, end: float) -> None:
        self.end = end
        #: the last reason why an object was not deleted
        self.problem: FetchworkError | None = None
        self._away: set[str] = set()
        self._refusals: Counter[int] = Counter()

    def delete(
        self, over: Sequence[maintenance.ObjectOver]
    ) -> tuple[list[maintenance.ObjectOver], list[maintenance.ObjectOver]]:
        """Return the objects that were deleted in time, and those that their bucket refused to delete."""
        gone: list[maintenance.ObjectOver] = []
        refused: list[maintenance.ObjectOver] = []
        for part in over:
            if objects.host_of(part.url) in self._away or self._refusals[part.bucket_id] >= REFUSALS:
                continue
            if time.monotonic() > self.end:
                break
            try:
                objects.delete(part.url)
            except BucketRefused as error:
                self.problem = error
                self._refusals[part.bucket_id] += 1
                refused.append(part)
            except BucketUnavailable as error:
                self.problem = error
                self._away.add(objects.host_of(part.url))
            else:
                gone.append(part)
        return gone, refused


async def policy_pass(database: AsyncDatabase, matchmaker: Matchmaker) -> int:
    """Evaluate the periodic policy of the jobs that don't run; return the number of changed jobs."""
    cluster, proc, changed = 0, -1, 0
    while True:
        jobs = await database.run(
            maintenance.policy_jobs(after_cluster=cluster, after_proc=proc, page=PAGE), timeout_s=CALL_S
        )
        judgements = await matchmaker.judge([Job(job.ad) for job in jobs])
        for job, judgement in zip(jobs, judgements, strict=True):
            cluster, proc = job.cluster_id, job.proc_id
            try:
                changed += await _apply(database, job, judgement)
            except FetchworkError as error:
                if database.problem is not None:
                    raise
                # a job with any problem must not delay the policy of the next job
                event(log, logging.WARNING, "policy", job=f"{cluster}.{proc}", problem=error)
        if len(jobs) < PAGE:
            return changed


async def _apply(database: AsyncDatabase, job: maintenance.PolicyJob, judgement: Judgement) -> int:
    """Do the action of the job's policy; return 1 if that changed the job."""
    status = job.ad.get("JobStatus", JobStatus.IDLE)
    verdict = judgement.verdict or judgement.hold()
    if verdict is None or (judgement.problem is not None and status == JobStatus.HELD):
        return 0
    done = await database.run(
        maintenance.apply_policy(
            cluster=job.cluster_id,
            proc=job.proc_id,
            status=status,
            action=verdict.action,
            reason=verdict.reason,
            code=verdict.code,
            subcode=verdict.subcode,
        ),
        timeout_s=CALL_S,
    )
    if done:
        job_id = f"{job.cluster_id}.{job.proc_id}"
        event(log, logging.INFO, "policy", job=job_id, action=verdict.action, reason=verdict.reason)
    return 1 if done else 0
