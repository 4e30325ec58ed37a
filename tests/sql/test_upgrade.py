"""The schema's life: upgrades, the DBA's way, dump and restore, another server."""

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from fetchwork.db import schema
from fetchwork.errors import DatabaseRefused, DatabaseUnavailable, SchemaMismatch
from fetchwork.pool.postgres import PostgresServer
from tests.conftest import Connect
from tests.sql.event_windows import page, window
from tests.support.client_programs import program
from tests.support.direct_queue import EXITED, DirectQueue
from tests.support.later_schema import MIGRATIONS, later_schema
from tests.support.waiting import until

MakeDatabase = Callable[[], str]


@pytest.fixture
def empty_database(postgres: PostgresServer) -> Iterator[MakeDatabase]:
    """Makes empty databases."""
    made: list[str] = []

    def make() -> str:
        made.append(f"empty_{os.getpid()}_{len(made)}")
        postgres.query(f'CREATE DATABASE "{made[-1]}"')
        return postgres.conninfo(made[-1])

    yield make
    for name in made:
        postgres.query(f'DROP DATABASE "{name}" WITH (FORCE)')


CATALOG = {
    "columns": "SELECT table_name, column_name, data_type, column_default, is_nullable FROM information_schema.columns WHERE table_schema = 'fetchwork'",
    "constraints": "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'fetchwork'::regnamespace",
    "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'fetchwork'",
    "functions": "SELECT oid::regprocedure::text, pg_get_functiondef(oid), proacl::text FROM pg_proc WHERE pronamespace = 'fetchwork'::regnamespace",
    "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = 'fetchwork'",
    "tables": "SELECT relname, relkind::text, reloptions::text, relacl::text FROM pg_class WHERE relnamespace = 'fetchwork'::regnamespace",
    "migrations": "SELECT version, name FROM fetchwork.migration",
    "attributes": "SELECT * FROM fetchwork.attribute",
    "settings": "SELECT * FROM fetchwork.setting",
}


def catalog(conninfo: str) -> dict[str, list[tuple[object, ...]]]:
    """All parts of the schema."""
    with psycopg.connect(conninfo) as connection:
        return {
            name: sorted(connection.execute(statement).fetchall(), key=str)
            for name, statement in CATALOG.items()
        }


def test_psql_makes_what_fetchwork_makes(postgres: PostgresServer, empty_database: MakeDatabase) -> None:
    by_hand, by_program = empty_database(), empty_database()
    install = schema.sql_directory() / "install.sql"
    program(postgres, "psql", by_hand, "-q", "-X", "-1", "-v", "ON_ERROR_STOP=1", "-f", str(install))
    schema.init(by_program)
    assert catalog(by_hand) == catalog(by_program)
    assert schema.upgrade(by_hand) == []


def test_the_list_names_every_file(tmp_path: Path) -> None:
    migrations, replaced = schema.files()
    listed = {migration.path for migration in migrations} | set(replaced)
    assert listed == {path for path in schema.sql_directory().rglob("*.sql") if path.name != "install.sql"}
    assert [migration.version for migration in migrations] == list(range(1, len(migrations) + 1))


def test_an_upgrade_changes_nothing_in_a_schema_that_is_up_to_date(conninfo: str) -> None:
    before = catalog(conninfo)
    assert schema.upgrade(conninfo) == []
    assert catalog(conninfo) == before


def at_once(*calls: Callable[[], object]) -> list[object]:
    """The result or the exception of each call."""
    results: list[object] = []

    def run(call: Callable[[], object]) -> None:
        try:
            results.append(call())
        except Exception as error:
            results.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_two_that_make_the_schema_at_once_make_it_once(empty_database: MakeDatabase) -> None:
    conninfo = empty_database()
    results = at_once(lambda: schema.init(conninfo), lambda: schema.init(conninfo))
    assert sorted(results, key=str) == sorted([[], list(range(1, schema.latest() + 1))], key=str)


def test_two_upgrades_at_once_while_people_work_are_harmless(conninfo: str, connect: Connect) -> None:
    queue = DirectQueue(connect())
    results = at_once(
        lambda: schema.upgrade(conninfo),
        lambda: schema.upgrade(conninfo),
        lambda: [queue.submit() for _ in range(20)],
    )
    assert [result for result in results if isinstance(result, Exception)] == []
    queue.check()


def test_no_lock_that_anybody_may_take_keeps_an_upgrade_waiting(
    conninfo: str, connect: Connect, empty_database: MakeDatabase
) -> None:
    for database in (conninfo, empty_database()):
        with psycopg.connect(database) as other:
            # the lock's key
            other.execute("SELECT pg_advisory_xact_lock(1719100514)")
            schema.init(f"{database} options='-c lock_timeout=5s'")


def test_the_second_of_two_that_make_the_schema_finds_nothing_to_do(empty_database: MakeDatabase) -> None:
    conninfo = empty_database()
    with psycopg.connect(conninfo) as first:
        first.execute("CREATE SCHEMA fetchwork")  # 1. not committed
        results: list[object] = []
        second = threading.Thread(target=lambda: results.append(at_once(lambda: schema.init(conninfo))[0]))
        second.start()
        with psycopg.connect(conninfo, autocommit=True) as watch:
            until(lambda: watch.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall(), "a wait")  # 2.
        first.rollback()  # 3. it makes the schema
        second.join()
    assert results == [list(range(1, schema.latest() + 1))]
    assert schema.init(conninfo) == []


#: the versions of the two further migrations
LATER = [schema.latest() + 1, schema.latest() + 2]


@pytest.fixture
def later_fetchwork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let this fetchwork have two migrations more than the database."""
    copy = later_schema(tmp_path, *MIGRATIONS)
    with monkeypatch.context() as patched:
        patched.setattr(schema, "sql_directory", lambda: copy)
        yield copy


def pending(conninfo: str) -> tuple[int, ...]:
    """The versions that an upgrade would apply."""
    return schema.status(conninfo).pending


def test_two_upgrades_at_once_apply_a_migration_once(
    conninfo: str, connect: Connect, later_fetchwork: Path
) -> None:
    queue = DirectQueue(connect())
    queue.submit()
    run = queue.started()
    results = at_once(lambda: schema.upgrade(conninfo), lambda: schema.upgrade(conninfo))
    assert sorted(results, key=str) == sorted([LATER, []], key=str)
    assert pending(conninfo) == ()
    assert queue.finish(run) == "completed"
    queue.check()


def test_migrations_apply_to_a_database_that_is_full_of_jobs(
    conninfo: str, connect: Connect, later_fetchwork: Path
) -> None:
    queue = DirectQueue(connect())
    queue.submit_many([{} for _ in range(50)])
    queue.finish(queue.started("slot1@h1"), **EXITED, ExitCode=0)
    run = queue.started("slot2@h1")
    assert pending(conninfo) == tuple(LATER)
    assert schema.upgrade(conninfo) == LATER
    assert pending(conninfo) == ()
    assert queue.rows("SELECT name FROM fetchwork.rack") == [("of h1",)]
    assert queue.finish(run) == "completed"
    queue.check()


def test_a_new_database_gets_all_migrations(empty_database: MakeDatabase, later_fetchwork: Path) -> None:
    conninfo = empty_database()
    assert schema.init(conninfo) == list(range(1, LATER[-1] + 1))
    assert pending(conninfo) == ()


def test_an_upgrade_begins_again_when_it_and_a_query_wait_for_each_other(
    conninfo: str, connect: Connect, later_fetchwork: Path
) -> None:
    # the upgrade locks "jobs", waits here for the test, and then locks "settings"
    file = later_fetchwork / "views/history.sql"
    file.write_text(f"SELECT pg_advisory_xact_lock(1);\n{file.read_text()}")
    held, reader, watch = connect(), connect(autocommit=False), connect()
    held.execute("SELECT pg_advisory_lock(1)")
    # it is the upgrade that PostgreSQL ends
    reader.execute("SET deadlock_timeout = '1h'")
    reader.execute("SELECT FROM fetchwork.settings")
    waiting = "SELECT FROM pg_locks WHERE NOT granted AND locktype = %s"

    def read_jobs() -> None:
        until(lambda: watch.execute(waiting, ["advisory"]).fetchall(), "the upgrade")
        reader.execute("SELECT FROM fetchwork.jobs")
        reader.commit()

    def let_go() -> None:
        until(lambda: watch.execute(waiting, ["relation"]).fetchall(), "the reader")
        held.execute("SELECT pg_advisory_unlock(1)")

    results = at_once(lambda: schema.upgrade(conninfo), read_jobs, let_go)
    assert sorted(results, key=str) == sorted([None, None, LATER], key=str)
    assert pending(conninfo) == ()


def test_a_migration_that_is_missing_in_between_is_applied(
    conninfo: str, connect: Connect, later_fetchwork: Path
) -> None:
    (later_fetchwork / f"migrations/{LATER[1]:04}_of_tests.sql").write_text("SELECT 1 / 0;")
    connect().execute("INSERT INTO fetchwork.migration (version, name) VALUES (%s, 'by hand')", [LATER[1]])
    assert schema.upgrade(conninfo) == [LATER[0]]


def test_an_upgrade_replaces_views(conninfo: str, connect: Connect, later_fetchwork: Path) -> None:
    (later_fetchwork / "views/settings.sql").write_text(
        "CREATE OR REPLACE VIEW fetchwork.settings AS"
        " SELECT s.name, s.value, s.unit, s.meaning, 'later' AS version FROM fetchwork.setting AS s;"
    )
    schema.upgrade(conninfo)
    assert DirectQueue(connect()).rows("SELECT DISTINCT version FROM fetchwork.settings") == [("later",)]


def test_a_migration_that_fails_takes_those_before_it_back(
    conninfo: str, connect: Connect, later_fetchwork: Path
) -> None:
    second = f"migrations/{LATER[1]:04}_of_tests.sql"
    (later_fetchwork / second).write_text("SELECT 1 / 0;")
    with pytest.raises(DatabaseRefused, match=rf"^cannot apply '{second}': .*division by zero$"):
        schema.upgrade(conninfo)
    assert pending(conninfo) == tuple(LATER)
    assert (
        DirectQueue(connect()).rows(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'fetchwork' AND column_name = 'rack'"
        )
        == []
    )


def test_a_schema_of_a_later_fetchwork_is_left_alone(conninfo: str, connect: Connect) -> None:
    connect().execute("INSERT INTO fetchwork.migration (version, name) VALUES (9999, 'later')")
    with pytest.raises(
        SchemaMismatch, match="the database has schema version 9999, this fetchwork speaks up to"
    ):
        schema.upgrade(conninfo)


@pytest.mark.parametrize("apply", [schema.init, schema.upgrade])
@pytest.mark.parametrize("names", [["attributes"], ["attributes", "event_logs", "restore"]])
def test_a_database_of_an_earlier_checkout_is_told_from_a_later_one(
    conninfo: str, connect: Connect, apply: Callable[[str], object], names: list[str]
) -> None:
    connection = connect()
    connection.execute("DELETE FROM fetchwork.migration WHERE version > 1")
    for version, name in enumerate(names, 2):
        connection.execute("INSERT INTO fetchwork.migration (version, name) VALUES (%s, %s)", [version, name])
    told = f"schema version {1 + len(names)} was made by a checkout from before the first release, which has no upgrade: make a new"
    with pytest.raises(SchemaMismatch, match=told):
        apply(conninfo)
    assert str(schema.status(conninfo).problem).startswith(told)


def test_a_base_of_an_earlier_checkout_is_told(conninfo: str, connect: Connect) -> None:
    connect().execute("ALTER TABLE fetchwork.host DROP COLUMN settled_at CASCADE")
    with pytest.raises(SchemaMismatch, match="if a checkout from before the first release made"):
        schema.upgrade(conninfo)


def test_there_is_nothing_to_upgrade_in_an_empty_database(empty_database: MakeDatabase) -> None:
    with pytest.raises(
        SchemaMismatch, match="the database has no schema 'fetchwork': run `fetchwork db init`"
    ):
        schema.upgrade(empty_database())


def test_who_may_not_make_a_schema_is_told_which_file_failed(empty_database: MakeDatabase) -> None:
    conninfo, role = empty_database(), f"nobody_much_{os.getpid()}"
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
        try:
            with pytest.raises(DatabaseRefused) as caught:
                schema.init(make_conninfo(conninfo, user=role, password="x"))
        finally:
            connection.execute(f"DROP ROLE {role}")
    assert re.fullmatch(
        r"cannot apply 'migrations/0001_base.sql': database refused the call: permission denied for database .+",
        str(caught.value),
    )
    assert schema.status(conninfo).installed == ()


def test_role_without_any_attribute_may_own_a_queue_that_works(empty_database: MakeDatabase) -> None:
    """As with a provider that keeps the superuser: the roles exist, and the owner may create schemas."""
    conninfo, owner = empty_database(), f"queue_owner_{os.getpid()}"
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {owner} LOGIN PASSWORD 'x' NOCREATEROLE NOSUPERUSER")
        try:
            connection.execute(f"GRANT CREATE ON DATABASE {connection.info.dbname} TO {owner}")
            ordinary = make_conninfo(conninfo, user=owner, password="x")
            assert schema.init(ordinary) == list(schema.status(conninfo).known)
            assert schema.upgrade(ordinary) == []
            with psycopg.connect(ordinary, autocommit=True) as own:
                queue = DirectQueue(own)
                job = queue.submit()
                run = queue.started()
                queue.call("maintain_queue")
                assert queue.finish(run) == "completed"
                assert queue.status(job) == 4
                queue.act("remove", queue.submit())
                queue.call("maintain_tables")
                queue.scalar("after_restore")
                assert queue.events(job)[-1] == 5
        finally:
            connection.execute("DROP SCHEMA IF EXISTS fetchwork CASCADE")
            connection.execute(f"DROP OWNED BY {owner}")
            connection.execute(f"DROP ROLE {owner}")


def test_a_file_that_fails_takes_all_before_it_back(
    empty_database: MakeDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    conninfo = empty_database()
    shutil.copytree(schema.sql_directory(), tmp_path / "sql")
    (tmp_path / "sql/views/jobs.sql").write_text("SELECT 7 % 4; SELECT 1 / 0;")
    monkeypatch.setattr(schema, "sql_directory", lambda: tmp_path / "sql")
    with pytest.raises(DatabaseRefused, match=r"^cannot apply 'views/jobs.sql': .*division by zero$"):
        schema.init(conninfo)
    assert schema.status(conninfo).installed == ()


def test_a_database_that_cannot_be_asked_is_named_as_everywhere(empty_database: MakeDatabase) -> None:
    nowhere = make_conninfo(empty_database(), host="/nowhere")
    for call in (schema.status, schema.init, schema.upgrade):
        with pytest.raises(DatabaseUnavailable, match=r"^database does not answer: "):
            call(nowhere)
        with pytest.raises(DatabaseRefused):
            call("no such thing")


# Another server


def test_a_restore_into_a_younger_cluster_loses_no_event_and_no_run(
    postgres: PostgresServer, conninfo: str, connect: Connect, empty_database: MakeDatabase
) -> None:
    old = DirectQueue(connect())
    old.submit_many([{} for _ in range(4)])
    old.finish(old.started("slot1@h1"), **EXITED, ExitCode=0)
    live = old.started("slot2@h1")
    # the old server has seen a billion transactions more than the new one
    seen, cursor = window(old, (0, 0))
    old.connection.execute("UPDATE fetchwork.event SET xid = (xid::text::bigint + 1000000000)::text::xid8")
    old.connection.execute(
        "UPDATE fetchwork.heartbeat SET server = '1/00000001', events_server = '1/00000001', running_as = NULL"
    )
    there = empty_database()
    dump = program(postgres, "pg_dump", conninfo)
    program(postgres, "psql", there, "-q", "-X", "-v", "ON_ERROR_STOP=1", given=dump)
    with psycopg.connect(there, autocommit=True) as connection:
        new = DirectQueue(connection)
        new.check()
        # a submitter is quicker than the first agent
        early = new.submit()
        assert new.call("sequence_events")[0]["sequenced"] == 0
        assert new.call("maintain_queue")[0]["reaped"] == 0
        new.check()
        late = new.submit()
        events, cursor = window(new, cursor)
        assert [
            new.rows("SELECT ClusterId FROM fetchwork.events WHERE EventId = %s", event)[0][0]
            for event in events
        ] == [
            int(early.split(".")[0]),
            int(late.split(".")[0]),
        ]
        everything, _ = window(new, (0, 0))
        assert everything == seen + events
        # the run's host comes back or does not
        assert new.status(live.job) == 2
        new.pass_time(61)
        new.connection.execute("UPDATE fetchwork.heartbeat SET reaped_at = clock_timestamp()")
        assert new.scalar("reap") == 1
        assert new.status(live.job) == 1
        assert window(new, cursor)[0] != []
        new.check()


def test_a_recovery_to_an_earlier_point_puts_new_events_behind_every_cursor(connect: Connect) -> None:
    queue = DirectQueue(connect())
    queue.submit()
    _, (batch, event) = window(queue, (0, 0))
    queue.connection.execute(
        "UPDATE fetchwork.heartbeat SET server = 'this/1', events_server = 'this/1', running_as = NULL, reaped_at = clock_timestamp()"
    )
    # of the timeline that was abandoned
    cursor = (batch + 5000000, event + 7)
    queue.scalar("reap")
    queue.submit()
    assert len(window(queue, cursor)[0]) == 1


def test_a_server_that_stays_the_same_changes_nothing(queue: DirectQueue) -> None:
    for _ in range(3):
        queue.scalar("reap")
    assert queue.value("SELECT last_value FROM fetchwork.event_batch") == 1


def test_putting_events_behind_twice_is_harmless(connect: Connect) -> None:
    queue = DirectQueue(connect())
    queue.submit()
    everything, cursor = window(queue, (0, 0))
    for _ in range(2):
        queue.scalar("after_restore")
    queue.submit()
    assert len(window(queue, cursor)[0]) >= 1
    assert window(queue, (0, 0))[0][: len(everything)] == everything


def test_a_page_of_events_ends_where_it_says_and_goes_on_there(queue: DirectQueue) -> None:
    for _ in range(5):
        queue.submit()
    queue.call("sequence_events")
    cursor, got, more = (0, 0), list[int](), True
    while more:
        events, cursor, more = page(queue, cursor, 2)
        got += events
    assert got == [1, 2, 3, 4, 5]


def test_an_event_of_a_transaction_that_is_still_open_is_not_passed_over(queue: DirectQueue) -> None:
    queue.submit()
    slow = queue.another(autocommit=False)
    slow.submit()  # 1. not committed
    queue.submit()  # 2.
    events, cursor = window(queue, (0, 0))
    assert events == [1, 3]
    slow.connection.commit()  # 3.
    assert window(queue, cursor)[0] == [2]
