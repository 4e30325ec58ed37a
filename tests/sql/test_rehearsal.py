"""Upgrades that are undone: the plan of one, and a schema that is not as this fetchwork makes it."""

import re
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from fetchwork.cli import run
from fetchwork.db import rehearsal, schema
from fetchwork.db.rehearsal import Difference
from fetchwork.errors import DatabaseRefused, DatabaseUnavailable, SchemaMismatch
from tests.conftest import Connect
from tests.sql.test_upgrade import catalog
from tests.support.direct_queue import DirectQueue
from tests.support.later_schema import MIGRATIONS, later_schema


@pytest.fixture
def queue(connection: psycopg.Connection) -> DirectQueue:
    """The queue in the test's own database, whose tables others change."""
    return DirectQueue(connection)


def test_schema_as_this_fetchwork_makes_it_has_no_difference(conninfo: str, queue: DirectQueue) -> None:
    # with partitions, jobs and hosts
    queue.submit(cmd="/bin/true")
    queue.scalar("maintain_tables")
    before = catalog(conninfo)
    assert rehearsal.check(conninfo) == []
    assert catalog(conninfo) == before
    assert queue.value("SELECT count(*) FROM fetchwork.jobs") == 1


@pytest.mark.parametrize(
    ("statement", "difference"),
    [
        ("ALTER TABLE fetchwork.host ADD rack text", ("more", "column", "fetchwork.host.rack")),
        ("ALTER TABLE fetchwork.job ALTER owner DROP NOT NULL", ("changed", "column", "fetchwork.job.owner")),
        ("DROP VIEW fetchwork.owners", ("missing", "view", "fetchwork.owners")),
        (
            "CREATE OR REPLACE VIEW fetchwork.owners AS SELECT 'alice'::text AS owner",
            ("changed", "view", "fetchwork.owners"),
        ),
        (
            "CREATE FUNCTION fetchwork.mine() RETURNS integer LANGUAGE sql RETURN 1",
            ("more", "function", "fetchwork.mine()"),
        ),
        (
            "GRANT EXECUTE ON FUNCTION fetchwork.fold TO fetchwork_reader",
            ("changed", "rights", "fetchwork.fold()"),
        ),
        ("CREATE INDEX mine ON fetchwork.host (name)", ("more", "index", "fetchwork.mine")),
        (
            "ALTER TYPE fetchwork.run_outcome ADD VALUE 'other'",
            ("changed", "type", "fetchwork.run_outcome"),
        ),
    ],
)
def test_each_change_by_hand_is_found(
    statement: str, difference: tuple[str, str, str], conninfo: str, connection: psycopg.Connection
) -> None:
    connection.execute(statement)
    assert Difference(*difference) in rehearsal.check(conninfo)  # type: ignore[arg-type]


def test_commands_print_plan_and_differences(
    conninfo: str, connection: psycopg.Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--dsn", conninfo, "db", "check"]) == 0
    assert capsys.readouterr().out == "the schema is as this fetchwork makes it\n"
    connection.execute("DROP VIEW fetchwork.owners")
    assert run(["--dsn", conninfo, "db", "check"]) == 1
    found, _, advice = capsys.readouterr().out.splitlines()
    assert found == "missing  rights fetchwork.owners"
    assert advice.startswith("`fetchwork db upgrade` makes functions, views and rights anew")
    assert run(["--dsn", conninfo, "db", "upgrade", "--plan"]) == 0
    planned = capsys.readouterr().out.splitlines()
    assert planned[:3] == [
        "migrations: none",
        "new      rights fetchwork.owners",
        "new      view fetchwork.owners",
    ]
    assert re.fullmatch(r"locks for [0-9.]+ s: \d+ views", planned[3])
    assert run(["--dsn", conninfo, "db", "upgrade"]) == 0
    assert run(["--dsn", conninfo, "db", "check"]) == 0


def test_jobs_go_on_while_a_schema_is_checked(
    conninfo: str, queue: DirectQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted: list[str] = []
    made = schema.apply

    def with_a_job(*arguments: object, **options: object) -> list[int]:
        applied = made(*arguments, **options)  # type: ignore[arg-type]
        submitted.append(queue.submit(cmd="/bin/true"))
        return applied

    monkeypatch.setattr(schema, "apply", with_a_job)
    assert rehearsal.check(conninfo) == []
    assert queue.rows("SELECT jobid FROM fetchwork.jobs") == [(submitted[0],)]


def test_only_the_owner_of_a_schema_checks_it(conninfo: str) -> None:
    with pytest.raises(DatabaseRefused):
        rehearsal.check(make_conninfo(conninfo, options="-c role=fetchwork_reader"))


def test_plan_names_migrations_changes_and_locks_and_changes_nothing(
    conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = rehearsal.plan(conninfo)
    assert (plan.migrations, plan.changes, plan.locked_tables) == ([], [], [])
    assert "fetchwork.jobs" in plan.locked_views
    before, was = catalog(conninfo), schema.latest()
    later = later_schema(tmp_path, *MIGRATIONS)
    monkeypatch.setattr(schema, "sql_directory", lambda: later)
    plan = rehearsal.plan(conninfo)
    assert plan.migrations == [was + 1, was + 2]
    assert Difference("missing", "column", "fetchwork.host.rack") in plan.changes
    assert Difference("missing", "constraint", "host_rack_is_known of fetchwork.host") in plan.changes
    assert plan.locked_tables == ["fetchwork.host"]
    assert plan.seconds > 0
    assert catalog(conninfo) == before
    with pytest.raises(SchemaMismatch, match="another version of the schema"):
        rehearsal.check(conninfo)


def test_plan_does_not_wait_long_for_a_lock(
    conninfo: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal, "LOCK_MS", 100)
    with connect().transaction() as held:
        held.connection.execute("LOCK fetchwork.owners IN ACCESS SHARE MODE")
        with pytest.raises(DatabaseUnavailable, match=r"cannot apply 'views/owners.sql': .*lock timeout"):
            rehearsal.plan(conninfo)
    assert rehearsal.plan(conninfo).changes == []
