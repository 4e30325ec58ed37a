"""Contents and the files of jobs, as their submitters and runs store and read them."""

import hashlib
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from fetchwork.db.calls.files import CHUNK_BYTES
from tests.support.direct_queue import Claimed, DirectQueue

FILES = {"FetchWorkFiles": "sandbox", "ShouldTransferFiles": "YES", "TransferInput": "a"}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def parts(data: bytes) -> list[bytes]:
    return [data[i : i + CHUNK_BYTES] for i in range(0, len(data), CHUNK_BYTES)]


def store(queue: DirectQueue, data: bytes, owner: str = "alice") -> int:
    """Store a complete content as a submitter does; return its id."""
    (begun,) = queue.call("begin_content", owner=owner, sha256=sha256(data), size=len(data))
    if not begun["complete"]:
        for n, part in enumerate(parts(data)):
            if n not in begun["chunks"]:
                put(queue, begun["content_id"], n, part)
        assert queue.scalar("end_content", content_id=begun["content_id"]) is True
    return int(begun["content_id"])


def put(queue: DirectQueue, content: int, n: int, part: bytes) -> None:
    queue.call("put_chunk", content_id=content, n=n, data=part, sha256=sha256(part))


def described(name: str, data: bytes, **more: Any) -> dict[str, Any]:
    return {"name": name, "size": len(data), "sha256": sha256(data), **more}


def submit(queue: DirectQueue, *files: dict[str, Any], jobs: int = 1, **ad: Any) -> list[str]:
    """Submit a cluster with files; return its jobs' ids."""
    with queue.connection.transaction():
        ids = queue.submit_many(
            [{}] * jobs, {"Cmd": "/bin/true", "Owner": "alice", "Iwd": "/tmp", **FILES, **ad}
        )
        queue.call("add_job_files", cluster=int(ids[0].split(".")[0]), files=Jsonb(list(files)))
    return ids


def leave(queue: DirectQueue, run: Claimed, **outputs: bytes) -> None:
    """Store the outputs of a run, as its agent does."""
    for data in outputs.values():
        (begun,) = queue.call(
            "begin_content",
            owner=None,
            run_id=run.run_id,
            token=run.token,
            sha256=sha256(data),
            size=len(data),
        )
        for n, part in enumerate(parts(data)):
            assert queue.of(run, "put_chunk", content_id=begun["content_id"], n=n, data=part)
    manifest = [described(name, data) for name, data in outputs.items()]
    assert queue.of(run, "keep_outputs", manifest=Jsonb(manifest)) == "kept"


def plan(queue: DirectQueue, run: Claimed) -> dict[str, dict[str, Any]]:
    (row,) = queue.call("run_files", run_id=run.run_id, token=run.token)
    assert row["owner"] == "alice"
    return {file["name"]: file for file in row["files"]}


def stored_bytes(queue: DirectQueue, owner: str = "alice") -> int:
    queue.scalar("drop_files")
    return int(
        queue.value("SELECT coalesce(sum(bytes), 0) FROM fetchwork.content_tally WHERE owner = %s", owner)
    )


def refused(queue: DirectQueue, function: str, **arguments: Any) -> tuple[str, str]:
    with pytest.raises(psycopg.Error) as caught:
        queue.call(function, **arguments)
    return caught.value.sqlstate or "", str(caught.value.diag.message_primary)
