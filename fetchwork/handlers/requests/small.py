"""The inputs of a job within PREPARE_JOB's answer, if they are few and small.

``fetchwork.sandbox.inline`` has the limits for that. Beyond them the answer has no inputs, and the job is not
started: the compiled hook then executes the hook in Python, which asks for each file.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from fetchwork.db.calls import files as file_calls
from fetchwork.db.calls.files import CHUNK_BYTES
from fetchwork.errors import DatabaseUnavailable
from fetchwork.handlers.context import HostFiles, Task
from fetchwork.handlers.requests.files import DATABASE_S, for_hooks, note
from fetchwork.handlers.runad import RunKey
from fetchwork.hook.wire import Reply
from fetchwork.sandbox import checkpoint, inline
from fetchwork.sandbox.offered import MARK, executable_travels

#: seconds for all inputs of a job: the hook needs time left to ask file by file, which may take minutes
FILES_S = 5.0
_MARK = f"\n{MARK} = true".encode()


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a job as a section of the answer, their bytes, and the seconds of the transfer."""

    section: bytes
    size: int
    seconds: float

    def with_answer(self, body: bytes) -> Reply:
        """Return the reply that prints ``body`` and has the inputs."""
        return Reply(body + self.section, files=len(self.section))

    async def note(self, task: Task, key: RunKey) -> None:
        """Show people the size and time of the transfer."""
        await note(task, key, None, "input", self.size, self.seconds)


def are_asked_for(task: Task) -> bool:
    """Whether the hook accepts the inputs of a job with a sandbox within the answer."""
    return task.request.inline > 0 and _MARK in b"\n" + task.request.body


async def inputs(task: Task, key: RunKey) -> Inputs | None:
    """Return the inputs of the job that starts; None if the hook has to ask for each file."""
    most = min(task.request.inline, inline.MAX_INPUT)
    if task.files is None:
        return None
    began = time.monotonic()
    plan = await task.context.session.database.run(
        file_calls.run_files(run_id=key.run_id, token=key.token), timeout_s=task.left(DATABASE_S)
    )
    if plan is None or not _is_small(plan, most):
        return None
    quick = replace(task, end=min(task.end, began + FILES_S))
    try:
        section = await _section(quick, task.files, key, plan)
    except DatabaseUnavailable:
        return None
    if section is None:
        return None
    return Inputs(section, sum(file["size"] for file in plan.files), time.monotonic() - began)


async def _section(task: Task, host: HostFiles, key: RunKey, plan: file_calls.RunFiles) -> bytes | None:
    host.expect(task, key, plan)
    files = []
    for file in plan.files:
        data = await host.chunk(task, key, file["content_id"], 0) if file["size"] else b""
        files.append((file["name"], file["mode"], data))
    executable = executable_travels(plan.ad)
    return inline.encode_inputs(for_hooks(plan.ad), host.plugin_limit_s, files, executable=executable)


def _is_small(plan: file_calls.RunFiles, most: int) -> bool:
    return (
        len(plan.files) <= inline.MAX_FILES
        and sum(file["size"] for file in plan.files) <= most
        and not checkpoint.wanted(plan.ad)
        and not inline.has_urls(plan.ad)
        and plan.ad.get("MaxTransferInputMB") is None
        and all(
            file["source"] == "content"
            and file["direction"] == "input"
            and file["size"] <= CHUNK_BYTES
            and inline.is_plain(file["name"])
            for file in plan.files
        )
    )
