"""Backoff: retries of failed work after a pause that doubles each time."""

from __future__ import annotations

import time
from collections.abc import Container, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Later(Generic[Key]):
    """The failed work of one owner: for each key the time of the next try, and the pause before it."""

    def __init__(self) -> None:
        self._at: dict[Key, tuple[float, float]] = {}

    def is_due(self, key: Key) -> bool:
        """Whether the key has not failed, or its pause is over."""
        return key not in self._at or self._at[key][0] <= time.monotonic()

    def postpone(self, key: Key, first_s: float, longest_s: float) -> None:
        """Note a failure: retry after ``first_s`` the first time, then after up to ``longest_s``."""
        pause = min(longest_s, 2 * self._at.get(key, (0.0, first_s / 2))[1])
        self._at[key] = (time.monotonic() + pause, pause)

    def forget(self, key: Key) -> None:
        """Forget a key that has succeeded."""
        self._at.pop(key, None)

    def keep(self, keys: Container[Key]) -> None:
        """Forget all other keys."""
        self._at = {key: when for key, when in self._at.items() if key in keys}
