"""The end of a job that uses more than its run may, once it is written down what becomes of it."""

from __future__ import annotations

import logging
import signal

from fetchwork.agent.rights import Rights
from fetchwork.handlers.retrying import Settled
from fetchwork.handlers.runs import LiveRun
from fetchwork.log import event
from fetchwork.process import Process

log = logging.getLogger(__name__)

#: seconds for the database's answer
CALL_S = 5.0


async def end(
    run: LiveRun, job: Process, rights: Rights, settled: Settled, name: str, **told: object
) -> None:
    """Kill the job, unless its run ends otherwise already; ``name`` and ``told`` are for the log."""
    problem = None
    if settled.ends:
        try:
            await rights.signal(job, signal.SIGKILL)
        except OSError as error:
            problem = error.strerror
    event(
        log,
        logging.WARNING,
        name,
        person=run.owner,
        run=run.run_id,
        job=run.job,
        **told,
        held=settled.ends and settled.asks_for is None,
        asks_for=settled.asks_for if settled.ends else None,
        problem=problem,
    )
