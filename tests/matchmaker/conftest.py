"""A matchmaker with its processes."""

from collections.abc import AsyncIterator

import pytest_asyncio

from fetchwork.matchmaker.client import Matchmaker


@pytest_asyncio.fixture
async def matchmaker() -> AsyncIterator[Matchmaker]:
    matchmaker = Matchmaker()
    yield matchmaker
    await matchmaker.close()
