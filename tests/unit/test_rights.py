"""The agent's requests to its privileged part when the asker goes away, or the other end does not read."""

import asyncio
import errno
import os
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fetchwork.agent.root.privilegedclient import PrivilegedClient
from fetchwork.agent.root.signalrights import SignalRights
from tests.support.waiting import PATIENCE_S, until, until_async


class Slow(PrivilegedClient):
    """Opens files when the test says so."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.opened: list[int] = []
        self.asked = 0

    def open(self, path: Path, uid: int) -> int:
        self.asked += 1
        assert self.may_answer.wait(PATIENCE_S)
        self.opened.append(os.open(path, os.O_RDONLY))
        return self.opened[-1]


def is_closed(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError as error:
        return error.errno == errno.EBADF
    return False


async def test_what_is_opened_for_one_who_has_gone_is_closed(tmp_path: Path) -> None:
    part = Slow()
    rights = SignalRights(part)
    asking = asyncio.ensure_future(rights.open(tmp_path, 1000))
    await until_async(lambda: part.asked == 1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    part.may_answer.set()
    await until_async(lambda: len(part.opened) == 1 and is_closed(part.opened[0]))
    # and for an asker that has not gone the descriptor stays
    fd = await rights.open(tmp_path, 1000)
    assert not is_closed(fd)
    os.close(fd)


async def test_an_account_has_one_turn_even_if_those_who_ask_go_away(tmp_path: Path) -> None:
    part = Slow()
    rights = SignalRights(part)
    for _ in range(5):
        asking = asyncio.ensure_future(rights.open(tmp_path, 1000))
        await until_async(lambda: part.asked == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert part.asked == 1
    # another account has its own
    other = asyncio.ensure_future(rights.open(tmp_path, 1001))
    await until_async(lambda: part.asked == 2)
    part.may_answer.set()
    os.close(await other)


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[PrivilegedClient, socket.socket]]:
    """A privileged part that the test plays, with time to answer."""
    monkeypatch.setattr("fetchwork.agent.root.privilegedclient.ANSWER_S", PATIENCE_S)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield PrivilegedClient(ours, 0), theirs


def test_no_question_stays_that_was_never_sent(
    pair: tuple[PrivilegedClient, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    part, other = pair
    part._connection.settimeout(0.05)
    monkeypatch.setattr("fetchwork.agent.root.privilegedclient.ANSWER_S", 0.01)
    # the other end reads no request
    while _has_room(part):
        part._connection.send(b"0 nothing")
    with pytest.raises(TimeoutError) as raised:
        part.end_starter("1:1")
    assert raised.value.errno == errno.ETIMEDOUT
    assert part._waiting == {}
    # a part that has gone is reported at once
    other.close()
    until(lambda: part._waiting is None)
    with pytest.raises(ConnectionResetError):
        part.end_starter("1:1")


def _has_room(part: PrivilegedClient) -> bool:
    return bool(select.select([], [part._connection], [], 0)[1])


def test_answers_are_handed_out_while_a_question_waits_for_room(
    pair: tuple[PrivilegedClient, socket.socket],
) -> None:
    part, other = pair
    answers: list[int] = []
    waiting = threading.Thread(target=lambda: answers.append(_error_of(part)))
    waiting.start()
    number = other.recv(64).split()[0]
    while _has_room(part):
        part._connection.send(b"0 nothing")
    blocked = threading.Thread(target=_error_of, args=(part,))
    blocked.start()
    until(lambda: len(part._waiting or {}) == 2)
    other.send(number + b" %d" % errno.EPERM)
    waiting.join(PATIENCE_S / 2)
    assert answers == [errno.EPERM]
    other.close()
    blocked.join(PATIENCE_S)


def _error_of(part: PrivilegedClient) -> int:
    try:
        part.end_starter("1:1")
    except OSError as error:
        return error.errno or -1
    return 0
