"""Regular maintenance of the whole queue: agents do it and, where there is none, direct mode."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from fetchwork.codes import HoldCode, JobStatus
from fetchwork.errors import ClassAdError
from fetchwork.handlers import policy
from fetchwork.handlers.session import HostSession
from fetchwork.log import event

log = logging.getLogger(__name__)

POLICY_S = 60.0
PREEMPT_S = 10.0
MAINTAIN_S = 3600.0
TICK_S = 1.5
#: jobs of one page of the policy pass
PAGE = 500
CALL_S = 10.0
MAINTAIN_CALL_S = 300.0


async def tick(session: HostSession) -> None:
    """Give up what fell silent, wake what has waited long enough, add up counts."""
    done = (await session.database.call("maintain_queue", timeout_s=CALL_S))[0]
    level = logging.INFO if done["reaped"] else logging.DEBUG
    event(log, level, "tick", **done)


async def do_leader_tasks(session: HostSession) -> None:
    """Run each leader task that is due and that no other process has taken."""
    if await _is_mine(session, "preempt", PREEMPT_S):
        ended = await session.database.scalar("preempt", timeout_s=CALL_S)
        if ended:
            event(log, logging.INFO, "preempt", runs=ended)
    if await _is_mine(session, "policy", POLICY_S):
        await policy_pass(session)
    if await _is_mine(session, "maintain", MAINTAIN_S):
        # it may take minutes, in which nobody shall wait for its connection
        async with session.database.another() as database:
            await database.scalar("maintain_tables", timeout_s=MAINTAIN_CALL_S)


async def _is_mine(session: HostSession, name: str, every_s: float) -> bool:
    return bool(
        await session.database.scalar(
            "take_leader_task", timeout_s=CALL_S, again=False, name=name, every_s=every_s
        )
    )


async def policy_pass(session: HostSession) -> int:
    """Evaluate the periodic policy of the jobs that don't run; returns how many it changed."""
    cluster, proc, changed = 0, -1, 0
    while True:
        rows = await session.database.call(
            "policy_jobs", timeout_s=CALL_S, after_cluster=cluster, after_proc=proc, page=PAGE
        )
        for row in rows:
            cluster, proc = row["cluster_id"], row["proc_id"]
            changed += await _judge(session, row)
            # requests are not kept waiting by a long queue
            await asyncio.sleep(0)
        if len(rows) < PAGE:
            return changed


async def _judge(session: HostSession, row: dict[str, Any]) -> int:
    job = f"{row['cluster_id']}.{row['proc_id']}"
    status = row["ad"]["JobStatus"]
    try:
        verdict = policy.periodic(policy.read_ad(row["ad"]), status)
    except ClassAdError as error:
        if status == JobStatus.HELD:
            return 0
        verdict = policy.Verdict("hold", str(error), HoldCode.JOB_POLICY_UNDEFINED)
    if verdict is None:
        return 0
    done = await session.database.scalar(
        "apply_policy",
        timeout_s=CALL_S,
        cluster=row["cluster_id"],
        proc=row["proc_id"],
        status=status,
        action=verdict.action,
        reason=verdict.reason,
        code=verdict.code,
        subcode=verdict.subcode,
    )
    if done:
        event(log, logging.INFO, "policy", job=job, action=verdict.action, reason=verdict.reason)
    return 1 if done else 0
