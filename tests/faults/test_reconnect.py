"""Agents that lost the same database come back one after the other, and leave room for other clients
meanwhile.

``make soak`` does it with 1 000 of them, and measures the time.
"""

from collections.abc import Callable
from pathlib import Path

from fetchwork.db import schema
from fetchwork.pool.postgres import PostgresServer
from tests.faults.conftest import SETTINGS
from tests.faults.reconnect import lose_and_regain

AGENTS = 150


async def test_comeback_of_many_agents_leaves_others_room(server_directory: Callable[[], Path]) -> None:
    settings = {**SETTINGS, "max_connections": str(AGENTS + 20)}
    server = PostgresServer(server_directory() / "postgres", settings=settings, durable=False)
    server.start()
    try:
        server.create_database("queue")
        conninfo = server.conninfo("queue")
        schema.init(conninfo)
        comeback = await lose_and_regain(server, conninfo, AGENTS)
    finally:
        server.stop("immediate")
    assert len(comeback.answered_s) == AGENTS
    # each agent backed off for a time of its own: there was room for another client before all were back
    assert comeback.stranger_first_s < max(comeback.answered_s)
