"""One database for many tests: restored to the state after the schema's installation, instead of made anew.

A new database for each of several hundred tests takes longer than the tests. Here all rows are deleted, the
schema's own rows inserted again, and sequences reset. A test that makes or drops tables in the schema cannot
use it, nor a test that writes its attributes.
"""

import time

import psycopg

from fetchwork.pool.personal import DBNAME
from fetchwork.pool.postgres import PostgresServer
from tests.support.waiting import PATIENCE_S

#: the folders and modules whose tests leave no process and no table in their database
_KEPT = {
    "tests.accesspoint", "tests.modules", "tests.page", "tests.queue",
    "tests.commands.test_commands", "tests.commands.test_submit_table",
    "tests.commands.test_what_programs_read", "tests.doctor.test_config_commands", "tests.doctor.test_doctor",
    "tests.agent.test_credentials", "tests.agent.test_dynamic_slots", "tests.agent.test_fetch_that_is_early",
    "tests.agent.test_fetch_work", "tests.agent.test_forged_reports", "tests.agent.test_match_rounds",
    "tests.agent.test_orphans", "tests.agent.test_rank", "tests.agent.test_run_hooks",
    "tests.agent.test_unprintable",
}  # fmt: skip

_SAVE = """
DO $$
DECLARE
    its record;
BEGIN
    CREATE SCHEMA as_installed;
    FOR its IN SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'fetchwork'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> 'attribute' LOOP
        EXECUTE format('CREATE TABLE as_installed.%1$I AS SELECT * FROM fetchwork.%1$I', its.relname);
    END LOOP;
END
$$
"""

# foreign keys are off, so that the tables' order does not matter
_PUT_BACK = """
DO $$
DECLARE
    its record;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR its IN SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'as_installed'::regnamespace LOOP
        EXECUTE format('DELETE FROM fetchwork.%1$I', its.relname);
        EXECUTE format('INSERT INTO fetchwork.%1$I OVERRIDING SYSTEM VALUE SELECT * FROM as_installed.%1$I', its.relname);
    END LOOP;
    FOR its IN SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'fetchwork'::regnamespace AND c.relkind = 'S' LOOP
        PERFORM setval(format('fetchwork.%I', its.relname)::regclass, 1, false);
    END LOOP;
    UPDATE fetchwork.heartbeat SET reaped_at = clock_timestamp();
END
$$
"""


# other sessions that run a statement in this database
_BUSY = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND state <> 'idle'
"""
#: the last calls of the previous test get this many seconds, and are then ended
_LAST_CALLS_S = 5.0

# to the kept database of the server with this port: a new connection would look up the tables anew
_connections: dict[int, psycopg.Connection] = {}


def is_kept(module: str) -> bool:
    """Whether the tests of a module have the restored database instead of new ones."""
    return module in _KEPT or module.rpartition(".")[0] in _KEPT


def kept_database(server: PostgresServer) -> str:
    """The superuser's connection string of a database that has only the schema."""
    if server.port in _connections:
        connection = kept_connection(server)
        _end_what_is_left(connection)
        _put_back(connection)
        return server.conninfo("kept")
    server.query(f'CREATE DATABASE kept TEMPLATE "{DBNAME}"')
    server.query(_SAVE, "kept")
    # an endless wait is a defect
    server.query(f"ALTER DATABASE kept SET statement_timeout = '{PATIENCE_S:.0f}s'")
    _put_back(kept_connection(server))
    return server.conninfo("kept")


def kept_connection(server: PostgresServer) -> psycopg.Connection:
    """A connection to the kept database in autocommit, which all tests share."""
    connection = _connections.get(server.port)
    if connection is None or connection.closed:
        connection = psycopg.connect(server.conninfo("kept"), autocommit=True, prepare_threshold=None)
        _connections[server.port] = connection
    return connection


def _end_what_is_left(connection: psycopg.Connection) -> None:
    """Let the previous test's last calls end: a server goes on with them even without a client.

    Their writes after the restore would be the next test's.
    """
    end = time.monotonic() + _LAST_CALLS_S
    while connection.execute(_BUSY).fetchone() is not None:
        if time.monotonic() > end:
            connection.execute(f"SELECT pg_terminate_backend(pid, 60000) FROM ({_BUSY}) AS busy")
        time.sleep(0.01)


def _put_back(connection: psycopg.Connection) -> None:
    for left in reversed(range(5)):
        try:
            connection.execute(_PUT_BACK)
        except psycopg.errors.DeadlockDetected:
            # a process of the previous test may end its last call meanwhile
            if not left:
                raise
        else:
            return
