"""Shared answers of the access point: those that are given again, and those that are not."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from fetchwork.accesspoint import answers
from fetchwork.accesspoint.answers import Answers
from tests.support.waiting import PATIENCE_S


class Asker:
    """Asks one question, and says whether it was really asked."""

    def __init__(self, known: Answers) -> None:
        self._known = known
        self.made = 0

    async def ask(self, owner: str = "alice", *, when: asyncio.Event | None = None, size: int = 3) -> bytes:
        got: list[bytes] = []

        async def make() -> AsyncIterator[bytes]:
            self.made += 1
            if when is not None:
                await when.wait()
            yield bytes(size)

        async def send(*frames: bytes) -> None:
            got.extend(frames)

        await self._known.give(owner, "items", {"of": "jobs"}, make, send)
        return b"".join(got)


async def test_answers_that_took_too_long_to_be_given_again_take_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answers, "KEEP_ALL", 10)
    # the last answers stay valid until the next question
    monkeypatch.setattr(answers, "FRESH_S", PATIENCE_S)
    known = Answers()
    asker = Asker(known)
    for _ in range(5):
        done = asyncio.Event()
        known.changed("alice")
        # 1. is being made; 2. the asker changes something, so 3. does not get that answer and asks anew
        slow = asyncio.ensure_future(asker.ask(when=done))
        await asyncio.sleep(0)
        known.changed("alice")
        assert await asker.ask() == bytes(3)
        done.set()
        assert await slow == bytes(3)
    known.changed("alice")
    made, shared = asker.made, known.shared
    assert [await asker.ask() for _ in range(3)] == [bytes(3)] * 3
    assert (asker.made - made, known.shared - shared) == (1, 2)
