"""The frame of the benchmarks: their options, and a server or a pool of their own."""

import argparse
import contextlib
import re
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from fetchwork.agent.client import reload
from fetchwork.db import schema
from fetchwork.pool import PersonalPool
from fetchwork.pool.postgres import PostgresServer


def parser(document: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the docstring of a benchmark."""
    return argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)


@contextlib.contextmanager
def directory() -> Iterator[Path]:
    """A directory that every account may enter; it exists until the end."""
    with tempfile.TemporaryDirectory(prefix="fetchwork-bench-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@contextlib.contextmanager
def server(
    settings: Mapping[str, str] | None = None, programs: Path | None = None
) -> Iterator[tuple[PostgresServer, Path]]:
    """A durable server until the end, and a directory."""
    with directory() as path:
        server = PostgresServer(path / "postgres", programs=programs, settings=settings or {})
        server.start()
        try:
            yield server, path
        finally:
            server.stop("immediate")


@contextlib.contextmanager
def pool(**settings: Any) -> Iterator[PersonalPool]:
    """A pool until the end."""
    with directory() as path, PersonalPool(path / "pool", **settings) as pool:
        yield pool


def let_chain(pool: PersonalPool, seconds: int) -> None:
    """Change ``chain_s`` in the host file of a pool that was made with one, and have the agent read it."""
    text = pool.host_file.read_text()
    pool.host_file.write_text(re.sub(r'(?m)^"chain_s" = \d+$', f'"chain_s" = {seconds}', text))
    reload(pool.directory / "run/agent.sock")


def new_database(server: PostgresServer, name: str = "bench") -> str:
    """The connection string of a database that has only the schema, in place of one of that name."""
    server.query(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    server.create_database(name)
    conninfo = server.conninfo(name)
    schema.init(conninfo)
    return conninfo


def value(connection: psycopg.Connection[Any], statement: str, parameters: Sequence[object] = ()) -> Any:
    """The first value of the first row of a statement."""
    row = connection.execute(statement, parameters).fetchone()
    assert row is not None
    return row[0]


def spread(figures: Sequence[float]) -> str:
    """Median, and from lowest to highest."""
    return f"{statistics.median(figures):.0f} ({min(figures):.0f}-{max(figures):.0f})"
