"""Hooks' requests about the files of a job with a sandbox: plans, contents, and their results.

The agent's ``HostFiles`` moves the contents themselves.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping

from fetchwork.db.calls import files as file_calls
from fetchwork.db.calls import runs
from fetchwork.db.calls.call import JsonObject
from fetchwork.errors import ClassAdError, DatabaseUnavailable, FetchworkError, NotFound, one_line
from fetchwork.handlers.context import Answer, HostFiles, Subject, Task
from fetchwork.handlers.host.starterlog import fault_of
from fetchwork.handlers.runad import RunKey, parked, read_starter_ad, run_key, unused_checkpoint
from fetchwork.hook.wire import Reply
from fetchwork.sandbox import inline
from fetchwork.sandbox.failure import OF_THE_HOST
from fetchwork.sandbox.offered import executable_travels

#: seconds for a call
DATABASE_S = 8.0
#: attributes about the transfer that hooks must not see: keys to object storage
_NOT_FOR_HOOKS = frozenset(("ec2accesskeyid", "ec2secretaccesskey", "awsregion"))


async def input_plan(task: Task) -> Answer:
    """Answer PREPARE_JOB's request for the list of input files and their sources."""
    key, subject, files = await _asked(task)
    session = task.context.session
    plan = await session.database.run(
        file_calls.run_files(run_id=key.run_id, token=key.token), timeout_s=task.left(DATABASE_S)
    )
    if plan is None:
        raise NotFound(f"run {key.run_id} is over")
    await note(task, key, "input")
    files.expect(task, key, plan)
    has_urls = any(file["source"] == "url" for file in plan.files) or inline.has_urls(plan.ad)
    body = {
        "ad": for_hooks(plan.ad),
        "files": list(_in_order(plan.files)),
        "executable": executable_travels(plan.ad),
        "plugins": await files.plugins() if has_urls else {},
        "plugin_limit_s": files.plugin_limit_s,
        # true: s3:// and gs:// URLs are presigned; false: plugins serve these schemes
        "has_key": bool(plan.ad.get("EC2AccessKeyId")),
    }
    return subject.answer("files", Reply(json.dumps(body).encode()), files=len(plan.files))


def for_hooks(ad: JsonObject) -> JsonObject:
    """Return the attributes of a job's ad that hooks may see."""
    return {name: value for name, value in ad.items() if name.lower() not in _NOT_FOR_HOOKS}


def _in_order(files: list[JsonObject]) -> list[JsonObject]:
    """Files in the order of writing: inputs, then an earlier run's outputs; directories first, URLs last."""
    rank = {"directory": 0, "content": 1, "shared": 1, "url": 2}
    return sorted(files, key=lambda file: (file["direction"] == "spool", rank.get(file["source"], 1)))


async def read_input(task: Task) -> Answer:
    """Answer PREPARE_JOB's request for a chunk of a content."""
    key, subject, files = await _asked(task)
    content_id, number = _numbers(task.request.arg, 2)
    data = await files.chunk(task, key, int(content_id), int(number))
    return subject.answer("chunk", Reply(data))


async def input_done(task: Task) -> Answer:
    """Note that PREPARE_JOB has all inputs: their bytes, and the seconds of the transfer."""
    key, subject, _ = await _asked(task)
    size, seconds = _numbers(task.request.arg, 2)
    await note(task, key, None, "input", int(size), seconds)
    unused = unused_checkpoint(read_starter_ad(task.request.body))
    more = {} if unused is None else {"checkpoint_not_used": unused}
    return subject.answer("filled", None, bytes=int(size), seconds=seconds, **more)


async def input_failed(task: Task) -> Answer:
    """Hold a job whose input PREPARE_JOB could not get, or retry it if this host is at fault."""
    key, subject, _ = await _asked(task)
    code, _, rest = task.request.arg.partition(" ")
    subcode, _, reason = rest.partition(" ")
    if code not in ("6", "13", "32") or not subcode.lstrip("-").isdecimal() or len(subcode) > 9:
        raise ClassAdError("argument is not a hold code, a subcode and a reason")
    session = task.context.session
    # code 6 is an error that the starter would now fail with, for which HTCondor may have a better code
    fault = fault_of(reason) if code == "6" else None
    await session.database.run(
        runs.fail_inputs(
            run_id=key.run_id,
            token=key.token,
            reason=one_line(reason) or "Transfer input files failure",
            code=fault.code if fault and fault.code is not None else int(code),
            subcode=fault.subcode if fault and fault.code is not None else int(subcode),
        ),
        timeout_s=task.left(DATABASE_S),
    )
    task.runs.ended(session, key.run_id)
    tried_again = int(subcode) <= OF_THE_HOST
    return subject.answer("could_not_start" if tried_again else "held", None, reason=reason)


async def output_plan(task: Task) -> Answer:
    """Tell JOB_EXIT whether the job ended by itself or on request, and whether its outputs may be staged.

    With the argument "now" the database checks that the run still exists: JOB_EXIT asks so before it writes
    to a place where another run of the job may write, too.
    """
    key, subject, files = await _asked(task)
    session = task.context.session
    run = task.runs.get(session, key.run_id)
    full = files.full(task.caller.uid)
    more = b"" if full is None else f"full {one_line(full)}\n".encode()
    asks_now = task.request.arg == "now"
    if run is not None and run.state not in ("end_asked", "killed") and not asks_now:
        return subject.answer("noted", Reply(more))
    rows = await session.host_runs(task.left(DATABASE_S))
    row = next((row for row in rows if row.run_id == key.run_id), None)
    if row is None or row.end_requested == "remove":
        return subject.answer("noted", Reply(b"unwanted\n"))
    return subject.answer("noted", Reply((b"vacated\n" if row.end_requested is not None else b"") + more))


async def output_url(task: Task) -> Answer:
    """Return a presigned URL with which JOB_EXIT may PUT an output: the key stays in the database."""
    key, subject, _ = await _asked(task)
    try:
        url = json.loads(task.request.arg)
    except ValueError:
        url = None
    if not isinstance(url, str):
        raise ClassAdError("argument is not a URL in JSON form")
    signed = await task.context.session.database.run(
        file_calls.output_url(run_id=key.run_id, token=key.token, url=url), timeout_s=task.left(DATABASE_S)
    )
    if signed is None:
        raise NotFound(f"run {key.run_id} is over")
    return subject.answer("signed", Reply(signed.encode()), url=url)


async def save_checkpoint(task: Task) -> Answer:
    """Tell a job that saves checkpoints whether the staged checkpoint is kept, before the job goes on."""
    _, subject, files = await _asked(task)
    directory = parked(read_starter_ad(task.request.body))
    if directory is None:
        raise ClassAdError("the ad names no directory")
    became = await files.saved(task, directory)
    return subject.answer("saving", Reply(f"{became}\n".encode()), state=became)


FILE_HANDLERS: Mapping[str, Callable[[Task], Awaitable[Answer]]] = {
    "input_plan": input_plan,
    "read_input": read_input,
    "input_done": input_done,
    "input_failed": input_failed,
    "output_plan": output_plan,
    "output_url": output_url,
    "save_checkpoint": save_checkpoint,
}


async def _asked(task: Task) -> tuple[RunKey, Subject, HostFiles]:
    """Return the run of a request about files; raises Denied if it is another account's."""
    key = run_key(read_starter_ad(task.request.body))
    run = await task.own_run(key)
    if task.files is None:
        raise DatabaseUnavailable("no agent: files travel by one only")
    return key, Subject(task.request.slot, key.run_id, run.job if run is not None else None), task.files


async def note(
    task: Task,
    key: RunKey,
    phase: str | None,
    direction: str | None = None,
    size: int | None = None,
    seconds: float | None = None,
) -> None:
    """Show people that files are being transferred; nothing depends on it."""
    with contextlib.suppress(FetchworkError):
        await task.context.session.database.run(
            file_calls.note_transfer(
                run_id=key.run_id,
                token=key.token,
                phase=phase,
                direction=direction,
                bytes=size,
                seconds=seconds,
            ),
            timeout_s=task.left(DATABASE_S),
        )


def _numbers(text: str, count: int) -> list[float]:
    words = text.split(" ")
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(0 <= number < 2**53 for number in numbers):
        raise ClassAdError(f"argument '{one_line(text, 40)}' is not {count} numbers")
    return numbers
