"""A host that joined by an invitation: its agent serves jobs, renews the identity, and ends when revoked."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.types.json import Jsonb

from fetchwork import config
from fetchwork.cli import host as host_command
from fetchwork.cli.simulate import cli as simulate
from fetchwork.config.identity import InvitationText, next_path, read_identity, write_identity
from fetchwork.simulate.agents import AgentProcess
from tests.agent.conftest import Jobs, MakeAgent
from tests.support.joining import invite, join, run_host
from tests.support.waiting import PATIENCE_S, until_async

JOBS = 8


@pytest.fixture
def directory(public_directory: Callable[[], Path]) -> Path:
    return public_directory()


@pytest.fixture
def joined(conninfo: str, directory: Path) -> Path:
    """The host file of ep1, which joined."""
    line = invite(conninfo, "--queue", "default")
    return join(conninfo, line, directory)


def conninfo_in(file: Path) -> str:
    return config.load(file).databases["main"].conninfo


@pytest.fixture
async def agent(make_agent: MakeAgent, joined: Path) -> AgentProcess:
    agent = make_agent("ep1")
    text = agent.file.read_text()
    own = config.load(agent.file).databases["main"].conninfo
    agent.file.write_text(text.replace(own, conninfo_in(joined)))
    assert conninfo_in(agent.file) == conninfo_in(joined)
    await agent.start()
    await until_async(lambda: "database_away" not in agent.log.read_text(), "its database")
    return agent


async def test_its_jobs_run_to_their_end(conninfo: str, agent: AgentProcess) -> None:
    ad = {"Cmd": "/bin/sleep", "Args": "20", "Owner": "nobody", "Iwd": "/"}
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SELECT fetchwork.submit_many(%s::jsonb[])", [[Jsonb(ad)] * JOBS])
    words = ["-c", agent.file, "--keyword", "FW", "--slots", 4, "--scale", 20]
    words += ["--jobs", JOBS, "--seconds", int(PATIENCE_S), "--json"]
    ended = await asyncio.to_thread(CliRunner().invoke, simulate, [str(word) for word in words])
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["counts"]["job_exit exit"] == JOBS
    assert "42501" not in agent.log.read_text()
    assert "may not" not in agent.log.read_text()


async def test_its_identity_is_renewed_while_it_runs(
    jobs: Jobs, directory: Path, agent: AgentProcess
) -> None:
    path = directory / "id" / "main.pgpass"
    before = read_identity(path)
    assert before is not None
    await agent.stop()
    # as after two thirds of its life
    write_identity(path, type(before)(before.role, before.password, 1, 0, 1))
    await agent.start()
    await until_async(
        lambda: read_identity(path) != before and "identity_renewed" in agent.log.read_text(), ""
    )
    after = read_identity(path)
    assert after is not None
    assert (after.role, after.generation) == (before.role, 2)
    assert after.password != before.password
    psycopg.connect(conninfo_in(agent.file)).close()
    assert not next_path(path).exists()
    assert path.stat().st_mode & 0o777 == 0o600
    assert after.password not in agent.log.read_text()


async def test_it_goes_on_after_a_crash_between_the_database_and_its_file(
    jobs: Jobs, directory: Path, agent: AgentProcess
) -> None:
    path = directory / "id" / "main.pgpass"
    before = read_identity(path)
    assert before is not None
    await agent.stop()
    write_identity(path, type(before)(before.role, before.password, 1, 0, 1))
    await agent.start()
    await until_async(lambda: "identity_renewed" in agent.log.read_text(), "its renewal")
    await agent.stop()
    path.rename(next_path(path))
    write_identity(path, before)
    await agent.start()
    await until_async(lambda: "identity_recovered" in agent.log.read_text(), "the next password")
    psycopg.connect(conninfo_in(agent.file)).close()


async def test_a_revoked_host_gets_no_jobs_and_says_so(
    conninfo: str, jobs: Jobs, agent: AgentProcess
) -> None:
    assert "is revoked" in run_host(conninfo, "revoke", "ep1")
    assert json.loads(run_host(conninfo, "list", "--json"))[0]["state"] == "revoked"

    async def says() -> bool:
        return (await agent.status())["databases"]["main"]["state"] != "up"

    async with asyncio.timeout(PATIENCE_S):
        while not await says():
            await asyncio.sleep(0.1)


def test_a_join_that_was_cut_off_is_repeated(conninfo: str, directory: Path) -> None:
    line = invite(conninfo)
    file = join(conninfo, line, directory)
    path = directory / "id" / "main.pgpass"
    got = read_identity(path)
    assert got is not None
    # as if it had ended before the file was written
    invited = InvitationText.decode(line).server["user"]
    write_identity(next_path(path), type(got)(invited, got.password, 0, 0, 0))
    path.unlink()
    join(conninfo, line, directory)
    again = read_identity(path)
    assert again is not None
    assert (again.role, again.password) == (got.role, got.password)
    psycopg.connect(conninfo_in(file)).close()
    invitations = json.loads(run_host(conninfo, "invitations", "--json"))
    assert [(row["used"], row["uses"], row["joined"]) for row in invitations] == [(1, 1, 1)]
    number = invitations[0]["number"]
    assert "has ended" in run_host(conninfo, "uninvite", number)
    assert "had ended before" in run_host(conninfo, "uninvite", number)


@pytest.mark.parametrize(
    "text", ["", "fetchwork-invitation:", "fetchwork-invitation:e30", "password", "x" * 9999]
)
def test_what_is_no_invitation_is_refused_without_being_shown(text: str, directory: Path) -> None:
    ended = CliRunner().invoke(
        host_command.cli, ["join", text, "--state", str(directory / "id"), "--user", "root"]
    )
    assert "is incomplete" in str(ended.exception)
    assert not (directory / "id").exists()


def test_a_host_that_is_gone_is_forgotten(conninfo: str, joined: Path) -> None:
    assert "is forgotten" in run_host(conninfo, "forget", "ep1")
    assert json.loads(run_host(conninfo, "list", "--json")) == []
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(conninfo_in(joined))
