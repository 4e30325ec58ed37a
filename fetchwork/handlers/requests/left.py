"""JOB_EXIT of a job whose few small files come with the request: the compiled hook's ``job_left``.

``fetchwork.sandbox.inline`` has the limits for that. If the end is more than the job's own exit, or the
database is unavailable, the answer is an error: the compiled hook then executes the hook in Python, which
first stages everything. The hook in Python repeats steps that were done, with the same result.
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
    """Record the small files and the end of a job: both or neither."""
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
        or run.state in ("end_asked", "killed")
        or run.uploading
    ):
        raise DatabaseUnavailable("the files of this job are to be parked")
    with run.reporting():
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
