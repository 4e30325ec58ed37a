"""UPDATE_JOB_INFO: a run lives. Its usage is recorded, and the answer ends a job that must not go on.

The hook runs as the job's user, so it may send the job a signal, which the agent may not. A job that was
removed, held or vacated gets its own signal first and SIGKILL after JobMaxVacateTime (at once if
WantGracefulRemoval says so). A job that its run no longer owns gets SIGKILL at once, because it may run
elsewhere by now. If a run's host can't reach the database for longer than its lease, its job gets SIGKILL,
too, without a request.
"""

from __future__ import annotations

import dataclasses
import signal

from fetchwork.db.calls import maintenance, runs
from fetchwork.errors import DatabaseUnavailable, NotFound, WrongToken
from fetchwork.handlers.context import Answer, OtherToken, Subject, Task, UpdateOutcome
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.handlers.runad import Report, RunKey, job_pid, read_starter_ad, report, run_key
from fetchwork.handlers.starterad import StarterAd
from fetchwork.hook.wire import Reply
from fetchwork.matchmaker.messages import Job

#: seconds for a call; short, since the starter starts further updates while earlier ones wait
DATABASE_S = 5.0

# outcomes of an update, by the action that the database requests
_OUTCOMES: dict[str | None, UpdateOutcome] = {None: "alive", "late": "late", "end": "end"}


async def update_job_info(task: Task) -> Answer:
    """Record the update, evaluate the periodic policy, and answer whether the job has to end."""
    ad = read_starter_ad(task.request.body)
    key = run_key(ad)
    session = task.context.session
    update = report(ad)
    pid = job_pid(update)
    try:
        run = await task.own_run(key)
    except OtherToken as error:
        # the job belongs to the caller, but may run elsewhere: the database gave the number out again
        return _end_at_once(Subject(task.request.slot, key.run_id), "gone", None, pid, str(error))
    subject = Subject(task.request.slot, key.run_id, run.job if run is not None else None)
    if run is not None and pid:
        task.runs.reported(run, pid)
    policy_action = None
    try:
        beat = await _heartbeat(task, key, update)
    except (NotFound, WrongToken) as error:
        # the database was restored from before the claim; the number may be another run's by now
        beat = runs.Beat("gone", str(error))
    except DatabaseUnavailable:
        if not (session.cut_off and pid):
            raise
        reason = f"host was cut off from database '{session.name}' for longer than its lease"
        return _end_at_once(subject, "fenced", run, pid, reason)
    if beat.action is None and _has_policy(run, ad) and "JobState" in update:
        policy_action = await _apply_policy(task, key, update)
        if policy_action is not None:
            beat = await _heartbeat(task, key, update)
    details: dict[str, object] = {"policy": policy_action} if policy_action is not None else {}
    if beat.action == "gone":
        # the run counts as one of this host until its starter has ended
        return _end_at_once(subject, "gone", run, pid, beat.reason, **details)
    if beat.action == "end" and run is not None:
        run.become("end_asked")
    if beat.action == "end" and pid:
        number, kill_in_s = _signal_to_send(beat)
        reply = Reply(signal=number, pid=pid)
        answer = subject.answer("end", reply, signal=number, reason=beat.reason, **details)
        return dataclasses.replace(answer, kill_in_s=kill_in_s)
    return subject.answer(_OUTCOMES[beat.action], None, **details)


async def _heartbeat(task: Task, key: RunKey, update: Report) -> runs.Beat:
    return await task.context.session.reports.update(
        run_id=key.run_id, token=key.token, report=update, timeout_s=task.left(DATABASE_S)
    )


def _has_policy(run: LiveRun | None, ad: StarterAd) -> bool:
    return run.has_policy if run is not None else ad.get("FetchWorkHasPolicy") is True


async def _apply_policy(task: Task, key: RunKey, update: Report) -> str | None:
    """Evaluate the job's periodic policy; return the action that was taken, or None."""
    database = task.context.session.database
    job_ad = await database.run(
        runs.run_policy(run_id=key.run_id, token=key.token), timeout_s=task.left(DATABASE_S)
    )
    if job_ad is None:
        return None
    (judgement,) = await task.context.session.matchmaker.judge([Job(job_ad, update)])
    verdict = judgement.verdict or judgement.hold()
    if verdict is None:
        return None
    done = await database.run(
        maintenance.apply_policy(
            cluster=job_ad["ClusterId"],
            proc=job_ad["ProcId"],
            status=job_ad["JobStatus"],
            action=verdict.action,
            reason=verdict.reason,
            code=verdict.code,
            subcode=verdict.subcode,
            run_id=key.run_id,
        ),
        timeout_s=task.left(DATABASE_S),
    )
    return verdict.action if done else None


def _end_at_once(
    subject: Subject,
    outcome: UpdateOutcome,
    run: LiveRun | None,
    pid: int,
    reason: str | None,
    **details: object,
) -> Answer:
    if run is not None and pid:
        run.become("killed", reason)
    reply = Reply(signal=signal.SIGKILL, pid=pid) if pid else Reply()
    return subject.answer(outcome, reply, reason=reason, **details)


def _signal_to_send(beat: runs.Beat) -> tuple[int, float]:
    """Return the job's own signal, or SIGKILL after its time to vacate; and the seconds left of that time."""
    left = (beat.max_vacate_s or 0.0) - (beat.signalled_s or 0.0)
    if left <= 0:
        return int(signal.SIGKILL), 0.0
    return signal_number(beat.kill_sig), left


def signal_number(text: str | None) -> int:
    """The number of a KillSig ("SIGUSR1", "USR1", "10"); SIGTERM for any other text."""
    name = (text or "").strip().upper()
    if name.isascii() and name.isdigit():
        return int(name) if 1 <= int(name) <= 64 else int(signal.SIGTERM)
    return int(getattr(signal.Signals, name if name.startswith("SIG") else f"SIG{name}", signal.SIGTERM))
