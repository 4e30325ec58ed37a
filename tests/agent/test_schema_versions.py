"""A host and a database of different schema versions: a later one is accepted, an earlier one is reported."""

from pathlib import Path

import pytest

from fetchwork.agent import client
from fetchwork.db import schema
from tests.agent.conftest import Hooks, MakeAgent
from tests.support.later_schema import MIGRATIONS, later_schema
from tests.support.releases import LATER, Release
from tests.support.waiting import PATIENCE_S, until_async


async def test_host_goes_on_with_a_schema_later_than_its_own(hooks: Hooks) -> None:
    jobs = [hooks.submit(), hooks.submit()]
    ad = await hooks.started_job()
    hooks.database.query(
        "INSERT INTO fetchwork.migration (version, name) VALUES (9999, 'later') RETURNING version"
    )
    assert (await hooks.exit(ad, ExitCode=3, JobPid=7)).reply.code == ""
    # a host that says hello for the first time is told the same
    await hooks.context.session.say_hello(PATIENCE_S)
    await hooks.exit(await hooks.started_job(), ExitCode=4, JobPid=7)
    assert [hooks.job_of(job)["exitcode"] for job in jobs] == [3, 4]


async def test_host_that_is_later_than_the_schema_is_told_what_to_do_and_goes_on_afterwards(
    hooks: Hooks, conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks.submit()
    was = schema.latest()
    later = later_schema(tmp_path, MIGRATIONS[0])
    monkeypatch.setattr(schema, "sql_directory", lambda: later)
    answer = await hooks.ask("fetch_work", b'Name = "slot1@vm"\nState = "Unclaimed"\nActivity = "Idle"\n')
    assert (answer.reply.code, answer.reply.body) == ("unavailable", b"")
    assert answer.reply.message.endswith(
        f"has schema {was}, this fetchwork needs {was + 1}: run 'fetchwork db upgrade'"
    )
    assert schema.upgrade(conninfo) == [was + 1]
    assert await hooks.fetch()


@pytest.mark.executed
async def test_installed_agent_of_a_later_release_waits_for_the_upgrade_and_goes_on(
    make_agent: MakeAgent, later_release: Release, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    later_release.starts(monkeypatch)
    agent = make_agent()
    await agent.start()
    assert (await agent.status())["version"] == LATER
    was = schema.latest()
    told = f"has schema {was}, this fetchwork needs {was + 2}: run 'fetchwork db upgrade'"
    await until_async(lambda: told in agent.log.read_text(), "its line")
    later_release.run("--dsn", conninfo, "db", "upgrade")
    await until_async(lambda: client.status(agent.socket, PATIENCE_S)["databases"]["main"]["state"] == "up")
