"""Reports the ends of runs whose starter calls no JOB_EXIT (``fetchwork.handlers.starterend`` says which).

The starter's record is handled as if a JOB_EXIT had brought it: the same policy, the same spool while the
database is away, the same answers to late or repeated reports. The file stays until that is done, so an agent
that starts after the end finds it, and an end that can't even be spooled is reported later. If the file does
not say how the job ended, the starter was killed, and the run is given up like any other run whose report
will not come.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable

from fetchwork import handlers
from fetchwork.handlers.context import Answer, Caller, Task
from fetchwork.handlers.host.runs import LiveRun, Runs
from fetchwork.handlers.starterend import read_end
from fetchwork.hook.wire import Request
from fetchwork.log import event
from fetchwork.process import Process

log = logging.getLogger(__name__)

#: seconds for a report, as for a JOB_EXIT
END_S = 10.0


class Ends:
    """The ends of runs without a JOB_EXIT; ``keep`` spools a report that the database can't take now."""

    def __init__(self, runs: Runs, keep: Callable[[Request], Awaitable[None]] | None) -> None:
        self._runs = runs
        self._keep = keep

    async def tell(self, run: LiveRun, starter: Process) -> Answer | None:
        """Report the end of a run whose starter is gone; None if the starter's file does not tell the end.

        The answer is "unavailable" if neither the database nor the spool could take the report.
        """
        now = time.monotonic()
        again = run.gone_at is not None
        if run.gone_at is None:
            run.gone_at = now
        logs = run.context.starter_logs
        written = await logs.written(run.run_id, run.token, tells_end=True)
        job = run.job_process
        pid = job.pid if job is not None else run.recorded_pid
        end = read_end(written, pid) if written is not None else None
        if end is None or run.ended:
            return None
        ad: dict[str, object] = {
            "FetchWorkRunId": run.run_id,
            "FetchWorkToken": f'"{run.token}"',
            "FetchWorkHasPolicy": "true" if run.has_policy else "false",
        }
        if end.report and run.started_at is not None:
            ad["JobDuration"] = f"{max(0.0, run.gone_at - run.started_at):.6f}"
            ad["JobStartDate"] = int(time.time() - max(0.0, now - run.started_at))
        if end.report and run.memory_used_mib:
            ad["MemoryUsage"] = int(run.memory_used_mib) + 1
        elif end.report:
            # usage was never read: the job took less than a second, unless the starter says more
            ad |= dict.fromkeys(("RemoteUserCpu", "RemoteSysCpu"), "0.0")
        ad |= {name: f'"{text}"' if _is_text(text) else text for name, text in end.report.items()}
        body = "".join(f"{name} = {value}\n" for name, value in ad.items())
        answer = await self._handle(run, starter, end.reason, body)
        level = logging.WARNING if answer.reply.code else logging.INFO
        if again and answer.reply.code == "unavailable":
            level = logging.DEBUG
        event(
            log,
            level,
            "starter_ended_job",
            person=run.owner if answer.reply.code else None,
            **answer.log_fields(),
        )
        return answer

    async def _handle(self, run: LiveRun, starter: Process, reason: str, body: str) -> Answer:
        task = Task(
            Request("job_exit", body.encode(), keyword=run.context.keyword, arg=reason, slot=run.slot),
            Caller(os.geteuid(), trusted=True, starter=starter),
            run.context,
            self._runs,
            time.monotonic() + END_S,
            spool=self._keep,
        )
        return await handlers.handle(task)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value not in ("true", "false")
