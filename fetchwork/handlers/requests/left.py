"""JOB_EXIT of a job whose few small files come with the request: the compiled hook's ``job_left``.

``fetchwork.sandbox.inline`` says what is plain enough for that. Where there is more to the end than the
job's own exit, or the database is away, the answer is an error: the hook then becomes the one in Python,
which parks everything first. What was done by then is done again, with the same result.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace

from fetchwork.db.calls import files
from fetchwork.errors import DatabaseUnavailable
from fetchwork.handlers.context import Answer, Task
from fetchwork.handlers.requests.finish import job_exit
from fetchwork.handlers.runad import read_starter_ad, run_key
from fetchwork.hook.wire import Request
from fetchwork.sandbox import inline


async def job_left(task: Task) -> Answer:
    """JOB_EXIT of a job that has left a few small files: they and its end, or neither."""
    began = time.monotonic()
    whole = task.request
    ends = len(whole.body) - whole.files
    request = Request("job_exit", whole.body[:ends], keyword=whole.keyword, arg=whole.arg, slot=whole.slot)
    left = inline.decode_outputs(whole.body[ends:])
    key = run_key(read_starter_ad(request.body))
    run = await task.own_run(key)
    if (
        task.files is None
        or run is None
        or whole.arg != "exit"
        or run.end_asked
        or run.ended_by_us is not None
        or run.delivering
        or run.saving
    ):
        raise DatabaseUnavailable("the files of this job are to be parked")
    # the watch of the starter must not take the run for lost meanwhile
    run.exiting += 1
    try:
        manifest = [
            {"name": name, "mode": mode, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, mode, data in left
        ]
        if manifest:
            call = files.leave_outputs(
                run_id=key.run_id,
                token=key.token,
                manifest=manifest,
                datas=[data for _, _, data in left],
                seconds=time.monotonic() - began,
            )
            if await task.files.carry(task, call) == "late":
                raise DatabaseUnavailable("the run is over, or is being ended")
        return await job_exit(replace(task, request=request))
    finally:
        run.exiting -= 1
        run.changed.set()
