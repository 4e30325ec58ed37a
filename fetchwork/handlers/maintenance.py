"""Regular maintenance of the whole queue: agents do it and, where there is none, direct mode."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from fetchwork.codes import JobStatus
from fetchwork.db import calls
from fetchwork.errors import BucketUnavailable, FetchworkError
from fetchwork.handlers.session import HostSession
from fetchwork.log import event
from fetchwork.matchmaker.messages import Job, Judgement
from fetchwork.sandbox import objects

log = logging.getLogger(__name__)

#: the leader among the agents keeps the queue in order at this interval
MAINTAIN_QUEUE_S = 1.5
# leader tasks: one process does each for all, in its interval
PREEMPT_S = 10.0
POLICY_S = 60.0
MAINTAIN_TABLES_S = 3600.0
OBJECTS_S = 60.0
#: other tasks wait while objects are deleted
DELETE_S = 10.0
#: objects that are deleted before that is noted
OBJECTS = 100
#: jobs of one page of the policy pass
PAGE = 500
CALL_S = 10.0
MAINTAIN_TABLES_CALL_S = 300.0


async def maintain_queue(session: HostSession) -> None:
    """Give up runs that fell silent, wake jobs whose wait is over, add up counts."""
    done = await session.database.run(calls.maintain_queue(), timeout_s=CALL_S)
    level = logging.INFO if done.reaped else logging.DEBUG
    event(log, level, "maintain_queue", **dataclasses.asdict(done))


async def lead(session: HostSession, lead_s: float) -> bool:
    """Do so as the leader among the agents; False where another one leads."""
    assert session.agent_id is not None
    # not again: what it did would be lost to the log, and the next round comes soon
    done = await session.database.run(
        calls.lead(agent_id=session.agent_id, lead_s=lead_s), timeout_s=CALL_S, again=False
    )
    if done.leads:
        level = logging.INFO if done.reaped else logging.DEBUG
        event(log, level, "maintain_queue", reaped=done.reaped, woken=done.woken, folded=done.folded)
    return done.leads


async def do_leader_tasks(session: HostSession) -> None:
    """Run each leader task that is due and that no other process has taken."""
    if await _take(session, "preempt", PREEMPT_S):
        ended = await session.database.run(calls.preempt(), timeout_s=CALL_S)
        if ended:
            event(log, logging.INFO, "preempt", runs=ended)
    if await _take(session, "policy", POLICY_S):
        await policy_pass(session)
    if await _take(session, "objects", OBJECTS_S):
        await delete_objects(session)
    if await _take(session, "maintain", MAINTAIN_TABLES_S):
        # it may take minutes, in which no request shall wait for its connection
        async with session.database.another() as database:
            await database.run(calls.maintain_tables(), timeout_s=MAINTAIN_TABLES_CALL_S)


async def delete_objects(session: HostSession) -> int:
    """Delete what contents that are no more have in buckets; how many objects."""
    deleted = 0
    end = time.monotonic() + DELETE_S
    while time.monotonic() < end:
        over = await session.database.run(calls.objects_over(most=OBJECTS), timeout_s=CALL_S)
        if not over:
            break
        gone, problem = await asyncio.to_thread(_delete, over, end)
        deleted += await session.database.run(
            calls.objects_deleted(objects=[one.object for one in gone], ns=[one.n for one in gone]),
            timeout_s=CALL_S,
        )
        if problem is not None:
            event(log, logging.WARNING, "objects", problem=problem)
        if not gone:
            break
    if deleted:
        event(log, logging.INFO, "objects", deleted=deleted)
    return deleted


def _delete(
    over: Sequence[calls.ObjectOver], end: float
) -> tuple[list[calls.ObjectOver], FetchworkError | None]:
    """Those that were deleted in time, and why some were not; a bucket that fails is asked no more."""
    gone: list[calls.ObjectOver] = []
    failed: set[str] = set()
    problem: FetchworkError | None = None
    for one in over:
        host = urlsplit(one.url).netloc
        if host in failed:
            continue
        if time.monotonic() > end:
            break
        try:
            objects.delete(one.url)
        except BucketUnavailable as error:
            problem = error
            failed.add(host)
            continue
        gone.append(one)
    return gone, problem


async def _take(session: HostSession, name: str, every_s: float) -> bool:
    # not again: the second call would find the task taken
    call = calls.take_leader_task(name=name, every_s=every_s)
    return await session.database.run(call, timeout_s=CALL_S, again=False)


async def policy_pass(session: HostSession) -> int:
    """Evaluate the periodic policy of the jobs that don't run; returns how many it changed."""
    cluster, proc, changed = 0, -1, 0
    while True:
        jobs = await session.database.run(
            calls.policy_jobs(after_cluster=cluster, after_proc=proc, page=PAGE), timeout_s=CALL_S
        )
        judgements = await session.matchmaker.judge([Job(job.ad) for job in jobs])
        for job, judgement in zip(jobs, judgements, strict=True):
            cluster, proc = job.cluster_id, job.proc_id
            try:
                changed += await _apply(session, job, judgement)
            except FetchworkError as error:
                if session.database.problem is not None:
                    raise
                # one job, whatever is the matter with it, does not keep the policy of the next one waiting
                event(log, logging.WARNING, "policy", job=f"{cluster}.{proc}", problem=error)
        if len(jobs) < PAGE:
            return changed


async def _apply(session: HostSession, job: calls.PolicyJob, judgement: Judgement) -> int:
    """Do what the job's policy wants; 1 if that changed it."""
    status = job.ad.get("JobStatus", JobStatus.IDLE)
    verdict = judgement.verdict or judgement.hold()
    if verdict is None or (judgement.problem is not None and status == JobStatus.HELD):
        return 0
    done = await session.database.run(
        calls.apply_policy(
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
