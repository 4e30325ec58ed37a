"""PostgreSQL's client programs, of a server's own version: pg_dump, pg_restore, psql."""

import os
import subprocess

import pytest
from psycopg.conninfo import conninfo_to_dict

from fetchwork.pool.postgres import SUPERUSER, PostgresServer


def program(server: PostgresServer, name: str, conninfo: str, *options: str, given: str | None = None) -> str:
    """The output of a client program of the server's own version."""
    path = server.programs / name
    if not path.exists():
        pytest.skip(f"this PostgreSQL has no {name}")
    told = subprocess.run(
        [
            str(path),
            *options,
            "-h",
            "127.0.0.1",
            "-p",
            str(server.port),
            "-U",
            SUPERUSER,
            "-d",
            str(conninfo_to_dict(conninfo)["dbname"]),
        ],
        env={**os.environ, "PGPASSWORD": server.password},
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return told.stdout
