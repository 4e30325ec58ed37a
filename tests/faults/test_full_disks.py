"""A disk that is full where jobs' files are written: in the sandbox, and at their destination.

tests/unit/test_parking.py tests the staging area.
"""

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest

from fetchwork.db.calls.files import CHUNK_BYTES
from fetchwork.handlers.host.starterlog import StarterLogs
from fetchwork.queue.outputs.bringing import bring
from fetchwork.queue.outputs.destinations import TransferFailed
from fetchwork.sandbox.failure import TransferFailure
from fetchwork.sandbox.fill import fill as fill_sandbox
from tests.support.small_disk import SIZE, fill
from tests.support.stand_in_contents import StandInDatabase, content, opened, whole
from tests.support.starter_logs import BEGUN, EXITED

DATA = os.urandom(SIZE + 1)


@pytest.mark.parametrize("source", ["content", "shared"])
def test_an_input_that_does_not_fit_holds_the_job_with_13_and_its_errno(
    small_disk: Path, source: str
) -> None:
    given = small_disk.parent / "given"
    given.write_bytes(DATA)
    file = {"direction": "input", "name": "a", "mode": 0o644, "size": len(DATA), "source": source}
    file |= {"content_id": 1, "path": str(given)}
    plan = {"ad": {}, "files": [file], "executable": False, "plugins": {}, "plugin_limit_s": 1}

    def ask(name: str, arg: str) -> bytes:
        return json.dumps(plan).encode() if name == "input_plan" else DATA

    with pytest.raises(TransferFailure) as caught:
        fill_sandbox(str(small_disk), ask, lambda more_s: None)
    assert (caught.value.code, caught.value.subcode) == (13, errno.ENOSPC)
    assert caught.value.reason.endswith("a: (errno 28) No space left on device")


@pytest.mark.parametrize("room", [True, False])
def test_an_output_that_does_not_fit_leaves_nothing_and_says_its_errno(small_disk: Path, room: bool) -> None:
    if not room:
        fill(small_disk)
    before = {path.name for path in small_disk.iterdir()}
    datas = {"fits": b"x" * 10_000, "large": DATA}
    files = [
        {
            **{"name": name, "source": "content", "mode": 0o644, "size": len(data), "content_id": number},
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        for number, (name, data) in enumerate(datas.items())
    ]
    steps = bring({"Iwd": str(small_disk)}, 1, files)
    data: bytes | None = None
    with pytest.raises(TransferFailed) as caught:
        while True:
            want = steps.send(data)
            data = [*datas.values()][want.content_id][want.n * CHUNK_BYTES : (want.n + 1) * CHUNK_BYTES]
    assert caught.value.errno == errno.ENOSPC
    assert f"{small_disk}/{'large' if room else 'fits'}" in str(caught.value)
    assert {path.name for path in small_disk.iterdir()} == before


async def test_a_cache_on_a_full_disk_passes_on_what_it_cannot_keep(small_disk: Path) -> None:
    data = DATA + bytes(CHUNK_BYTES)
    database, cache = StandInDatabase({1: data}), opened(small_disk)
    assert await whole(cache, content(data), database.reader(1)) == data
    assert list(cache.names) == []
    # and what fits is kept
    small = DATA[:1000]
    database.contents[2] = small
    filler = fill(small_disk)
    assert await whole(cache, content(small), database.reader(1), 2) == small
    filler.unlink()
    await cache.close()


async def test_a_starter_can_write_how_its_job_ended_though_the_disk_is_full_by_then(
    small_disk: Path,
) -> None:
    logs = StarterLogs(small_disk / "starter", of_users=False)
    path = await logs.make(7, "token", None, tells_end=True)
    assert path is not None
    fill(small_disk)
    # as HTCondor opens it
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for event in (BEGUN, EXITED):
        assert os.write(descriptor, event.encode()) == len(event)
    os.close(descriptor)
    written = await logs.written(7, "token", tells_end=True)
    assert written is not None and written.endswith(BEGUN + EXITED)


async def test_where_no_end_could_be_written_there_is_no_file_to_write_it_to(small_disk: Path) -> None:
    logs = StarterLogs(small_disk / "starter", of_users=False)
    (small_disk / "starter").mkdir()
    fill(small_disk)
    assert await logs.make(7, "token", None, tells_end=True) is None
    assert list((small_disk / "starter").iterdir()) == []
