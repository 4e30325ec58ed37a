"""An answer of the access point whose reader has gone."""

import asyncio
import os
import socket

import pytest

from fetchwork.accesspoint.budgets import Budget
from fetchwork.accesspoint.server import Channel
from fetchwork.ipc.peer import Peer


async def _answered_after_the_reader_went() -> None:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    channel = Channel(Peer(os.getpid(), os.getuid(), os.getgid()), Budget(), writer)
    await channel.send(b"read ")
    assert theirs.recv(5) == b"read "
    theirs.close()
    assert await reader.read() == b""
    writer.transport.abort()
    # one turn for the loop to lose the connection
    await asyncio.sleep(0)
    assert channel.gone
    channel.hint(b"left out")
    await channel.send(b"nobody ", b"reads this")


def test_an_answer_that_nobody_reads_ends_as_a_lost_connection() -> None:
    with pytest.raises(ConnectionResetError):
        asyncio.run(_answered_after_the_reader_went())
