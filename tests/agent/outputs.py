"""Outputs that an agent sends, and agents that die at a call."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from fetchwork.agent.files.parked import OutputSpool
from fetchwork.agent.files.sending import send
from fetchwork.db.calls import files as file_calls
from fetchwork.db.calls.call import Call
from fetchwork.db.pool import AsyncDatabase
from fetchwork.handlers.runad import RunKey
from fetchwork.hook.wire import Request, encode_request
from fetchwork.sandbox.outputs import Output
from fetchwork.sandbox.parking import Parking
from tests.support.direct_queue import Claimed

T = TypeVar("T")
REPORT = encode_request(Request("job_exit", b"FetchWorkRunId = 7\n", keyword="K", arg="exit"))


class Killed(BaseException):
    """The agent is dead."""


class Dying(AsyncDatabase):
    """A database whose agent dies at a call: before it, or after the server has executed it."""

    left = 1 << 30
    done_first = False

    async def run(self, call: Call[T], **more: Any) -> T:
        return await self._dying(super().run, call, more)

    async def carry(self, call: Call[T], **more: Any) -> T:
        return await self._dying(super().carry, call, more)

    async def _dying(self, ask: Callable[..., Any], call: Call[T], more: dict[str, Any]) -> Any:
        self.left -= 1
        if self.left == 0 and not self.done_first:
            raise Killed
        answer = await ask(call, **more)
        if self.left == 0:
            raise Killed
        return answer


def park(spool: OutputSpool, home: Path, files: dict[str, bytes]) -> str:
    parking = Parking(str(spool.directory))
    outputs = []
    for name, data in files.items():
        (home / name).write_bytes(data)
        outputs.append(Output(name, str(home / name), 0o644, len(data)))
    assert parking.take(outputs) is None
    return parking.finish(REPORT, "output", None, seconds=0.1)


async def deliver(database: AsyncDatabase, spool: OutputSpool, name: str, run: Claimed) -> int:
    """Deliver as an agent does; return the number of bytes reported."""
    told: list[int] = []
    key = RunKey(run.run_id, str(run.token))
    manifest = await send(database, key, spool, spool.read(name), told.append)
    kept = await database.run(file_calls.keep_outputs(run_id=run.run_id, token=run.token, manifest=manifest))
    assert kept == "kept"
    return sum(told)
