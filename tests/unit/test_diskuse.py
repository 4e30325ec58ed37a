"""The disk use of files below a directory: hard links counted once, bounded, and without following a link."""

import errno
import os
import time
from pathlib import Path

import pytest

from fetchwork.sandbox import diskuse

KIB = 1024


def used(directory: Path, seconds: float = 600.0) -> int:
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        return diskuse.used(fd, time.monotonic() + seconds)
    finally:
        os.close(fd)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_files_of_all_directories_count_and_one_with_several_names_once(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    for name in ("x", "a/y", "a/b/.z"):
        (tmp_path / name).write_bytes(os.urandom(64 * KIB))
    (tmp_path / "a/again").hardlink_to(tmp_path / "x")
    (tmp_path / "again").hardlink_to(tmp_path / "x")
    before = open_files()
    assert 3 * 64 * KIB <= used(tmp_path) < 4 * 64 * KIB
    assert open_files() == before


def test_a_file_with_holes_counts_as_what_the_disk_has_of_it(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert used(tmp_path) < 1 << 20


def test_links_and_what_is_no_file_count_nothing(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "large").write_bytes(os.urandom(256 * KIB))
    (inside / "file").symlink_to(outside / "large")
    (inside / "directory").symlink_to(outside)
    (inside / "loop").symlink_to(inside)
    os.mkfifo(inside / "fifo")
    assert used(inside) == 0


def test_another_file_system_is_not_entered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mount").mkdir()
    (tmp_path / "mount/file").write_bytes(os.urandom(64 * KIB))
    looked_at = os.stat

    def stat(name: str, **keywords: object) -> os.stat_result:
        found = looked_at(name, **keywords)  # type: ignore[arg-type]
        if name != "mount":
            return found
        values = list(found)
        values[2] += 1
        return os.stat_result(values)

    monkeypatch.setattr(os, "stat", stat)
    assert used(tmp_path) == 0


@pytest.mark.parametrize("bound", ["entries", "time"])
def test_a_directory_of_endless_entries_is_counted_within_bounds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bound: str
) -> None:
    for number in range(600):
        (tmp_path / f"{number}").write_bytes(b"x" * KIB)
    whole, one = used(tmp_path), (tmp_path / "0").stat().st_blocks * 512
    if bound == "entries":
        monkeypatch.setattr(diskuse, "MOST_ENTRIES", 100)
        assert used(tmp_path) == 100 * one
    else:
        assert 0 < used(tmp_path, seconds=-1) < whole


def test_directories_without_an_end_are_followed_for_a_while(tmp_path: Path) -> None:
    before, at = open_files(), os.getcwd()
    try:
        os.chdir(tmp_path)
        for _ in range(2 * diskuse.DEEPEST):
            Path("d").mkdir()
            Path("d/file").write_bytes(b"x" * KIB)
            os.chdir("d")
    finally:
        os.chdir(at)
    one = (tmp_path / "d/file").stat().st_blocks * 512
    assert used(tmp_path) == (diskuse.DEEPEST - 1) * one
    assert open_files() == before


def test_a_deep_tree_takes_a_descriptor_for_each_level_and_one_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deepest = tmp_path
    for _ in range(40):
        deepest /= "d"
    deepest.mkdir(parents=True)
    (deepest / "file").write_bytes(b"x" * KIB)
    stat, before, most = os.stat, open_files(), 0

    def look(name: str, **keywords: object) -> os.stat_result:
        nonlocal most
        most = max(most, open_files() - before)
        return stat(name, **keywords)  # type: ignore[arg-type]

    one = (deepest / "file").stat().st_blocks * 512
    monkeypatch.setattr(os, "stat", look)
    assert used(tmp_path) == one
    # the given one, one for each of 41 directories, and one to read with
    assert most == 1 + 41 + 1


def test_directory_that_there_is_no_descriptor_to_read_with_leaves_none_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "below"
    below.mkdir()
    scandir, before = os.scandir, open_files()

    def full(fd: int) -> "os._ScandirIterator[str]":
        if os.fstat(fd).st_ino == below.stat().st_ino:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return scandir(fd)

    monkeypatch.setattr(os, "scandir", full)
    assert used(tmp_path) == 0
    monkeypatch.undo()
    assert open_files() == before
