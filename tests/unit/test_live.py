"""The signals that make a page live: the state for open pages, and for pages that have left."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from fetchwork.page.acting import Person
from fetchwork.page.live import EACH, Live
from fetchwork.page.problem import Problem
from fetchwork.page.workers import Workers

ALICE, BOB = Person("alice", "alice", may_write=True), Person("bob", "bob", may_write=True)


class QuietWorkers:
    """Nothing ever happens."""

    async def ask(self, person: Person, question: object, **arguments: object) -> dict[str, object]:
        return {"events": [], "cursor": "1.1"}


@pytest.fixture
def live() -> Live:
    return Live(cast(Workers, QuietWorkers()))


async def begun(live: Live, person: Person) -> AsyncGenerator[str, None]:
    stream = cast(AsyncGenerator[str, None], live.begin(person))
    assert await anext(stream) == "retry: 5000\n\n"
    return stream


async def test_pages_that_leave_before_their_stream_starts_take_no_place(live: Live) -> None:
    for _ in range(3 * EACH):
        live.begin(ALICE)
    stream = await begun(live, ALICE)
    await stream.aclose()
    await live.close()


async def test_pages_of_one_person_are_bounded_and_make_room_when_they_leave(live: Live) -> None:
    streams = [await begun(live, ALICE) for _ in range(EACH)]
    with pytest.raises(Problem):
        live.begin(ALICE)
    others = await begun(live, BOB)
    await streams.pop().aclose()
    streams.append(await begun(live, ALICE))
    for stream in [*streams, others]:
        await stream.aclose()
    await live.close()


async def test_stream_that_was_begun_while_others_took_the_last_places_ends_at_once(live: Live) -> None:
    late = live.begin(ALICE)
    streams = [await begun(live, ALICE) for _ in range(EACH)]
    assert [event async for event in late] == []
    for stream in streams:
        await stream.aclose()
    await live.close()


async def test_the_end_of_the_service_ends_every_stream(live: Live) -> None:
    stream, late = await begun(live, ALICE), live.begin(BOB)
    rest = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    await live.close()
    with contextlib.suppress(StopAsyncIteration):
        raise AssertionError(f"told {await rest}")
    assert [event async for event in late] == []
