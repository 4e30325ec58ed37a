"""The doctor names a database whose schema is not the host's."""

from fetchwork.db import schema
from tests.doctor.conftest import TestHost


def test_database_of_an_older_schema(host: TestHost) -> None:
    host.connection.execute("DELETE FROM fetchwork.migration WHERE version = %s", [schema.latest()])
    line = host.fails(subject="schema")
    assert f"this fetchwork speaks {schema.latest()}" in line.text
    assert "fetchwork db upgrade" in line.remedy


def test_database_of_an_earlier_checkout(host: TestHost) -> None:
    host.connection.execute("INSERT INTO fetchwork.migration (version, name) VALUES (4, 'restore')")
    host.fails(text="version 4 of a checkout from before the first release", remedy="fetchwork db init")


def test_database_of_a_newer_schema(host: TestHost) -> None:
    host.connection.execute("INSERT INTO fetchwork.migration (version, name) VALUES (9999, 'later')")
    (line,) = host.failures()
    assert line.text == f"main: version 9999, this fetchwork speaks {schema.latest()}"
    assert line.remedy == "upgrade fetchwork on this host"


def test_database_without_schema(host: TestHost) -> None:
    host.connection.execute("DROP SCHEMA fetchwork CASCADE")
    (line,) = host.failures()
    assert line.text == "main: the database has no schema 'fetchwork'"
    assert line.remedy == "fetchwork db init"
