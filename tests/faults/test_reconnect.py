"""Agents that lost the same database come back one after the other, and leave others room meanwhile.

``make soak`` does it with 1 000 of them.
"""

from collections.abc import Callable
from pathlib import Path

from fetchwork.db import schema
from fetchwork.pool.postgres import PostgresServer
from tests.faults.conftest import SETTINGS
from tests.faults.reconnect import lose_and_regain

AGENTS = 150


async def test_comeback_of_many_agents_is_spread(public_directory: Callable[[], Path]) -> None:
    settings = {**SETTINGS, "max_connections": str(AGENTS + 20)}
    server = PostgresServer(public_directory() / "postgres", settings=settings, durable=False)
    server.start()
    try:
        server.create_database("queue")
        conninfo = server.conninfo("queue")
        schema.init(conninfo)
        comeback = await lose_and_regain(server, conninfo, AGENTS)
    finally:
        server.stop("immediate")
    last = max(comeback.answered_s)
    print(f"{AGENTS} agents back after {min(comeback.answered_s):.2f} to {last:.2f} s,")
    print(
        f"{comeback.busiest_second} in the busiest second; a stranger waits {max(comeback.stranger_s):.2f} s"
    )
    assert last < 20.0
    # who comes while the server recovers waits for that as well
    assert max(comeback.stranger_s) < 5.0
