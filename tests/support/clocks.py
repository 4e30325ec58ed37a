"""Clocks that a test sets: libfaketime sets that of a process by a file, which it reads at each call."""

from collections.abc import Callable
from pathlib import Path

import pytest

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
needs_library = pytest.mark.skipif(LIBRARY is None, reason="no clocks to set: libfaketime is not installed")
DAY_S = 86400


class Clock:
    """A clock that libfaketime sets in the processes with this environment."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.set(0)
        file.chmod(0o644)

    def set(self, ahead_s: int) -> None:
        """Set the clock; monotonic clocks go on, as on a machine whose clock is set."""
        beside = self.file.with_suffix(".new")
        beside.write_text(f"{ahead_s:+}\n")
        beside.chmod(0o644)
        beside.rename(self.file)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that put a process under this clock."""
        return {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    @property
    def wrapper(self) -> list[str]:
        """A command before a program that is to be under this clock."""
        return ["env", *(f"{name}={value}" for name, value in self.environment.items())]


@pytest.fixture
def clock(public_directory: Callable[[], Path]) -> Clock:
    return Clock(public_directory() / "clock")
