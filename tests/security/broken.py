"""A plugin for pytest: the schema of every database that it makes is broken by the SQL in FETCHWORK_TEST_BREAK."""

import os

import psycopg

from fetchwork.db import schema

_init = schema.init


def _broken_init(conninfo: str) -> list[int]:
    applied = _init(conninfo)
    with psycopg.connect(conninfo) as connection:
        connection.execute(os.environ["FETCHWORK_TEST_BREAK"].encode())
    return applied


schema.init = _broken_init
