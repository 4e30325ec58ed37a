"""Frames between processes, as they arrive in parts."""

import socket

import pytest

from fetchwork.errors import ProtocolError
from fetchwork.ipc.frames import Buffer, Json, Reader, encode

FRAMES: list[Json] = [
    {"op": "look", "path": "ä"},
    {"data": b"\0bytes\xff", "n": 1},
    {"data": b""},
    {"data": None},
    {"data": "text"},
    {},
]


def test_a_frame_arrives_whole_however_it_is_cut() -> None:
    sent = b"".join(map(encode, FRAMES))
    for size in range(1, len(sent) + 1):
        buffer, received = Buffer(), []
        for at in range(0, len(sent), size):
            buffer.feed(sent[at : at + size])
            while (frame := buffer.take()) is not None:
                received.append(frame)
        assert received == FRAMES, size


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ((101).to_bytes(4, "big"), "a frame of 101 bytes; allowed: 100"),
        (b"\0\0\0\1x", "a frame is not JSON"),
        (b"\0\0\0\1[", "a frame is not JSON"),
        (b"\0\0\0\2[]", "a frame is not a JSON object"),
        (encode({"data": 101}), "a frame with 101 bytes of data; allowed: 100"),
        (encode({"data": -1}), "a frame with -1 bytes of data; allowed: 100"),
    ],
)
def test_bytes_that_are_no_frame_are_refused(sent: bytes, problem: str) -> None:
    buffer = Buffer(100)
    buffer.feed(sent)
    with pytest.raises(ProtocolError, match=problem):
        buffer.take()


def test_frames_that_arrive_together_are_read_one_by_one() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"".join(map(encode, FRAMES)) + encode({"last": 1})[:-1])
        ours.shutdown(socket.SHUT_WR)
        reader = Reader(theirs)
        assert [reader.receive(), *(reader.arrived() for _ in FRAMES[1:])] == FRAMES
        assert reader.arrived() is None
        # the rest of the last frame never comes
        assert reader.receive() is None
