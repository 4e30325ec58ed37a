"""A disk that is small, and full when a test wants it to be."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SIZE = 256 * 1024


@pytest.fixture
def small_disk(public_directory: Callable[[], Path]) -> Iterator[Path]:
    """A small file system of its own; needs root."""
    directory = public_directory() / "disk"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE},nr_inodes=200", "tmpfs", directory], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.decode().strip()}")
    yield directory
    subprocess.run(["umount", "--lazy", directory], check=True)


def fill(directory: Path) -> Path:
    """Leave no room; return the file that takes it."""
    filler = directory / "filler"
    descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while os.write(descriptor, b"x" * 4096):
            pass
    os.close(descriptor)
    return filler
