"""UPDATE_JOB_INFO: a run lives. What it uses is written, and the answer ends a job that must not go on.

The hook runs as the job's user, so it can do what the agent may not: send the job a signal. A job that was
removed, held or vacated gets its own signal first and SIGKILL after JobMaxVacateTime; a job whose run is not
its own any more gets SIGKILL at once, because it may run elsewhere by now. So does, unasked, the job of a run
whose host can't reach the database for longer than its lease.
"""

from __future__ import annotations

import signal
from typing import Any

from fetchwork.classad.ads import parse_old
from fetchwork.classad.values import ClassAd
from fetchwork.errors import DatabaseUnavailable, NotFound
from fetchwork.handlers import policy
from fetchwork.handlers.context import Answer, LiveRun, Task
from fetchwork.handlers.runad import RunKey, report, run_key
from fetchwork.hook.wire import Reply

#: seconds for a call: the starter starts one update after the other, however many wait
DATABASE_S = 5.0
#: HTCondor's own bound on JobMaxVacateTime (MachineMaxVacateTime)
MAX_VACATE_S = 600.0


async def update_job_info(task: Task) -> Answer:
    """Write the update down, evaluate what is periodic, and say whether the job has to end."""
    ad = parse_old(task.request.body)
    key = run_key(ad)
    session = task.context.session
    run = task.run(key.run_id)
    told = report(ad)
    pid = told.get("JobPid", 0)
    fields: dict[str, Any] = {"slot": task.request.slot, "run": key.run_id}
    if run is not None:
        fields["job"] = run.job
        if pid:
            task.runs.reported(run, pid)
    try:
        row = await _heartbeat(task, key, told)
    except NotFound as error:
        # a database that was restored from before the claim
        row = {"action": "gone", "reason": str(error)}
    except DatabaseUnavailable:
        if not (session.cut_off and pid):
            raise
        reason = f"host was cut off from database '{session.name}' for longer than its lease"
        return _end_at_once(run, pid, reason, {**fields, "outcome": "fenced"})
    if row["action"] is None and _has_policy(run, ad) and "JobState" in told:
        verdict = await _apply_policy(task, key, told)
        if verdict is not None:
            fields["policy"] = verdict
            row = await _heartbeat(task, key, told)
    if row["action"] == "gone":
        task.runs.ended(session, key.run_id)
        return _end_at_once(run, pid, row["reason"], {**fields, "outcome": "gone"})
    if row["action"] == "end" and pid:
        number = _signal_to_send(row)
        return Answer(
            Reply(signal=number, pid=pid),
            {**fields, "outcome": "end", "signal": number, "reason": row["reason"]},
        )
    return Answer(Reply(), {**fields, "outcome": row["action"] or "alive"})


async def _heartbeat(task: Task, key: RunKey, told: dict[str, Any]) -> dict[str, Any]:
    rows = await task.context.session.database.call(
        "heartbeat", timeout_s=task.left(DATABASE_S), run_id=key.run_id, token=key.token, report=told
    )
    return rows[0]


def _has_policy(run: LiveRun | None, ad: ClassAd) -> bool:
    return run.has_policy if run is not None else ad.get("FetchWorkHasPolicy") is True


async def _apply_policy(task: Task, key: RunKey, told: dict[str, Any]) -> str | None:
    """Evaluate the job's periodic policy; the action taken, if any."""
    database = task.context.session.database
    whole = await database.scalar(
        "run_policy", timeout_s=task.left(DATABASE_S), run_id=key.run_id, token=key.token
    )
    if whole is None:
        return None
    verdict = policy.periodic(policy.read_ad(whole, told), whole["JobStatus"])
    if verdict is None:
        return None
    done = await database.scalar(
        "apply_policy",
        timeout_s=task.left(DATABASE_S),
        cluster=whole["ClusterId"],
        proc=whole["ProcId"],
        status=whole["JobStatus"],
        action=verdict.action,
        reason=verdict.reason,
        code=verdict.code,
        subcode=verdict.subcode,
    )
    return verdict.action if done else None


def _end_at_once(run: LiveRun | None, pid: int, reason: str | None, fields: dict[str, Any]) -> Answer:
    if run is not None and pid:
        run.ended_by_us = reason
    reply = Reply(signal=signal.SIGKILL, pid=pid) if pid else Reply()
    return Answer(reply, {**fields, "reason": reason})


def _signal_to_send(row: dict[str, Any]) -> int:
    """The job's own signal, until its time to vacate is over."""
    limit = row["max_vacate_s"]
    limit = MAX_VACATE_S if limit is None else min(max(0.0, limit), MAX_VACATE_S)
    if row["signalled_s"] is not None and row["signalled_s"] >= limit:
        return int(signal.SIGKILL)
    return signal_number(row["kill_sig"])


def signal_number(text: str | None) -> int:
    """The number of a KillSig ("SIGUSR1", "USR1", "10"); SIGTERM for what is none."""
    name = (text or "").strip().upper()
    if name.isascii() and name.isdigit():
        return int(name) if 1 <= int(name) <= 64 else int(signal.SIGTERM)
    found = getattr(signal.Signals, name if name.startswith("SIG") else f"SIG{name}", signal.SIGTERM)
    return int(found)
