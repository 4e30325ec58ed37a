"""A host joins over a network: whom it trusts, which invitations it takes, and how an authority is changed."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from fetchwork import config
from fetchwork.cli.host import cli as host_command
from fetchwork.db import schema
from fetchwork.errors import FetchworkError
from fetchwork.pool.postgres import PostgresServer, system_programs
from tests.condor.readme_host import DATABASE, server_with_tls
from tests.support.joining import invite, join, run_host
from tests.support.waiting import until

PREFIX = "fetchwork-invitation:"


@pytest.fixture(scope="module")
def servers(public_directory: Callable[[], Path]) -> Iterator[list[tuple[PostgresServer, Path]]]:
    """Two servers of one name, each with an authority of its own; the first has a queue."""
    if system_programs() is None:
        pytest.skip("no PostgreSQL of the system, which has TLS: nothing in /usr/lib/postgresql/*/bin")
    with ExitStack() as stack:
        made = [stack.enter_context(server_with_tls(public_directory())) for _ in range(2)]
        for server, _ in made:
            server.create_database("jobs")
            schema.init(server.conninfo("jobs"))
        yield made


@pytest.fixture
def root(servers: list[tuple[PostgresServer, Path]]) -> str:
    """An administrator's connection string, with the server's name as hosts know it."""
    return named(servers[0][0])


def named(server: PostgresServer) -> str:
    return server.conninfo("jobs").replace("host=127.0.0.1", f"host={DATABASE} hostaddr=127.0.0.1")


@pytest.fixture
def invitation(root: str, servers: list[tuple[PostgresServer, Path]]) -> str:
    return invite(root, "--ca", servers[0][1])


def contents(invitation: str) -> dict[str, Any]:
    coded = invitation.removeprefix(PREFIX)
    fields: dict[str, Any] = json.loads(base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)))
    return fields


def edited(invitation: str, **changes: Any) -> str:
    """The invitation with other contents; those of ``server`` beside the others there."""
    fields = contents(invitation)
    fields = {**fields, **changes, "server": {**fields["server"], **changes.get("server", {})}}
    return PREFIX + base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def tried(invitation: str, directory: Path) -> Result:
    words = [
        "join",
        invitation,
        "--name",
        "ep1",
        "--state",
        directory / "id",
        "--config",
        directory / "x.toml",
    ]
    return CliRunner().invoke(host_command, [*map(str, words), "--user", "root"])


def refusal(invitation: str, directory: Path) -> str:
    """The error of a join that is refused; nothing of an identity is left but the password to try again."""
    ended = tried(invitation, directory)
    assert isinstance(ended.exception, FetchworkError), ended.output
    assert not (directory / "x.toml").exists()
    assert not (directory / "id" / "main.pgpass").exists()
    text = str(ended.exception)
    assert "\n" not in text
    return text


def used(root: str) -> int:
    return int(json.loads(run_host(root, "invitations", "--json"))[0]["used"])


def test_a_server_with_another_certificate_gets_nothing(
    root: str, invitation: str, servers: list[tuple[PostgresServer, Path]], tmp_path: Path
) -> None:
    other = servers[1][0]
    before = other.log.read_text()
    misled = edited(invitation, server={"port": str(other.port)})
    assert "certificate verify failed" in refusal(misled, tmp_path)
    # it saw no name and no proof of a password
    new = other.log.read_text().removeprefix(before)
    assert "fetchwork_invited" not in new
    assert "password" not in new
    assert used(root) == 0


def test_a_server_without_tls_or_with_another_name_gets_nothing(
    root: str, invitation: str, servers: list[tuple[PostgresServer, Path]], tmp_path: Path
) -> None:
    elsewhere = edited(invitation, server={"host": "other.example.org"})
    assert 'does not match host name "other.example.org"' in refusal(elsewhere, tmp_path)
    server = servers[0][0]
    server.query("ALTER SYSTEM SET ssl = off")
    server.query("SELECT pg_reload_conf()")
    try:
        assert "server does not support SSL" in refusal(invitation, tmp_path)
    finally:
        server.query("ALTER SYSTEM RESET ssl")
        server.query("SELECT pg_reload_conf()")
    assert used(root) == 0


def test_what_is_edited_in_an_invitation_gives_no_right(root: str, invitation: str, tmp_path: Path) -> None:
    for changes in ({"password": "x" * 43}, {"server": {"user": "postgres"}}, {"server": {"user": "nobody"}}):
        assert "password authentication failed" in refusal(edited(invitation, **changes), tmp_path)
    assert "database" in refusal(edited(invitation, server={"dbname": "postgres"}), tmp_path)
    assert "invitation" in refusal(edited(invitation, server={"sslmod": "require"}), tmp_path)
    assert used(root) == 0
    # the bounds are in the database, not in the text
    bounded = invite(root, "--name", "ep1", "--queue", "default", "--ca", _authority(invitation, tmp_path))
    file = join(root, edited(bounded, queues=["default", "secret"]), tmp_path)
    with psycopg.connect(config.load(file).databases["main"].conninfo) as host:
        ((queues,),) = host.execute("SELECT queues FROM fetchwork.own_host_state()").fetchall()
        assert queues == ["default"]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            host.execute("SELECT fetchwork.act_for('alice')")


def _authority(invitation: str, directory: Path) -> Path:
    path = directory / "ca.crt"
    path.write_text(contents(invitation)["ca"])
    return path


def test_one_invitation_opens_so_many_sessions_and_no_more(root: str, invitation: str) -> None:
    fields = contents(invitation)
    server = {**fields["server"], "sslmode": "require", "password": fields["password"]}
    with ExitStack() as stack:
        with pytest.raises(psycopg.OperationalError, match="too many connections for role"):
            for _ in range(40):
                stack.enter_context(psycopg.connect(**server))
        psycopg.connect(root).close()


def test_the_authority_is_changed_while_hosts_are_at_work(
    root: str, invitation: str, servers: list[tuple[PostgresServer, Path]], tmp_path: Path
) -> None:
    (server, old), (_, new) = servers
    file = join(root, invitation, tmp_path, "ep9")
    conninfo = config.load(file).databases["main"].conninfo
    trusted = tmp_path / "id" / "main.crt"
    psycopg.connect(conninfo).close()
    # as in docs/security.md: the new certificate first
    before = trusted.read_text()
    trusted.write_text(before + new.read_text())
    psycopg.connect(conninfo).close()
    files = {name: old.with_name(name).read_bytes() for name in ("server.crt", "server.key")}
    try:
        for name in files:
            old.with_name(name).write_bytes(new.with_name(name).read_bytes())
        server.query("SELECT pg_reload_conf()")
        _until_it_is_used(server, new)
        psycopg.connect(conninfo).close()
        trusted.write_text(before)
        with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
            psycopg.connect(conninfo)
    finally:
        for name, content in files.items():
            old.with_name(name).write_bytes(content)
        server.query("SELECT pg_reload_conf()")
        _until_it_is_used(server, old)


def _until_it_is_used(server: PostgresServer, authority: Path) -> None:
    def verified() -> bool:
        try:
            psycopg.connect(f"{named(server)} sslmode=verify-full sslrootcert={authority}").close()
        except psycopg.OperationalError:
            return False
        return True

    until(verified, f"a certificate that {authority} has signed")
