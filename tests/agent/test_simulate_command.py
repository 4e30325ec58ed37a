"""``fetchwork simulate`` against a database, with agents of its own and with an agent that is running."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.types.json import Jsonb

from fetchwork.cli.simulate import cli
from fetchwork.config.toml import to_toml
from fetchwork.errors import ConfigError
from fetchwork.simulate.agents import AgentProcess
from fetchwork.simulate.hookcalls import DEADLINES_S
from tests.support.waiting import PATIENCE_S

JOBS = 12
UNTIL_DONE = ["--jobs", JOBS, "--seconds", int(PATIENCE_S), "--json"]


@pytest.fixture
def directory(public_directory: Callable[[], Path]) -> Path:
    return public_directory()


@pytest.fixture
def host_file(conninfo: str, directory: Path) -> Path:
    """A host file with two keywords; JOBS jobs wait, each for a while in a simulated host's slot."""
    ad = {"Cmd": "/bin/sleep", "Args": "20", "Owner": "nobody", "Iwd": "/"}
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SELECT fetchwork.submit_many(%s::jsonb[])", [[Jsonb(ad)] * JOBS])
    tables: dict[str, Any] = {
        "database": {"main": {"conninfo": conninfo}},
        "host": {"name": "ep1"},
        "agent": {"socket": str(directory / "ep1.sock"), "spool": str(directory / "ep1-spool"), "user": ""},
        "keyword": {
            "FETCHWORK": {"fetch_delay_s": 1},
            "OTHER": {"queues": ["empty"], "max_fetch_wait_s": 31},
        },
        "slots": {"default": "FETCHWORK"},
    }
    file = directory / "host.toml"
    file.write_text(to_toml(tables))
    return file


def _simulated(host_file: Path, *options: object) -> dict[str, Any]:
    """The JSON report of slots that run the jobs to their end."""
    words = ["-c", host_file, "--keyword", "FETCHWORK", *options, "--scale", 20, *UNTIL_DONE]
    ended = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    told: dict[str, Any] = json.loads(ended.output)
    return told


def test_hosts_with_agents_of_their_own(conninfo: str, host_file: Path) -> None:
    told = _simulated(host_file, "--hosts", 2, "--slots", 3)
    assert told["counts"]["job_exit exit"] == JOBS
    assert told["jobs_per_second"] > 0
    assert set(told["hooks_ms"]) >= {"fetch_work", "reply_fetch", "prepare_job", "job_exit"}
    with psycopg.connect(conninfo) as connection:
        by_host = connection.execute(
            "SELECT h.name, count(*) FROM fetchwork.run_history AS r JOIN fetchwork.host AS h USING (host_id)"
            " WHERE r.outcome = 'completed' GROUP BY h.name ORDER BY h.name"
        ).fetchall()
    assert [name for name, _ in by_host] == ["sim1", "sim2"]
    assert sum(count for _, count in by_host) == JOBS


def test_partitionable_slot_of_this_host(conninfo: str, host_file: Path, directory: Path) -> None:
    agent = AgentProcess(directory, "ep1", conninfo)
    asyncio.run(agent.start())
    try:
        told = _simulated(host_file, "--slots", 4, "--partitionable")
    finally:
        asyncio.run(agent.stop())
    assert told["counts"]["job_exit exit"] == JOBS
    with psycopg.connect(conninfo) as connection:
        slots = connection.execute("SELECT DISTINCT slot FROM fetchwork.run_history").fetchall()
    assert all(slot.startswith("slot1_") for (slot,) in slots)


def test_keyword_has_to_be_named_where_there_are_several(host_file: Path) -> None:
    with pytest.raises(ConfigError, match="has several keywords; allowed for --keyword: FETCHWORK, OTHER"):
        CliRunner().invoke(cli, ["-c", str(host_file)], catch_exceptions=False)


def test_what_is_printed_for_people_names_the_rate(host_file: Path) -> None:
    arguments = [
        "-c",
        str(host_file),
        "--keyword",
        "FETCHWORK",
        "--hosts",
        "1",
        "--seconds",
        "3",
        "--scale",
        "20",
    ]
    ended = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert ended.exit_code == 0
    assert "jobs/s" in ended.output.splitlines()[0]
    assert "prepare_job" in ended.output


def test_fetch_waits_for_as_long_as_its_keyword_says(
    host_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DEADLINES_S, "fetch_work", 0.2)
    words = ["-c", host_file, "-k", "OTHER", "--hosts", 1, "--slots", 2, "--seconds", 3, "--json"]
    ended = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    counts = json.loads(ended.output)["counts"]
    assert counts["fetch_work"] == 2
    assert "no work" not in counts
