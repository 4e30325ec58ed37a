"""The reader of a job's output: from a position, in whole characters, bounded."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fetchwork.agent.runs.readoutput import FIRST, MOST_BEHIND, read, whole


@pytest.fixture
def file(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    path = tmp_path / "out"
    path.touch()
    fd = os.open(path, os.O_RDONLY)
    yield path, fd
    os.close(fd)


def test_what_is_new_is_read_once(file: tuple[Path, int]) -> None:
    path, fd = file
    assert read(fd, -1, 100) == (0, b"")
    path.write_bytes(b"one\n")
    assert read(fd, -1, 100) == (0, b"one\n")
    assert read(fd, 4, 100) == (4, b"")
    path.write_bytes(b"one\ntwo\n")
    assert read(fd, 4, 100) == (4, b"two\n")
    assert read(fd, 4, 2) == (4, b"tw")
    # shorter than before: nothing, until it has grown past that
    path.write_bytes(b"x")
    assert read(fd, 8, 100) == (8, b"")


def test_it_begins_near_the_end_and_leaves_out_what_nobody_could_follow(file: tuple[Path, int]) -> None:
    path, fd = file
    path.write_bytes(b"a" * (FIRST + 5))
    assert read(fd, -1, FIRST) == (5, b"a" * FIRST)
    path.write_bytes(b"a" * (MOST_BEHIND + 11))
    assert read(fd, 10, 1) == (MOST_BEHIND + 11 - FIRST, b"a")
    assert read(fd, 11, 1) == (11, b"a")


def test_no_character_is_cut(file: tuple[Path, int]) -> None:
    path, fd = file
    text = "aä日🎉" * 4
    data = text.encode()
    path.write_bytes(data)
    for most in range(4, len(data) + 1):
        at, parts = 0, []
        while True:
            begin, part = read(fd, at, most)
            if not part:
                break
            assert begin == at
            parts.append(part.decode())
            at += len(part)
        assert "".join(parts) == text
    # in the middle of a character it begins with the next
    for begin in range(1, len(data)):
        at, part = read(fd, begin, 100)
        assert data[at:].decode().startswith(part.decode()) and at - begin <= 3


def test_what_is_no_text_is_read_as_it_is() -> None:
    for data in (b"\xff", b"\xc3", b"\x80\x80\x80\x80\x80", b"ab\xff\xfe", b""):
        assert len(whole(data)) >= len(data) - 3
    assert whole(b"\xc3") == b"\xc3"
    assert whole(b"ab\xe6\x97") == b"ab"
