"""A job of one person has its whole life while another person tries to keep it from everything."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fetchwork.db import schema
from fetchwork.pool.postgres import PostgresServer
from tests.benchmarks import scenes
from tests.benchmarks.bench_hostile import Bench


@pytest.fixture
def server(server_directory: Callable[[], Path]) -> Iterator[PostgresServer]:
    server = PostgresServer(server_directory() / "postgres", settings=scenes.SETTINGS, durable=False)
    server.start()
    server.create_database("queue")
    schema.init(server.conninfo("queue"))
    scenes.make_stranger(server)
    yield server
    server.stop("immediate")


async def test_a_job_is_submitted_runs_and_ends_for_its_reader_beside_each_scene(
    server: PostgresServer, public_directory: Callable[[], Path]
) -> None:
    directory = public_directory()
    bench = Bench(server.conninfo("queue"))
    page = scenes.Page(bench.conninfo, directory)
    async with bench.host(directory) as agent:
        with page.served():
            times = await bench.scenes(server, agent, page, jobs=2, rest_s=0.1, threads=14)
    bench.connection.close()
    assert len(times) == 4
