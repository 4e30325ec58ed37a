"""Accounts take turns at the agent: what waits for a file is no reason for another job's hook to wait."""

import asyncio

import pytest

from fetchwork.agent.turns import Turns
from fetchwork.handlers.context import Caller
from tests.waiting import PATIENCE_S

PERSON = Caller(1000, False)


@pytest.mark.parametrize("name", ["read_input", "save_checkpoint"])
async def test_nobody_waits_for_a_request_that_waits_for_files(name: str) -> None:
    turns = Turns()
    async with asyncio.timeout(PATIENCE_S), turns.of(PERSON, name), turns.of(PERSON, "job_exit"):
        pass
    async with asyncio.timeout(PATIENCE_S), turns.of(PERSON, "job_exit"), turns.of(PERSON, name):
        pass


async def test_other_requests_of_an_account_come_one_after_the_other() -> None:
    turns = Turns()
    order = []

    async def ask(name: str) -> None:
        async with turns.of(PERSON, name):
            order.append(name)

    async with turns.of(PERSON, "prepare_job"):
        waiting = asyncio.create_task(ask("job_exit"))
        # of another account, and of one that is trusted
        async with turns.of(Caller(1001, False), "job_exit"), turns.of(Caller(1000, True), "job_exit"):
            order.append("others")
        await asyncio.sleep(0)
        order.append("prepare_job")
    await waiting
    assert order == ["others", "prepare_job", "job_exit"]
