"""Outputs on their way into the database: an agent may die at each call, and another one goes on."""

import hashlib
import itertools
import os
from pathlib import Path

import pytest

from fetchwork.agent.files.parked import OutputSpool
from fetchwork.agent.files.sending import MOST_TOGETHER, RunOver
from fetchwork.db.calls.files import CHUNK_BYTES
from fetchwork.db.pool import AsyncDatabase
from tests.agent.outputs import Dying, Killed, deliver, park
from tests.support.direct_queue import Claimed, DirectQueue

FILES = {
    **{"empty": b"", "small": b"small", "equal": b"small", "chunk": os.urandom(CHUNK_BYTES)},
    **{"most": os.urandom(CHUNK_BYTES - 1), "large": os.urandom(2 * CHUNK_BYTES + 1)},
}


@pytest.fixture
def spool(tmp_path: Path) -> OutputSpool:
    made = OutputSpool(tmp_path / "spool.outputs")
    made.make()
    return made


def kept(slots: DirectQueue, run: Claimed) -> dict[str, bytes]:
    rows = slots.rows(
        "SELECT f.name, (SELECT string_agg(k.data, '' ORDER BY k.n) FROM fetchwork.content_chunk AS k"
        " WHERE k.content_id = f.content_id) FROM fetchwork.job_file AS f WHERE f.run_id = %s",
        run.run_id,
    )
    return {name: data or b"" for name, data in rows}


@pytest.mark.parametrize("done_first", [False, True])
async def test_an_agent_that_dies_around_any_call_is_followed_by_one_that_goes_on(
    conninfo: str, slots: DirectQueue, spool: OutputSpool, tmp_path: Path, done_first: bool
) -> None:
    for number in itertools.count(1):
        slots.submit(FetchWorkFiles="sandbox")
        run = slots.started()
        name = park(spool, tmp_path, FILES)
        dying = Dying(conninfo)
        dying.left, dying.done_first = number, done_first
        async with dying:
            try:
                assert await deliver(dying, spool, name, run) == sum(map(len, FILES.values()))
                died = False
            except Killed:
                died = True
        async with AsyncDatabase(conninfo) as database:
            await deliver(database, spool, name, run)
        assert kept(slots, run) == FILES
        # equal contents are stored once, and an upload that was begun was continued
        stored = slots.value("SELECT count(*) FROM fetchwork.content WHERE run_id = %s", run.run_id)
        assert stored == len({hashlib.sha256(data).digest() for data in FILES.values()})
        assert slots.finish(run) == "completed"
        if not died:
            break
    assert number > 8


async def test_many_small_files_travel_together_and_nobody_wants_those_of_a_run_that_is_over(
    conninfo: str, slots: DirectQueue, spool: OutputSpool, tmp_path: Path
) -> None:
    slots.submit(FetchWorkFiles="sandbox")
    run = slots.started()
    many = {f"f{number}": str(number).encode() for number in range(MOST_TOGETHER + 1)}
    name = park(spool, tmp_path, many)
    database = Dying(conninfo)
    before = database.left
    async with database:
        await deliver(database, spool, name, run)
        assert before - database.left == 3
        assert kept(slots, run) == many
        slots.finish(run)
        for files in (many, {"large": FILES["large"]}):
            with pytest.raises(RunOver):
                await deliver(database, spool, park(spool, tmp_path, files), run)
