"""``fetchwork host invite``: the server's address in an invitation, however libpq finds that server."""

from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from fetchwork.config.identity import InvitationText, server_for_hosts
from fetchwork.errors import ConfigError
from tests.queue.conftest import Run


@pytest.fixture
def named_by(
    conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fetchwork: Run
) -> dict[str, str]:
    """The settings of the test's database, which only a service file has."""
    settings = {key: str(value) for key, value in conninfo_to_dict(conninfo).items()}
    file = tmp_path / "services"
    file.write_text("\n".join(["[here]", *(f"{key}={value}" for key, value in settings.items())]))
    monkeypatch.delenv("FETCHWORK_DSN")
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    monkeypatch.setenv("PGSERVICE", "here")
    return settings


def server(told: str) -> dict[str, str]:
    return InvitationText.decode(told.split(maxsplit=1)[0]).server


def test_an_invitation_has_the_port_of_a_service(fetchwork: Run, named_by: dict[str, str]) -> None:
    invited = server(fetchwork("host", "invite").out)
    assert (invited["host"], invited["port"]) == (named_by["host"], named_by["port"])
    invited = server(fetchwork("host", "invite", "--address", "db.example.org").out)
    assert (invited["host"], invited["port"]) == ("db.example.org", named_by["port"])


@pytest.mark.parametrize("settings", [{}, {"host": "/run/postgresql", "port": "5433"}, {"host": "@here"}])
def test_a_server_of_this_machine_alone_needs_an_address(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="hosts can't reach a database of this machine alone"):
        server_for_hosts(settings, None, verified=False)
    reached = server_for_hosts(settings, "db.example.org", verified=False)
    assert reached == {**settings, "host": "db.example.org"}
