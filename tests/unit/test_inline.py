"""Few and small files within requests and answers: the agent's limits, and its time for each."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fetchwork.db.calls.files import RunFiles
from fetchwork.errors import DatabaseUnavailable, NotFound, ProtocolError
from fetchwork.handlers.context import Caller, Task
from fetchwork.handlers.host.runs import Runs
from fetchwork.handlers.requests import small
from fetchwork.handlers.runad import RunKey
from fetchwork.hook.wire import Request
from fetchwork.sandbox import inline

KEY = RunKey(7, "token")
FILE = {"name": "in", "mode": 0o644, "size": 4, "source": "content", "direction": "input", "content_id": 1}


class Brings:
    """The files of a host, fetched with ``outcome``; ``left``: the seconds that each may take."""

    plugin_limit_s = 60.0

    def __init__(self, outcome: bytes | Exception) -> None:
        self.outcome = outcome
        self.left: list[float] = []

    def expect(self, *plan: object) -> None:
        pass

    async def chunk(self, task: Task, key: RunKey, content_id: int, number: int) -> bytes:
        self.left.append(task.left())
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def asking(files: Brings, seconds: float = 20.0) -> Task:
    async def run(call: object, *, timeout_s: float) -> RunFiles:
        return RunFiles("alice", {"Cmd": "/bin/cat"}, [FILE])

    context = SimpleNamespace(session=SimpleNamespace(database=SimpleNamespace(run=run)))
    request = Request("prepare_job", b"", inline=inline.MAX_INPUT)
    end = time.monotonic() + seconds
    return Task(request, Caller(1, True), cast(Any, context), Runs(), end, files=cast(Any, files))


async def test_inputs_that_do_not_come_soon_leave_the_hook_time_for_the_long_way() -> None:
    away = Brings(DatabaseUnavailable("the file does not come: the database is slow"))
    assert await small.inputs(asking(away), KEY) is None
    assert away.left[0] <= small.FILES_S
    fine = Brings(b"data")
    brought = await small.inputs(asking(fine, 1.0), KEY)
    assert brought is not None
    assert brought.size == 4
    assert brought.section.endswith(b"420 4 in\ndata")
    assert fine.left[0] <= 1.0
    with pytest.raises(NotFound):
        await small.inputs(asking(Brings(NotFound("run 7 is over"))), KEY)


def test_what_a_request_has_of_files_is_what_a_hook_may_send() -> None:
    most = b"384 %d out\n" % inline.MAX_OUTPUT + bytes(inline.MAX_OUTPUT)
    ((name, mode, data),) = inline.decode_outputs(most)
    assert (name, mode, len(data)) == ("out", 0o600, inline.MAX_OUTPUT)
    assert len(inline.decode_outputs(b"384 0 out\n" * inline.MAX_FILES)) == inline.MAX_FILES
    for wrong in (most + b"384 1 more\nx", b"384 0 out\n" * (inline.MAX_FILES + 1), b"384 2 out\nx"):
        with pytest.raises(ProtocolError, match="more, or longer"):
            inline.decode_outputs(wrong)
    for wrong in (b"x", b"\n", b"384 -1 out\n", b"384 1 ../out\nx", b"384 1 a/b\nx", b"384  1 out\nx"):
        with pytest.raises(ProtocolError, match="do not begin"):
            inline.decode_outputs(wrong)
