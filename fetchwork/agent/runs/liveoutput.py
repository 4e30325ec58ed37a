"""Ships the output of watched running jobs to the database.

An unwatched job costs nothing: when a person begins to watch, a notification names the host
(sql/functions/reading/watch_output.sql). Then a program that runs as the job's user reads its files
(``readoutput``), and each second the new output goes to the database, limited there and here.
``open_as_user`` starts the program and decides who opens the files: an agent that is root starts it as the
job's user, an agent of the job's own account as itself. For an agent with a privileged part, that part opens
the files as the job's user. Any other agent reports that it may not read them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import pwd
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from fetchwork.agent.root.signalrights import SignalRights
from fetchwork.agent.runs import orphans
from fetchwork.db.calls import runs as run_calls
from fetchwork.errors import FetchworkError
from fetchwork.handlers.host.runs import LiveRun, Runs
from fetchwork.handlers.host.session import HostSession
from fetchwork.log import event
from fetchwork.process import Process

log = logging.getLogger(__name__)

#: seconds between two rounds while a person watches, and between two questions whether a person watches, in
#: case notifications do not arrive
ROUND_S = 1.0
LOOK_S = 10.0
CALL_S = 5.0
#: bytes of a stream in one piece (sql/functions/runs/ship_output.sql), and most pieces after a job's end
PIECE = 64 * 1024
LAST_PIECES = 4
ANSWER_S = 5.0

_PROGRAM = Path(__file__).with_name("readoutput.py")

_NO_FILE = "neither stdout nor stderr of the job is a file that its account may read"

Piece = tuple[int, bytes]


class Unreadable(FetchworkError):
    """The agent has no right to read a job's output."""


class OutputReader(Protocol):
    """A reader of one job's output, also after the job's end."""

    async def read(self, stdout_at: int | None, stderr_at: int | None) -> dict[int, Piece]:
        """Return the new output behind these positions (None: the beginning) by stream; raises OSError."""

    async def close(self) -> None:
        """End the reader."""


Opens = Callable[[Process], Awaitable[OutputReader]]


class LiveOutputs:
    """The watched outputs of one database's runs; ``opens`` raises Unreadable if it may not read a job's."""

    def __init__(self, session: HostSession, runs: Runs, opens: Opens) -> None:
        #: set when the database says that a person begins to watch
        self.soon = asyncio.Event()
        self._session = session
        self._runs = runs
        self._opens = opens
        self._readers: dict[int, tuple[LiveRun, Process, OutputReader]] = {}
        self._look_at = 0.0

    def watched(self) -> None:
        """Make a round soon: a person begins to watch."""
        self._look_at = 0.0
        self.soon.set()

    async def round(self) -> None:
        """Ship the new output of watched runs."""
        greeting = self._session.greeting
        now = time.monotonic()
        if greeting is None or not (self._readers or (self._look_at <= now and self._has_runs)):
            return
        self._look_at = now + LOOK_S
        watched = {
            row.run_id: row
            for row in await self._session.database.run(
                run_calls.watched_output(host_id=greeting.host_id), timeout_s=CALL_S
            )
        }
        for run_id in [run_id for run_id in self._readers if run_id not in watched]:
            await self._forget(run_id)
        await asyncio.gather(*(self._serve(row) for row in watched.values()))

    @property
    def _has_runs(self) -> bool:
        """Whether this database has runs here that could be watched."""
        return any(run.context.session is self._session for run in self._runs)

    async def close(self) -> None:
        """End every reader."""
        for run_id in list(self._readers):
            await self._forget(run_id)

    async def _serve(self, row: run_calls.WatchedOutput) -> None:
        known = self._readers.get(row.run_id)
        if known is None:
            run = self._runs.get(self._session, row.run_id)
            begun = run is not None and run.starter is not None and run.starter.alive
            job = orphans.job_of(run) if run is not None and begun else None
            if run is None or job is None:
                # the job begins in a moment, or is over
                return
            try:
                known = self._readers[row.run_id] = (run, job, await self._opens(job))
            except (Unreadable, OSError) as error:
                await self._ship(run, {}, ended=True, problem=str(error))
                return
        run, job, reader = known
        over = not job.alive
        at: dict[int, int | None] = {1: row.stdout_at, 2: row.stderr_at}
        try:
            for _ in range(LAST_PIECES if over else 1):
                pieces = await reader.read(at[1], at[2])
                if not pieces:
                    break
                await self._ship(run, pieces)
                at |= {stream: begin + len(data) for stream, (begin, data) in pieces.items()}
        except (OSError, ValueError) as error:
            event(
                log,
                logging.WARNING,
                "output_not_read",
                person=run.owner,
                run=run.run_id,
                job=run.job,
                problem=error,
            )
            over = True
        if over:
            await self._ship(run, {}, ended=True)
            await self._forget(run.run_id)

    async def _ship(
        self, run: LiveRun, pieces: dict[int, Piece], *, ended: bool = False, problem: str | None = None
    ) -> None:
        stdout, stderr = pieces.get(1), pieces.get(2)
        await self._session.database.run(
            run_calls.ship_output(
                run_id=run.run_id,
                token=run.token,
                stdout_at=stdout[0] if stdout else None,
                stdout=stdout[1] if stdout else None,
                stderr_at=stderr[0] if stderr else None,
                stderr=stderr[1] if stderr else None,
                ended=ended,
                problem=problem,
            ),
            timeout_s=CALL_S,
        )

    async def _forget(self, run_id: int) -> None:
        _, _, reader = self._readers.pop(run_id)
        await reader.close()


class _Program:
    """A process of ``readoutput``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def read(self, stdout_at: int | None, stderr_at: int | None) -> dict[int, Piece]:
        positions = [-1 if at is None else at for at in (stdout_at, stderr_at)]
        assert self._process.stdin is not None
        self._process.stdin.write(f"{positions[0]} {positions[1]} {PIECE}\n".encode())
        answer = await self.answer()
        return {
            int(stream): (int(at), base64.b64decode(data)[:PIECE]) for stream, (at, data) in answer.items()
        }

    async def answer(self) -> Any:
        """Return a line of its output, parsed; raises OSError, ValueError."""
        assert self._process.stdout is not None
        async with asyncio.timeout(ANSWER_S):
            return json.loads(await self._process.stdout.readline())

    async def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


async def open_as_user(rights: SignalRights, job: Process) -> OutputReader:
    """Return a reader of a job's output that runs as the job's account; raises Unreadable, OSError."""
    me, uid = os.geteuid(), job.owner
    if uid is None:
        raise Unreadable("the job has ended")
    if uid != me and rights.how == "root part":
        files = await rights.open_output(job, uid)
        if not files:
            raise Unreadable(_NO_FILE if job.alive else "the job has ended")
        try:
            words = [f"{stream}={fd}" for stream, fd in files.items()]
            return await _started(job, words, pass_fds=list(files.values()))
        finally:
            for fd in files.values():
                os.close(fd)
    account: list[str] = []
    if uid != me:
        if me != 0:
            raise Unreadable(f"its host's agent, as '{_name(me)}', may not read files of '{_name(uid)}'")
        try:
            entry = pwd.getpwuid(uid)
        except KeyError:
            raise Unreadable(f"uid {uid} has no account on the host") from None
        groups = os.getgrouplist(entry.pw_name, entry.pw_gid)
        account = [str(uid), str(entry.pw_gid), ",".join(map(str, groups))]
    return await _started(job, [str(job.pid), *account])


async def _started(job: Process, words: Sequence[str], *, pass_fds: Sequence[int] = ()) -> OutputReader:
    """Start ``readoutput`` and wait until it has opened the files; raises Unreadable, OSError."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-IS",
        str(_PROGRAM),
        *words,
        pass_fds=pass_fds,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=4 * PIECE,
        cwd="/",
        env={},
    )
    program = _Program(process)
    try:
        streams = await program.answer()
        # the job still lives, so the program has opened the job's files and not those of a later process
        if not job.alive:
            raise Unreadable("the job has ended")
        if not streams:
            raise Unreadable(_NO_FILE)
    except ValueError:
        await program.close()
        raise Unreadable("its output can't be opened as its account") from None
    except BaseException:
        await program.close()
        raise
    return program


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
