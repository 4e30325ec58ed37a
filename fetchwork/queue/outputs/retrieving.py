"""Delivers outputs from the database to their destinations: for a caller without an access point."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fetchwork.db.calls import files as file_calls
from fetchwork.db.calls.files import CHUNK_BYTES, PART_BYTES, JobOutputs
from fetchwork.db.database import Database
from fetchwork.errors import BucketRefused, BucketUnavailable, FetchworkError, NotFound
from fetchwork.queue.outputs.bringing import bring
from fetchwork.queue.outputs.destinations import TransferFailed
from fetchwork.queue.reading.views import Json
from fetchwork.queue.submitting.contents import Progress, ahead
from fetchwork.sandbox import objects

__all__ = ["Told", "acting_for", "bring_outputs", "part_of_output", "report", "retrieve"]

#: jobs that are asked for at once
_PAGE = 100


def retrieve(
    database: Database, jobs: Sequence[str] | None, *, progress: Progress | None = None
) -> Iterator[Json]:
    """Deliver the outputs of jobs, and acknowledge them; yields a report for each job (``report``).

    ``jobs`` are ids, "42.0" or "42"; None: all jobs. Repeating an interrupted or finished call gives the same
    result. Root writes each job's files as the job's owner. If a bucket does not answer, its outputs stay
    there, and do not delay other jobs.
    """
    after = (-1, -1)
    progress_report = Told(progress)
    away = Away()
    while True:
        page = database.run(
            file_calls.job_outputs(jobs=jobs, after_cluster=after[0], after_proc=after[1], most_jobs=_PAGE)
        )
        progress_report.more(sum(file["size"] for left in page for file in left.files))
        for left in page:
            problem: FetchworkError | None = None
            brought = 0
            try:
                with acting_for(left.owner):
                    brought = bring_outputs(database, left, progress_report.moved, away)
                database.run(
                    file_calls.drop_outputs(cluster=left.cluster_id, proc=left.proc_id, run_id=left.run_id)
                )
            except (TransferFailed, BucketUnavailable) as error:
                problem = error
            yield report(left, brought, problem)
            after = (left.cluster_id, left.proc_id)
        if len(page) < _PAGE:
            return


def report(outputs: JobOutputs, brought: int, problem: FetchworkError | None) -> Json:
    """The result for a job's outputs: the numbers of files and bytes, or the problem (``errno``)."""
    return {
        "job": f"{outputs.cluster_id}.{outputs.proc_id}",
        "files": 0 if problem else len(outputs.files),
        "bytes": brought,
        "problem": None if problem is None else str(problem),
        "errno": getattr(problem, "errno", 0),
    }


class Away:
    """The servers of buckets that did not answer: each costs STALL_S, so no server is asked twice."""

    def __init__(self) -> None:
        self._problems: dict[str, str] = {}

    def part(self, url: str, first: int, size: int) -> bytes:
        """Bytes of an object, as ``part_of_output`` gets them."""
        host = objects.host_of(url)
        if host in self._problems:
            raise BucketUnavailable(self._problems[host])
        try:
            return part_of_output(url, first, size)
        except BucketRefused:
            raise
        except BucketUnavailable as error:
            self._problems[host] = str(error)
            raise


def bring_outputs(
    database: Database,
    outputs: JobOutputs,
    on_progress: Callable[[int], None] = lambda size: None,
    away: Away | None = None,
) -> int:
    """Deliver a job's outputs to their destinations; the number of bytes.

    Raises TransferFailed and BucketUnavailable; a server that is in ``away`` is not asked.
    """
    servers = away or Away()
    files = {file["content_id"]: file for file in outputs.files if file["source"] == "content"}
    steps = bring(dict(outputs.ad), outputs.run_id, outputs.files)
    data: bytes | None = None
    # closing the steps releases their locks; an error with a traceback could keep the steps alive
    with contextlib.closing(steps), contextlib.ExitStack() as stack:
        while True:
            try:
                want = steps.send(data)
            except StopIteration as end:
                return int(end.value)
            if want.n == 0:
                # the chunks of a file are asked for in their order
                stack.close()
                chunks = stack.enter_context(
                    contextlib.closing(ahead(_chunks(database, files[want.content_id], servers)))
                )
            data = next(chunks)
            on_progress(len(data or b""))


def _chunks(database: Database, file: Mapping[str, Any], away: Away) -> Iterator[bytes | None]:
    for n in range(-(-file["size"] // CHUNK_BYTES)):
        if not file.get("in_bucket"):
            yield database.carry(file_calls.read_chunk(content_id=file["content_id"], n=n))
            continue
        part, at = divmod(n * CHUNK_BYTES, PART_BYTES)
        url = database.run(file_calls.content_url(method="GET", content_id=file["content_id"], n=part))
        size = min(CHUNK_BYTES, file["size"] - n * CHUNK_BYTES)
        yield None if url is None else away.part(url, at, size)


def part_of_output(url: str, first: int, size: int) -> bytes:
    """Bytes of an object (``objects.get``); raises TransferFailed if it is missing, BucketUnavailable."""
    try:
        return objects.get(url, first, size)
    except NotFound as error:
        raise TransferFailed(str(error), errno.ENOENT) from None


class Told:
    """Reports to ``progress``, if it is given, the delivered bytes and the total."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._moved = self._total = 0

    def more(self, total: int) -> None:
        """Add to the total bytes."""
        self._total += total

    def moved(self, size: int) -> None:
        """Add to the delivered bytes, and report."""
        self._moved += size
        if self._progress is not None:
            self._progress(self._moved, self._total)


@contextlib.contextmanager
def acting_for(owner: str) -> Iterator[None]:
    """With the owner's rights on files if root calls: root must not follow names and paths of others."""
    if os.geteuid() != 0:
        yield
        return
    try:
        account = pwd.getpwnam(owner)
    except KeyError:
        raise TransferFailed(f"no account '{owner}' on this machine") from None
    if account.pw_uid == 0:
        raise TransferFailed(f"'{owner}' is root, whose files no job may write")
    groups, group = os.getgroups(), os.getegid()
    try:
        os.setgroups(os.getgrouplist(account.pw_name, account.pw_gid))
        os.setegid(account.pw_gid)
        os.seteuid(account.pw_uid)
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)
