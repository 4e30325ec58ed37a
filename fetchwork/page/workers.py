"""The processes that ask the database, and evaluate people's constraints.

A question runs in one transaction with the rights of the person who asks. It has a time limit: a worker that
exceeds it is ended by a signal and replaced; other workers' questions go on. One person has only a share of
the workers.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from multiprocessing.connection import wait
from typing import Literal, TypeAlias, TypeVar

from fetchwork.page.acting import ActingSession, Person
from fetchwork.page.problem import Problem, problem_of

Answer = TypeVar("Answer")
Mode: TypeAlias = Literal["read", "slow", "note", "write"]

#: worker processes
WORKERS = 4
#: of them for one person at once; the rest are for other people
EACH = 2
#: questions that may wait at once: of one person, and of all people
MAX_ASKED_EACH = 40
MAX_ASKED = 400
#: bytes of memory of a worker: a hostile constraint builds strings
MAX_MEMORY = 2 << 30
#: seconds for a question, for a long one, and for an action on many jobs
READ_S = 10.0
SLOW_S = 60.0
WRITE_S = 300.0


class Workers:
    """Asks questions of one database. ``questions`` are functions of a module, so that they can be sent."""

    def __init__(self, conninfo: str, *, workers: int = WORKERS) -> None:
        self._conninfo = conninfo
        self._pools = [_pool(conninfo) for _ in range(workers)]
        self._free: asyncio.LifoQueue[int] | None = None
        self._asking: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Semaphore] = {}

    def close(self) -> None:
        """End the processes."""
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)

    async def ask(
        self,
        person: Person,
        question: Callable[..., Answer],
        *,
        writes: bool = False,
        notes: bool = False,
        slow: bool = False,
        **arguments: object,
    ) -> Answer:
        """The answer of ``question(session, **arguments)``; raises Problem.

        ``writes``: it changes something, and may take longer. ``notes``: it only notes that a person watches,
        which every person who may see may do. ``slow``: a long read, which a page does not wait for.
        """
        if self._free is None:
            self._free = asyncio.LifoQueue()
            for number in range(len(self._pools)):
                self._free.put_nowait(number)
        if self._asking[person.name] >= MAX_ASKED_EACH:
            raise Problem(
                429, "too many requests", f"{MAX_ASKED_EACH} requests of yours wait; ask again later"
            )
        if self._asking.total() >= MAX_ASKED:
            raise Problem(503, "too many requests", "too many requests wait at once; ask again in a while")
        self._asking[person.name] += 1
        turn = self._turns.setdefault(person.name, asyncio.Semaphore(EACH))
        try:
            async with turn:
                number = await self._free.get()
                try:
                    mode: Mode = "write" if writes else "note" if notes else "slow" if slow else "read"
                    return await self._ask(number, person, question, mode, arguments)
                finally:
                    self._free.put_nowait(number)
        finally:
            self._asking[person.name] -= 1
            if not self._asking[person.name]:
                del self._asking[person.name]
                self._turns.pop(person.name, None)

    async def _ask(
        self,
        number: int,
        person: Person,
        question: Callable[..., Answer],
        mode: Mode,
        arguments: Mapping[str, object],
    ) -> Answer:
        limit_s = {"write": WRITE_S, "slow": SLOW_S}.get(mode, READ_S)
        loop = asyncio.get_running_loop()
        try:
            answer = await loop.run_in_executor(
                self._pools[number], _answer, person, mode, limit_s, question, dict(arguments)
            )
        except BrokenExecutor:
            self._pools[number].shutdown(wait=False)
            self._pools[number] = _pool(self._conninfo)
            raise Problem(
                503, "took too long", f"no answer within {limit_s:.0f} s; a narrower filter takes less"
            ) from None
        if isinstance(answer, Problem):
            raise answer
        return answer


def _pool(conninfo: str) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fetchwork.page.questions", "fetchwork.classad.bindings"])
    # one process each: an executor ends all of its processes when one dies
    return ProcessPoolExecutor(
        1,
        mp_context=context,
        initializer=_begin,
        initargs=(conninfo,),
    )


_session: ActingSession


def _begin(conninfo: str) -> None:
    """In a worker: set up the state for every question."""
    global _session  # noqa: PLW0603 - a process has one
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    threading.Thread(target=_end_with_service, daemon=True).start()
    _session = ActingSession(conninfo)


def _end_with_service() -> None:
    """In a worker: end when the service has ended in any way.

    A worker has both ends of the pipe that its questions come through, so it would wait for ever; and it
    keeps the process that it was forked from alive.
    """
    service = multiprocessing.parent_process()
    assert service is not None
    wait([service.sentinel])
    os._exit(1)


def _answer(
    person: Person,
    mode: Mode,
    limit_s: float,
    question: Callable[..., Answer],
    arguments: Mapping[str, object],
) -> Answer | Problem:
    """In a worker: the answer, or its problem."""
    # not handled: it ends the process, in any state
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    _session.account, _session.limit_s = person.account, limit_s
    _session.token, _session.writes = person.token, mode == "write"
    try:
        if mode != "write":
            with _session.writing() if mode == "note" else _session.reading():
                return question(_session, **arguments)
        if not person.may_write:
            raise Problem(403, "not allowed", "this service, or your token, shows jobs and changes none")
        return question(_session, **arguments)
    except Problem as problem:
        return problem
    except MemoryError:
        return Problem(503, "too large", "the answer needs too much memory; ask for less")
    except Exception as error:
        return problem_of(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
