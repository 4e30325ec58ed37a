"""The agent's control of the zygote and its present worker: start, request, replacement, end."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys

from fetchwork.errors import FetchworkError
from fetchwork.matchmaker import frames, mark
from fetchwork.matchmaker.bounds import REQUEST_S
from fetchwork.matchmaker.matchform import Json

#: seconds beyond the worker's own timer, which ends it
_PATIENCE_S = 5.0


class MatchmakerUnavailable(FetchworkError):
    """No worker could be had, or the wall clock ended it: no ad is to blame."""


class WorkerEnded(Exception):
    """The worker has ended by a signal (0: without one) at an item."""

    def __init__(self, number: int, phase: bytes, item: int) -> None:
        super().__init__(f"worker ended by signal {number} at item {phase.hex()} {item}")
        self.number, self.phase, self.item = number, phase, item


class Processes:
    """A zygote, started when first needed, and one worker of it at a time."""

    def __init__(self) -> None:
        self._zygote: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._link: socket.socket | None = None
        self._numbers = itertools.count(1)
        #: the number of the present worker, or of the last one
        self.worker = 0
        #: number of workers that ended over a request
        self.ended = 0

    @property
    def pid(self) -> int | None:
        """The zygote's pid."""
        return self._zygote.pid if self._zygote is not None else None

    @property
    def has_worker(self) -> bool:
        """Whether the next request goes to the worker that answered the last one."""
        return self._link is not None

    async def ask(self, request: Json, data: bytes = b"") -> Json:
        """Send a request to the worker, which is started if necessary, and read its answer.

        Raises WorkerEnded if the worker ended first, MatchmakerUnavailable if the wall clock ended it, or if
        no worker can be had.
        """
        try:
            async with asyncio.timeout(REQUEST_S + _PATIENCE_S):
                link = self._link or await self._new_worker()
                loop = asyncio.get_running_loop()
                try:
                    await loop.sock_sendall(link, frames.encode(request, data))
                    answer = await _read(link)
                except (ConnectionError, EOFError):
                    raise await self._how_it_ended() from None
        except (TimeoutError, OSError) as error:
            await self.close()
            raise MatchmakerUnavailable(f"matchmaker does not answer: {error}") from None
        except BaseException:
            # half an answer may lie in the socket
            self.drop_worker()
            raise
        if "too_large" in answer:
            raise MatchmakerUnavailable(f"matchmaker's answer has {answer['too_large']} bytes")
        return answer

    async def tell(self, request: Json) -> None:
        """Send a message without an answer; if the worker has ended, the next request notices."""
        if self._link is None:
            return
        try:
            await asyncio.get_running_loop().sock_sendall(self._link, frames.encode(request))
        except ConnectionError:
            return
        except BaseException:
            # half a message may lie in the socket
            self.drop_worker()
            raise

    def drop_worker(self) -> None:
        """Let the next request go to a new worker; this one ends by itself."""
        if self._link is not None:
            self._link.close()
            self._link = None

    async def close(self) -> None:
        """End the worker and its zygote."""
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            zygote.kill()
        self.drop_worker()
        if self._control is not None:
            self._control.close()
            self._control = None
        if zygote is not None:
            await asyncio.to_thread(zygote.wait)

    async def _how_it_ended(self) -> Exception:
        control = self._control
        self.drop_worker()
        assert control is not None
        self.ended += 1
        while True:
            words = (await asyncio.get_running_loop().sock_recv(control, 256)).decode().split()
            if len(words) != 4:
                # the zygote has gone, and every worker with it
                await self.close()
                return WorkerEnded(0, mark.NOTHING, 0)
            # the zygote also reports workers that were dropped
            if int(words[0]) == self.worker:
                break
        number, phase, item = int(words[1]), bytes.fromhex(words[2]), int(words[3])
        if number == signal.SIGALRM:
            return MatchmakerUnavailable(f"matchmaker was not done in {REQUEST_S:.0f} s")
        return WorkerEnded(number, phase, item)

    async def _new_worker(self) -> socket.socket:
        if self._zygote is None or self._zygote.poll() is not None or self._control is None:
            await self.close()
            self._start_zygote()
        assert self._control is not None
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        # closed by ``drop_worker`` if the zygote has gone
        self._link = ours
        self.worker = next(self._numbers)
        with theirs:
            socket.send_fds(self._control, [str(self.worker).encode()], [theirs.fileno()])
        return ours

    def _start_zygote(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        # closed by ``close`` if no process can be started
        self._control = ours
        with theirs:
            self._zygote = subprocess.Popen(
                [sys.executable, "-P", "-m", "fetchwork.matchmaker.zygote", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )


async def _read(link: socket.socket) -> Json:
    """Read one answer."""
    loop = asyncio.get_running_loop()
    data = bytearray()
    while len(data) < frames.LENGTHS.size or len(data) < frames.LENGTHS.size + sum(
        frames.LENGTHS.unpack_from(data)
    ):
        part = await loop.sock_recv(link, 1 << 20)
        if not part:
            raise EOFError
        data += part
    return dict(json.loads(data[frames.LENGTHS.size :]))
