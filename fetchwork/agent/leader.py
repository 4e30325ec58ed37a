"""The leader: the agent that works for the whole pool, and its succession.

Each agent asks now and then whether the leader still keeps the queue in order. With more agents each one asks
less often, so that all together ask about every other second. The first agent that finds the leader silent
leads.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Sequence

from fetchwork.codes import JobStatus
from fetchwork.db.calls import maintenance
from fetchwork.errors import BucketRefused, BucketUnavailable, FetchworkError
from fetchwork.handlers.host.session import HostSession
from fetchwork.log import event
from fetchwork.matchmaker.messages import Job, Judgement
from fetchwork.sandbox import objects

log = logging.getLogger(__name__)

#: seconds of silence after which a leader has lost the lead
LEAD_S = 5.0
#: an agent asks at an interval of the first figure times the number of agents, within the two bounds
ASK_EACH_S = 2.0
SHORTEST_ASK_S = 3.0
LONGEST_ASK_S = 60.0
#: the leader keeps the queue in order at this interval
MAINTAIN_QUEUE_S = 1.5
# intervals of the leader tasks, each of which one process does for all
PREEMPT_S = 10.0
NOTIFICATIONS_S = 5.0
POLICY_S = 60.0
MAINTAIN_TABLES_S = 3600.0
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
MAINTAIN_TABLES_CALL_S = 300.0


class Leader:
    """The lead in one database."""

    def __init__(self, session: HostSession) -> None:
        self.leads = False
        self._session = session
        self._ask_at = 0.0

    async def keep_in_order(self) -> None:
        """Keep the queue in order as the leader; otherwise ask for a living leader if that is due."""
        now = time.monotonic()
        if self._session.greeting is None or (not self.leads and now < self._ask_at):
            return
        self.leads = await _lead(self._session)
        pause_s = min(LONGEST_ASK_S, max(SHORTEST_ASK_S, ASK_EACH_S * self._session.demand.agents))
        self._ask_at = now + random.uniform(0.7, 1.3) * pause_s  # noqa: S311

    async def free_notifications(self) -> None:
        """As the leader, keep PostgreSQL's queue of notifications from filling up."""
        if self.leads and self._session.greeting is not None:
            await _free_notifications(self._session)

    async def do_tasks(self) -> None:
        """As the leader, do the tasks that are due."""
        if self.leads and self._session.greeting is not None:
            await _do_leader_tasks(self._session)


async def _lead(session: HostSession) -> bool:
    """Give up silent runs, wake jobs whose wait is over, add up counts; False if another agent leads."""
    # not repeated: the log would miss the work of the first call, and the next round comes soon
    done = await session.database.run(
        maintenance.lead(agent_id=session.agent_id, lead_s=LEAD_S), timeout_s=CALL_S, again=False
    )
    if done.leads:
        level = logging.INFO if done.reaped else logging.DEBUG
        event(log, level, "maintain_queue", reaped=done.reaped, woken=done.woken, folded=done.folded)
    return done.leads


async def _free_notifications(session: HostSession) -> None:
    """If PostgreSQL's queue of notifications is more than half full, end the slowest listener and log it."""
    if await session.database.run(maintenance.sends_notifications(), timeout_s=CALL_S):
        return
    pid = await session.database.slowest_listener()
    ended = pid is not None and await session.database.run(
        maintenance.end_notification_reader(pid=pid), timeout_s=CALL_S
    )
    problem = "PostgreSQL's queue of notifications is more than half full"
    event(log, logging.WARNING, "notification_queue", problem=problem, pid=pid, ended=ended)


async def _do_leader_tasks(session: HostSession) -> None:
    """Run each leader task that is due and that no other process has taken."""
    if await _take(session, "preempt", PREEMPT_S):
        ended = await session.database.run(maintenance.preempt(), timeout_s=CALL_S)
        if ended:
            event(log, logging.INFO, "preempt", runs=ended)
    if await _take(session, "policy", POLICY_S):
        await policy_pass(session)
    if await _take(session, "objects", OBJECTS_S):
        await delete_objects(session)
    if await _take(session, "maintain", MAINTAIN_TABLES_S):
        # this may take minutes, so it has its own connection and no request waits for it
        async with session.database.another() as database:
            await database.run(maintenance.maintain_tables(), timeout_s=MAINTAIN_TABLES_CALL_S)


async def delete_objects(session: HostSession) -> int:
    """Delete the objects of deleted contents from their buckets; return the number of objects."""
    deleted = 0
    deleting = _Deleting(time.monotonic() + DELETE_S)
    while time.monotonic() < deleting.end:
        over = await session.database.run(maintenance.objects_over(most=OBJECTS), timeout_s=CALL_S)
        gone, refused = await asyncio.to_thread(deleting.delete, over)
        if gone:
            deleted += await session.database.run(
                maintenance.objects_deleted(
                    objects=[part.object for part in gone], ns=[part.n for part in gone]
                ),
                timeout_s=CALL_S,
            )
        if refused:
            # move them behind all others, so that no other object waits for one that is never deleted
            await session.database.run(
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


async def _take(session: HostSession, name: str, every_s: float) -> bool:
    # not repeated: a second call would find the task taken
    call = maintenance.take_leader_task(name=name, every_s=every_s)
    return await session.database.run(call, timeout_s=CALL_S, again=False)


async def policy_pass(session: HostSession) -> int:
    """Evaluate the periodic policy of the jobs that don't run; return the number of changed jobs."""
    cluster, proc, changed = 0, -1, 0
    while True:
        jobs = await session.database.run(
            maintenance.policy_jobs(after_cluster=cluster, after_proc=proc, page=PAGE), timeout_s=CALL_S
        )
        judgements = await session.matchmaker.judge([Job(job.ad) for job in jobs])
        for job, judgement in zip(jobs, judgements, strict=True):
            cluster, proc = job.cluster_id, job.proc_id
            try:
                changed += await _apply(session, job, judgement)
            except FetchworkError as error:
                if session.database.problem is not None:
                    raise
                # a job with any problem must not delay the policy of the next job
                event(log, logging.WARNING, "policy", job=f"{cluster}.{proc}", problem=error)
        if len(jobs) < PAGE:
            return changed


async def _apply(session: HostSession, job: maintenance.PolicyJob, judgement: Judgement) -> int:
    """Do the action of the job's policy; return 1 if that changed the job."""
    status = job.ad.get("JobStatus", JobStatus.IDLE)
    verdict = judgement.verdict or judgement.hold()
    if verdict is None or (judgement.problem is not None and status == JobStatus.HELD):
        return 0
    done = await session.database.run(
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
