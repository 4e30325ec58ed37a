"""Items that are made while the ones before them are worked on."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["ahead"]

T = TypeVar("T")


def ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """The items of an iterator, whose next one is made by a thread: one ahead, so few are in memory."""
    with ThreadPoolExecutor(1) as thread:
        pending = thread.submit(_next, items)
        while item := pending.result():
            pending = thread.submit(_next, items)
            yield item[0]


def _next(items: Iterator[T]) -> tuple[T] | None:
    for item in items:
        return (item,)
    return None
