"""What failed, and is tried again after a pause that is twice as long each time."""

from __future__ import annotations

import time
from collections.abc import Container, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Later(Generic[Key]):
    """What of one owner is tried again: when, and the pause before."""

    def __init__(self) -> None:
        self._at: dict[Key, tuple[float, float]] = {}

    def is_due(self, key: Key) -> bool:
        """Whether it did not fail, or its pause is over."""
        return key not in self._at or self._at[key][0] <= time.monotonic()

    def postpone(self, key: Key, first_s: float, longest_s: float) -> None:
        """It has failed: try it again after ``first_s`` at first, in the end after ``longest_s``."""
        pause = min(longest_s, 2 * self._at.get(key, (0.0, first_s / 2))[1])
        self._at[key] = (time.monotonic() + pause, pause)

    def forget(self, key: Key) -> None:
        """It is done."""
        self._at.pop(key, None)

    def keep(self, keys: Container[Key]) -> None:
        """Forget all but these."""
        self._at = {key: when for key, when in self._at.items() if key in keys}
