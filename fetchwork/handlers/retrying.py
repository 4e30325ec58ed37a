"""A job that used too much: held, or retried with a larger request if its ad has a formula for that."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from fetchwork.codes import JobStatus
from fetchwork.db.calls import maintenance, runs
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.matchmaker.messages import Job
from fetchwork.matchmaker.policy import Verdict
from fetchwork.matchmaker.processes import MatchmakerUnavailable


class Settled(NamedTuple):
    """The decision about a job that used too much, as recorded in the database."""

    #: its run must end
    ends: bool
    #: its requests when it runs again; None if it is held
    asks_for: Mapping[str, int] | None


async def settle_overuse(run: LiveRun, hold: Verdict, timeout_s: float) -> Settled:
    """Record that a running job is held, or is retried with more; raises DatabaseUnavailable."""
    verdict = await or_with_more(run, hold, timeout_s)
    return Settled(await _settle(run, verdict, timeout_s), verdict.changes or None)


async def or_with_more(run: LiveRun, hold: Verdict, timeout_s: float) -> Verdict:
    """Return the verdict on a job that used too much: ``hold``, or a retry with more.

    A job whose ad can't be evaluated is held. Raises DatabaseUnavailable and other database errors.
    """
    session = run.context.session
    ad = await session.database.run(runs.run_policy(run_id=run.run_id, token=run.token), timeout_s=timeout_s)
    if ad is None or "TransformOnEvict" not in ad:
        return hold
    try:
        (judgement,) = await session.matchmaker.judge([Job(ad, evicted_with=(hold.code, hold.subcode))])
    except MatchmakerUnavailable:
        return hold
    if judgement.verdict is None or not judgement.verdict.changes:
        return hold
    return dataclasses.replace(hold, action="requeue", changes=judgement.verdict.changes)


async def _settle(run: LiveRun, verdict: Verdict, timeout_s: float) -> bool:
    """Record the verdict on a running job; return whether its run must end."""
    database = run.context.session.database
    if verdict.changes:
        return await database.run(
            runs.retry_with_more(
                run_id=run.run_id,
                token=run.token,
                changes=verdict.changes,
                reason=verdict.reason,
                code=verdict.code,
                subcode=verdict.subcode,
            ),
            timeout_s=timeout_s,
        )
    cluster, proc = map(int, run.job.split("."))
    return await database.run(
        maintenance.apply_policy(
            cluster=cluster,
            proc=proc,
            status=JobStatus.RUNNING,
            action=verdict.action,
            reason=verdict.reason,
            code=verdict.code,
            subcode=verdict.subcode,
            run_id=run.run_id,
        ),
        timeout_s=timeout_s,
    )
