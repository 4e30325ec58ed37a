"""Calls about the files of jobs: uploads by submitters, and downloads and uploads by agents for runs.

Contents travel in chunks of ``CHUNK_BYTES``, numbered from 0; the last one may be shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from fetchwork.db.calls.call import (
    Call,
    JsonObject,
    Record,
    done,
    first_of,
    given,
    jsonb,
    proof,
    records_of,
    value_of,
)

#: must equal the SQL function chunk_bytes
CHUNK_BYTES = 1024 * 1024
#: must equal the SQL function part_bytes: bytes of one object of a content in a bucket
PART_BYTES = 8 * CHUNK_BYTES


@dataclass(frozen=True, slots=True)
class RunFiles(Record):
    """The files that a run's job needs on its host, and the job's ad."""

    owner: str
    ad: JsonObject
    #: each with direction, name, mode, size, source ('content', 'url', 'shared', 'directory'), and, if it has
    #: them, content_id, sha256, path, url
    files: list[JsonObject]


@dataclass(frozen=True, slots=True)
class BegunContent(Record):
    """A content that a submitter or a run uploads, and the numbers of its stored chunks."""

    content_id: int
    #: the content was stored before; a submitter's has no chunks then
    complete: bool
    chunks: list[int]
    #: of a content whose bytes are in a bucket: ``chunks`` are the numbers of its parts
    part_bytes: int | None


@dataclass(frozen=True, slots=True)
class LeftCheckpoint(Record):
    """A checkpoint that is stored at URLs and that no run needs any more."""

    cluster_id: int
    proc_id: int
    #: the common beginning of the URLs of its files; ``names`` are their ends
    base: str
    owner: str
    names: list[str]


@dataclass(frozen=True, slots=True)
class JobOutputs(Record):
    """The outputs of a job that were uploaded but not delivered yet."""

    cluster_id: int
    proc_id: int
    run_id: int
    owner: str
    #: the attributes of the job's ad that are about files
    ad: JsonObject
    #: like ``RunFiles.files``
    files: list[JsonObject]


def run_files(*, run_id: int, token: str | UUID) -> Call[RunFiles | None]:
    """The files to download to the host of a live run; None if the run is over."""
    return first_of(RunFiles, "run_files", given(locals()))


def keep_outputs(
    *,
    run_id: int,
    token: str | UUID,
    manifest: Sequence[JsonObject],
    spool: bool = False,
    checkpoint: int | None = None,
) -> Call[str]:
    """Keep the outputs of a live run, before its finish: 'kept', 'late' if the run is over, 'busy': not now.

    The manifest gives a file name, mode, size and sha256; a directory, whose name ends in "/", name and mode;
    and a file that a plugin uploaded elsewhere name, size and url. ``spool``: keep them for the job's next
    run instead of its submitter; ``checkpoint`` is then the checkpoint's number.
    """
    arguments = {**given(locals()), "manifest": jsonb([dict(one) for one in manifest])}
    return value_of("keep_outputs", arguments)


def leave_outputs(
    *,
    run_id: int,
    token: str | UUID,
    manifest: Sequence[JsonObject],
    datas: Sequence[bytes],
    seconds: float,
) -> Call[str]:
    """Store and keep a live run's outputs, few contents of at most one chunk each: 'kept', or 'late'.

    The manifest is that of ``keep_outputs``; ``seconds`` is the time that the transfer has taken so far.
    """
    arguments = {**given(locals()), "manifest": jsonb([dict(one) for one in manifest])}
    return value_of("leave_outputs", arguments)


def note_transfer(
    *,
    run_id: int,
    token: str | UUID,
    phase: str | None,
    direction: str | None = None,
    bytes: int | None = None,
    seconds: float | None = None,
) -> Call[bool]:
    """Note a transfer of a run's files: ``phase`` is 'input' or 'output', or None once it is over.

    ``direction`` ('input', 'output'), ``bytes`` and ``seconds`` describe a finished transfer. False if the
    run is over, or another transaction has locked its row.
    """
    return value_of("note_transfer", given(locals()))


def _of_run(run_id: int | None, token: str | UUID | None) -> dict[str, object]:
    """The arguments of a call for a run; none for a submitter's."""
    return {} if run_id is None or token is None else {"run_id": run_id, "token": proof(token)}


def put_whole_contents(
    *, owner: str | None, datas: Sequence[bytes], run_id: int | None = None, token: str | UUID | None = None
) -> Call[bool]:
    """Store contents of an owner or a live run, each of at most one chunk, unless they are stored already.

    False if the run is over.
    """
    return value_of("put_whole_contents", {"owner": owner, "datas": list(datas), **_of_run(run_id, token)})


def begin_content(
    *,
    owner: str | None,
    sha256: str,
    size: int,
    run_id: int | None = None,
    token: str | UUID | None = None,
) -> Call[BegunContent | None]:
    """Begin or resume the upload of a content of an owner or a live run; None if the run is over."""
    arguments = {"owner": owner, "sha256": sha256, "size": size, **_of_run(run_id, token)}
    return first_of(BegunContent, "begin_content", arguments)


def put_chunk(
    *,
    content_id: int,
    n: int,
    data: bytes,
    sha256: str | None = None,
    run_id: int | None = None,
    token: str | UUID | None = None,
) -> Call[bool]:
    """Store a chunk, after checking its hash, which only a run may leave out; False if the run is over."""
    arguments = {"content_id": content_id, "n": n, "data": data, "sha256": sha256, **_of_run(run_id, token)}
    return value_of("put_chunk", arguments)


def read_chunk(
    *, content_id: int, n: int, run_id: int | None = None, token: str | UUID | None = None
) -> Call[bytes | None]:
    """A chunk of an output, or with ``run_id`` of a file that a live run's job needs.

    None if it does not exist, for example because it was delivered meanwhile, or if the run is over.
    """
    return value_of("read_chunk", {"content_id": content_id, "n": n, **_of_run(run_id, token)})


def content_url(
    *, method: str, content_id: int, n: int, run_id: int | None = None, token: str | UUID | None = None
) -> Call[str | None]:
    """A URL to GET a part, in a bucket, of a content that ``read_chunk`` would read, or to PUT one.

    None as ``read_chunk``, and for a PUT if the run is over.
    """
    arguments = {"method": method, "content_id": content_id, "n": n, **_of_run(run_id, token)}
    return value_of("content_url", arguments)


def lacking_contents(
    *, owner: str, sha256s: Sequence[str], sizes: Sequence[int], job_bytes: int
) -> Call[list[int]]:
    """The numbers, from 1, of the given contents that are not stored for an owner.

    ``job_bytes`` are the bytes of the job with the most. QueueRefused if there is no room for the contents.
    """
    return value_of("lacking_contents", given(locals()))


def end_content(*, content_id: int) -> Call[bool]:
    """End the upload of a content; False if its chunks do not add up to it: the upload must begin anew."""
    return value_of("end_content", given(locals()))


def add_job_files(*, cluster: int, files: Sequence[JsonObject]) -> Call[None]:
    """Name the files that the jobs of a cluster need, in the transaction that submits the cluster.

    A file has name, mode, size, and sha256 and/or path, or url; with proc it belongs to one job.
    """
    return done("add_job_files", {"cluster": cluster, "files": jsonb([dict(one) for one in files])})


def add_job_key(
    *, cluster: int, access_key_id: str, secret: str, session_token: str | None = None
) -> Call[None]:
    """Keep the key that presigns URLs of a cluster's jobs, in the transaction that submits the cluster."""
    return done("add_job_key", given(locals()))


def output_url(*, run_id: int, token: str | UUID, url: str) -> Call[str | None]:
    """A URL to PUT an output of a live run, presigned for an hour; None if the run is over.

    QueueRefused if the job's ad names no output with this URL, NotFound if the job has no key.
    """
    return value_of("output_url", given(locals()))


def output_clusters() -> Call[list[int]]:
    """The clusters with undelivered outputs, of Owners that the caller may name."""
    return value_of("output_clusters")


def job_outputs(
    *,
    jobs: Sequence[str] | None,
    access_point: str | None = None,
    of_owner: str | None = None,
    after_cluster: int = -1,
    after_proc: int = -1,
    most_jobs: int = 100,
) -> Call[list[JobOutputs]]:
    """The undelivered outputs of jobs, given as "42.0" or "42", or of all jobs.

    ``of_owner`` limits them to one owner, ``access_point`` to jobs that were submitted to this access point.
    """
    return records_of(JobOutputs, "job_outputs", given(locals()))


def awaited_owners(*, access_point: str) -> Call[list[str]]:
    """The owners of ended jobs that wait for this access point to deliver their outputs."""
    return value_of("awaited_owners", given(locals()))


def awaited_outputs(
    *, access_point: str, of_owner: str, after_cluster: int = -1, after_proc: int = -1, most_jobs: int = 100
) -> Call[list[JobOutputs]]:
    """The outputs of one owner's ended jobs that wait for this access point to deliver them."""
    return records_of(JobOutputs, "awaited_outputs", given(locals()))


def drop_outputs(*, cluster: int, proc: int, run_id: int) -> Call[bool]:
    """Acknowledge that this run's outputs are delivered; False if that was done before."""
    return value_of("drop_outputs", given(locals()))


def left_checkpoints(
    *, most_rows: int = 1000, but_for: int = 0, access_point: str | None = None, of_owner: str | None = None
) -> Call[list[LeftCheckpoint]]:
    """The caller's checkpoints at a destination that no run needs, oldest first, without ``but_for`` of them.

    ``access_point`` limits them to jobs of ``of_owner`` that were submitted there.
    """
    return records_of(LeftCheckpoint, "left_checkpoints", given(locals()))


def checkpoint_owners(*, access_point: str) -> Call[list[str]]:
    """The owners of checkpoints, at a destination, of jobs of this access point."""
    return value_of("checkpoint_owners", given(locals()))


def forget_checkpoint(*, cluster: int, proc: int, base: str) -> Call[bool]:
    """Acknowledge that a left checkpoint was deleted; False if it is needed, or does not exist."""
    return value_of("forget_checkpoint", given(locals()))


def not_brought(*, cluster: int, proc: int, run_id: int, reason: str, errno: int) -> Call[bool]:
    """Hold a job whose outputs an access point can't write; False if the job does not wait for delivery."""
    return value_of("not_brought", given(locals()))
