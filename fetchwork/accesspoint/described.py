"""A child's answers to a submission, kept in a file until the jobs go into the queue: a line per answer."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import IO

from fetchwork.errors import SubmitError
from fetchwork.ipc.frames import Json
from fetchwork.queue.submitting import contents

#: most jobs of a submission that one call puts into the queue, if it has nothing but jobs
FEW = 20
#: the attributes that name an event log of a job, in lower case
_LOGS = (b'"userlog"', b'"dagmannodeslog"')


@dataclass(frozen=True, slots=True)
class Described:
    """A summary of a child's answers to a submission."""

    #: whether a job may have an event log; otherwise nothing has to be looked up afterwards
    has_logs: bool
    #: whether they are a few jobs without files and secrets
    is_few: bool


async def keep(answers: AsyncGenerator[Json, None], kept: IO[bytes]) -> Described:
    """Write a child's answers to a file, a line each; no transaction is open yet, as a child may be slow."""
    jobs = 0
    has_logs = False
    parts = 0
    async with contextlib.aclosing(answers):
        async for answer in answers:
            if "end" not in answer:
                line = json.dumps(answer).encode()
                kept.write(line + b"\n")
                jobs += len(answer.get("own", ()))
                parts += answer.keys().isdisjoint(("common", "job_bytes"))
                has_logs = has_logs or _names_log(line)
    if not jobs:
        raise SubmitError("nothing to submit: no jobs; allowed: one or more")
    return Described(has_logs, is_few=parts == 1 and jobs <= FEW)


def _names_log(line: bytes) -> bool:
    # attribute names keep the case of the description
    lower = line.lower()
    return any(name in lower for name in _LOGS)


class Files:
    """The contents of input files in a child's answers."""

    def __init__(self, kept: IO[bytes]) -> None:
        self.contents: dict[str, contents.Content] = {}
        self.job_bytes = 0
        kept.seek(0)
        for line in kept:
            # most lines are jobs, and long: don't parse them
            if line.startswith(b'{"content"'):
                path, size, sha256, chunks = json.loads(line)["content"]
                hashes = tuple(map(bytes.fromhex, chunks))
                self.contents[path] = contents.Content(path, size, sha256, hashes)
            elif line.startswith(b'{"job_bytes"'):
                self.job_bytes = json.loads(line)["job_bytes"]
