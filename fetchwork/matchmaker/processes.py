"""The agent's control of the zygote and its present worker: start, request, replacement, end."""

from __future__ import annotations

import asyncio
import itertools
import signal

from fetchwork.errors import FetchworkError
from fetchwork.ipc.frames import Json
from fetchwork.ipc.link import Link, Zygote
from fetchwork.matchmaker import mark
from fetchwork.matchmaker.bounds import REQUEST_S

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
        self._zygote = Zygote("fetchwork.matchmaker.zygote")
        self._link: Link | None = None
        self._numbers = itertools.count(1)
        #: the number of the present worker, or of the last one
        self.worker = 0
        #: number of workers that ended over a request
        self.ended = 0

    @property
    def pid(self) -> int | None:
        """The zygote's pid."""
        return self._zygote.pid

    @property
    def has_worker(self) -> bool:
        """Whether the next request goes to the worker that answered the last one."""
        return self._link is not None

    async def ask(self, request: Json) -> Json:
        """Send a request to the worker, which is started if necessary, and read its answer.

        Raises WorkerEnded if the worker ended first, MatchmakerUnavailable if the wall clock ended it, or if
        no worker can be had.
        """
        try:
            async with asyncio.timeout(REQUEST_S + _PATIENCE_S):
                link = self._link or self._new_worker()
                try:
                    await link.send(request)
                    answer = await link.receive()
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
            await self._link.send(request)
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
        self.drop_worker()
        await self._zygote.close()

    async def _how_it_ended(self) -> Exception:
        self.drop_worker()
        self.ended += 1
        while True:
            words = (await self._zygote.report()).split()
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

    def _new_worker(self) -> Link:
        self.worker = next(self._numbers)
        self._link = self._zygote.fork(str(self.worker))
        return self._link
