"""Judges a job against the known slots in a child process, which may be killed without harm.

A job's expressions are a program by its submitter, and a page that serves all users may be asking. So the
child has little CPU time for each slot, little memory and no rights; the kernel ends it if it exceeds them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterable
from dataclasses import asdict

from fetchwork.db.calls.call import JsonObject, Row
from fetchwork.errors import ClassAdError, FetchworkError
from fetchwork.explain.judging import Clause, Judged, KnownSlot, Refusal, judge, request_of
from fetchwork.ipc.frames import Json, Reader, encode
from fetchwork.ipc.zygote import end_with_parent
from fetchwork.matchmaker import mark
from fetchwork.matchmaker.bounds import ITEM_CPU_S, drop_rights, limit_memory
from fetchwork.matchmaker.messages import sentence


class TooCostly(FetchworkError):
    """Judging took too much CPU time or memory."""


def judge_apart(ad: JsonObject, owner: str, queue: str, slots: Iterable[Row]) -> Judged:
    """Judge a job by each of the slots, with the ads that the database has.

    Raises ClassAdError if the job's ad can't be read, TooCostly if its evaluation had to be ended.
    """
    ours, theirs = socket.socketpair()
    asker = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            # the asker's connections are not the child's
            os.closerange(3, theirs.fileno())
            os.closerange(theirs.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
            _judge(theirs, asker, ad, owner, queue)
        finally:
            os._exit(1)
    answer: Json | None = None
    try:
        theirs.close()
        # a child that was killed has no answer
        with ours, contextlib.suppress(ConnectionError):
            for slot in slots:
                ours.sendall(encode(slot))
            ours.shutdown(socket.SHUT_WR)
            answer = Reader(ours).receive()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if answer is None:
        raise TooCostly(f"it takes more than {ITEM_CPU_S} s of CPU on one slot, or too much memory")
    if "problem" in answer:
        raise ClassAdError(answer["problem"])
    return Judged(
        answer["slots"],
        answer["verdicts"],
        [Clause(**clause) for clause in answer["clauses"]],
        answer["resources"],
        [Refusal(**refusal) for refusal in answer["refusals"]],
    )


def _judge(link: socket.socket, asker: int, ad: JsonObject, owner: str, queue: str) -> None:
    """In the child: judge the slots that come over the link, and answer."""
    # once with the rights that the import of further modules may need
    request = request_of({"Requirements": "/Expr(TARGET.Cpus > 0 && TARGET.Nothing)/"}, "")
    slot = KnownSlot(
        "", "", None, None, None, None, None, {"Requirements": "/Expr(true)/"}, True, False, *[None] * 4
    )
    judge(request, "", [slot])
    drop_rights()
    limit_memory()
    end_with_parent(asker)
    at = mark.Mark()
    at.begin(mark.AUTOCLUSTER, 0)
    frames = iter(Reader(link).receive, None)
    try:
        request = request_of(ad, owner)
        slots = (KnownSlot(**frame) for frame in frames)
        answer = asdict(judge(request, queue, slots, lambda: at.begin(mark.MATCH, 0)))
    except ClassAdError as error:
        answer = {"problem": sentence(error)}
        at.end()
        for _ in frames:
            # an end with unread slots would lose the answer
            pass
    at.end()
    link.sendall(encode(answer))
