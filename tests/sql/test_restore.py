"""A dump that is restored in place: on the same server, under the same name, while hosts run later jobs."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from fetchwork.pool.postgres import PostgresServer
from tests.sql.event_windows import window
from tests.support.client_programs import program
from tests.support.direct_queue import AGENT_ID, Claimed, DirectQueue
from tests.support.waiting import until

_TABLES = """
SELECT string_agg(format('%I.%I', n.nspname, c.relname), ', ')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = 'fetchwork' AND c.relkind IN ('r', 'p') AND NOT c.relispartition
"""


def database_anew(server: PostgresServer, conninfo: str, dump: Path) -> None:
    """Dropped, made and filled: no session stays connected."""
    name = conninfo_to_dict(conninfo)["dbname"]
    server.query(f'DROP DATABASE "{name}" WITH (FORCE)')
    server.query(f'CREATE DATABASE "{name}"')
    program(server, "pg_restore", conninfo, str(dump))


def tables_anew(server: PostgresServer, conninfo: str, dump: Path) -> None:
    """Dropped and made in the existing database: connections go on."""
    program(server, "pg_restore", conninfo, "--clean", "--if-exists", str(dump))


def rows_alone(server: PostgresServer, conninfo: str, dump: Path) -> None:
    """Into the existing tables; only the administrator can know of it."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        row = connection.execute(_TABLES).fetchone()
        assert row is not None
        connection.execute(f"TRUNCATE {row[0]} CASCADE")
    program(server, "pg_restore", conninfo, "--data-only", "--disable-triggers", str(dump))
    with psycopg.connect(conninfo, autocommit=True) as connection:
        DirectQueue(connection).scalar("after_restore")


_BLOCKED = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)

Restore = Callable[[PostgresServer, str, Path], None]


class World:
    """A database with a backup of it, and its users' knowledge of the time after that."""

    def __init__(self, server: PostgresServer, conninfo: str, dump: Path) -> None:
        self.server = server
        self.conninfo = conninfo
        self.dump = dump
        self.jobs: list[str] = []
        self.runs: list[Claimed] = []
        self.hosts: list[int] = []
        self.events: list[int] = []
        self.cursor = (0, 0)

    def read(self, queue: DirectQueue) -> list[int]:
        """The events of a reader that goes on from its cursor."""
        found, self.cursor = window(queue, self.cursor)
        self.events += found
        return found


@pytest.fixture(params=[database_anew, tables_anew, rows_alone])
def restored(
    request: pytest.FixtureRequest, postgres: PostgresServer, conninfo: str, tmp_path: Path
) -> World:
    """A backup, then an hour of work that the backup lacks, then the restore."""
    world = World(postgres, conninfo, tmp_path / "dump")
    with psycopg.connect(conninfo, autocommit=True) as connection:
        queue = DirectQueue(connection)
        queue.host("h1")
        queue.reap()
        world.jobs += queue.submit_many([{} for _ in range(3)])
        world.runs.append(queue.started("slot1@h1"))
        world.read(queue)
        program(postgres, "pg_dump", conninfo, "-Fc", "-f", str(world.dump))
        world.jobs += [queue.submit() for _ in range(3)]
        # this one waits in the backup
        world.runs += [queue.started("slot2@h1"), queue.started("slot3@h1")]
        world.hosts = [queue.host("h1"), queue.host("h2")]
        world.read(queue)
    request.param(postgres, conninfo, world.dump)
    return world


@pytest.fixture
def queue(restored: World) -> Iterator[DirectQueue]:
    """A session that connects after the restore."""
    with psycopg.connect(restored.conninfo, autocommit=True) as connection:
        yield DirectQueue(connection)


def test_no_id_is_given_out_again(restored: World, queue: DirectQueue) -> None:
    # before any agent has noticed
    assert queue.submit() not in restored.jobs
    assert queue.host("h3") not in restored.hosts
    queue.reap()
    assert queue.submit() not in restored.jobs
    for sequence, known in (
        ("run_id", max(run.run_id for run in restored.runs)),
        ("position", max(run.position for run in restored.runs)),
        ("event_event_id_seq", max(restored.events)),
    ):
        assert queue.value(f"SELECT nextval('fetchwork.{sequence}')") > known + 1_000_000


def test_ids_are_skipped_by_all_that_notice_the_restore_at_the_same_moment(
    restored: World, queue: DirectQueue
) -> None:
    def submit() -> str:
        with psycopg.connect(restored.conninfo, autocommit=True) as connection:
            return DirectQueue(connection).submit()

    def blocked() -> int:
        # in a transaction the answer would stay the same
        with psycopg.connect(restored.conninfo) as connection:
            number: int = DirectQueue(connection).value(_BLOCKED)
            return number

    with ThreadPoolExecutor(2) as pool:
        with queue.connection.transaction():
            # the first is held up in the middle of its skips
            queue.connection.execute("ALTER SEQUENCE fetchwork.autocluster_autocluster_id_seq CACHE 1")
            submitted = [pool.submit(submit)]
            until(lambda: blocked() == 1 or submitted[0].done(), "the first submission is held up")
            submitted.append(pool.submit(submit))
            until(lambda: blocked() == 2 or submitted[1].done(), "the second has come as far")
        assert not {one.result() for one in submitted} & set(restored.jobs)


def test_events_that_a_restore_brought_after_a_look_get_their_place(slots: DirectQueue) -> None:
    """An agent may look while a dump is restored; its events have transactions of long ago."""
    slots.reap()
    slots.submit()
    until_now = slots.call("sequence_events")[0]["until"]
    slots.connection.execute("UPDATE fetchwork.event SET batch = NULL, xid = '3'")
    assert slots.call("sequence_events", since=until_now)[0]["sequenced"] == 0
    slots.scalar("note_move", forced=True)
    slots.scalar("put_events_behind")
    assert slots.call("sequence_events", since=until_now)[0]["sequenced"] > 0


def test_calls_that_skip_ids_take_turns(conninfo: str, slots: DirectQueue) -> None:
    def call() -> None:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            DirectQueue(connection).call("skip_ids", forced=True)

    other = slots.another(autocommit=False)
    other.connection.execute("SELECT FROM fetchwork.turn WHERE name = 'ids' FOR NO KEY UPDATE")
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'transactionid'"
    with ThreadPoolExecutor(1) as pool:
        skip = pool.submit(call)
        until(lambda: slots.value(waiting) or skip.done(), "the call waits")
        assert not skip.done()
        other.connection.close()
        skip.result()


def test_a_submitters_open_transaction_keeps_no_turn(slots: DirectQueue) -> None:
    other = slots.another(autocommit=False)
    other.call("skip_ids", forced=True)
    slots.rows("SELECT FROM fetchwork.turn WHERE name = 'ids' FOR NO KEY UPDATE NOWAIT")
    other.connection.close()


def test_nothing_is_claimed_before_the_host_has_ended_what_is_unknown(
    restored: World, queue: DirectQueue
) -> None:
    host = queue.host("h1")
    assert queue.claim_many(host, "slot9@h9") == []
    queue.reap()
    assert queue.claim_many(host, "slot9@h9") == []
    alive = {"alive": [run.run_id for run in restored.runs], "tokens": [run.token for run in restored.runs]}
    told = queue.call("beat", host_id=host, agent_id=AGENT_ID, **alive)
    assert {(row["run_id"], row["action"]) for row in told} == {
        (run.run_id, "gone") for run in restored.runs[1:]
    }
    queue.connection.execute("UPDATE fetchwork.heartbeat SET offers_from = clock_timestamp()")
    queue.reap()
    assert queue.claim_many(host, "slot9@h9") == []
    known = restored.runs[0]
    assert (
        queue.call("beat", host_id=host, agent_id=AGENT_ID, alive=[known.run_id], tokens=[known.token]) == []
    )
    queue.reap()
    assert len(queue.claim_many(host, "slot9@h9")) == 1


def test_host_that_the_backup_does_not_know_is_waited_for(restored: World, queue: DirectQueue) -> None:
    queue.reap()
    known = restored.runs[0]
    host = queue.host("h1")
    queue.call("beat", host_id=host, agent_id=AGENT_ID, alive=[known.run_id], tokens=[known.token])
    queue.reap()
    assert queue.claim_many(host, "slot9@h9") == []
    assert queue.rows("SELECT machine FROM fetchwork.unsettled") == [(None,)]


def test_readers_get_what_comes_and_nothing_twice(restored: World, queue: DirectQueue) -> None:
    # before any agent has noticed, and after
    early = queue.submit()
    queue.reap()
    late = queue.submit()
    found = restored.read(queue)
    assert len(set(restored.events)) == len(restored.events)
    jobs = [
        queue.value(
            "SELECT fetchwork.job_id(clusterid, procid) FROM fetchwork.events WHERE eventid = %s", event
        )
        for event in found
    ]
    assert jobs == [early, late]


def test_first_agent_may_take_its_time(restored: World, queue: DirectQueue) -> None:
    """Readers hold the events locked, so that moving those behind has to be tried again."""
    queue.submit()
    with psycopg.connect(restored.conninfo) as reader:
        reader.execute("SELECT count(*) FROM fetchwork.events")
        queue.reap()
        queue.submit()
        reader.rollback()
    queue.reap()
    assert len(restored.read(queue)) == 2
    assert len(set(restored.events)) == len(restored.events)
