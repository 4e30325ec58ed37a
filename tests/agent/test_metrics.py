"""The metrics that an agent exports to Prometheus."""

import asyncio
import socket
import time
import urllib.error
import urllib.request
from typing import cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fetchwork import __version__
from fetchwork.agent import client
from fetchwork.agent.client import AgentStatus
from fetchwork.agent.metrics import HOOKS, AgentMetrics
from fetchwork.handlers.context import Outcome, Subject
from fetchwork.hook.wire import Reply, Request
from fetchwork.pool.ports import free_port
from fetchwork.simulate.agents import AgentProcess
from tests.agent.conftest import Jobs, MakeAgent, slot_ad
from tests.metrics.names import documented
from tests.support.waiting import PATIENCE_S, until_async


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def agent(make_agent: MakeAgent, port: int) -> AgentProcess:
    return make_agent(agent={"metrics": f"127.0.0.1:{port}"})


async def ask(agent: AgentProcess, name: str, body: bytes = b"") -> Reply:
    return await asyncio.to_thread(client.ask, agent.socket, Request(name, body, keyword="FW"), PATIENCE_S)


async def read(port: int) -> str:
    def get() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())

    return await asyncio.to_thread(get)


def samples(text: str) -> dict[tuple[str, ...], float]:
    return {
        (one.name, *(value for _, value in sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def asked(port: int, path: str) -> tuple[int, str]:
    """The status and the text of an answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def test_agent_is_ready_when_its_database_has_answered(agent: AgentProcess, port: int) -> None:
    await agent.start()
    ready = (200, f"ok: fetchwork {__version__}\n")
    async with asyncio.timeout(PATIENCE_S):
        while await asyncio.to_thread(asked, port, "/readyz") != ready:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("databases", "answer"),
    [
        (None, (503, "the agent does not answer within 5 s\n")),
        ({"main": ("unavailable", "no route")}, (503, "main: no route\n")),
        (
            {"main": ("taken", "another agent"), "b": ("unknown", None)},
            (503, "main: another agent; b: unknown\n"),
        ),
        ({"main": ("unavailable", "no route"), "b": ("up", None)}, (200, f"ok: fetchwork {__version__}\n")),
    ],
)
def test_agent_is_ready_if_one_of_its_databases_is_up(
    databases: dict[str, tuple[str, str | None]] | None, answer: tuple[int, str], port: int
) -> None:
    states = {name: {"state": state, "problem": why} for name, (state, why) in (databases or {}).items()}
    status = None if databases is None else cast(AgentStatus, {"databases": states})
    metrics = AgentMetrics(lambda: status, lambda: 0, lambda: 1.0)
    server = metrics.serve("127.0.0.1", port)
    try:
        assert asked(port, "/readyz") == answer
        assert asked(port, "/healthz")[0] == 200
    finally:
        metrics.close()
        server.close()


async def test_answers_are_counted_by_hook_and_outcome(agent: AgentProcess, port: int, jobs: Jobs) -> None:
    await agent.start()
    jobs.submit(cmd="/bin/true")
    assert (await ask(agent, "fetch_work", slot_ad(Name="slot1@vm"))).body
    assert not (await ask(agent, "fetch_work", slot_ad(Name="slot2@vm"))).body
    # any account may send an unknown request: it gets no label of its own
    await ask(agent, "name_that_nobody_knows")
    counted = samples(await read(port))
    assert counted["HookRequests_total", "fetch_work", "offered"] == 1
    assert counted["HookRequests_total", "fetch_work", "nothing"] == 1
    hooks = {labels[0] for name, *labels in counted if name == "HookRequests_total"}
    assert hooks <= {*HOOKS, "other"}
    assert "name_that_nobody_knows" not in str(counted)
    assert counted["HookTime_seconds_count", "fetch_work"] == 2
    assert counted["DatabaseUp", "main"] == 1
    assert counted["SpooledReports",] == 0


def test_chains_are_counted_by_the_answers_to_their_runners() -> None:
    metrics = AgentMetrics(lambda: None, lambda: 0, lambda: 1.0)
    for name, outcome, details in (
        ("chain_first", "begun", {}),
        ("chain_next", "completed", {"next": "1.1"}),
        ("chain_next", "again", {}),
        ("chain_next", "completed", {"chain_over": "no_job"}),
        # no request of a runner
        ("job_exit", "completed", {"next": "1.1", "chain_over": "time"}),
    ):
        metrics.answered(name, Subject("slot1").answer(cast(Outcome, outcome), None, **details), 0.01)
    assert metrics.registry.get_sample_value("JobsStartedInChains_total") == 2
    assert metrics.registry.get_sample_value("ChainsEnded_total", {"reason": "no_job"}) == 1
    assert metrics.registry.get_sample_value("ChainsEnded_total", {"reason": "time"}) is None


async def test_warnings_are_counted_by_their_event(agent: AgentProcess, port: int) -> None:
    await agent.start()
    # a file that is not a report
    (agent.spool / "1-1.report").write_text("no report")
    await until_async(lambda: "spool_rejected" in agent.log.read_text())
    counted = samples(await read(port))
    assert counted["LogWarnings_total", "spool_rejected"] == 1
    assert time.time() - counted["LastLogWarning_timestamp_seconds", "spool_rejected"] < PATIENCE_S
    assert 0 < counted["SpoolFree_ratio",] <= 1


async def test_the_document_lists_every_metric_of_an_agent(
    agent: AgentProcess, port: int, jobs: Jobs
) -> None:
    await agent.start()
    jobs.submit(cmd="/bin/true")
    await ask(agent, "fetch_work", slot_ad(Name="slot1@vm"))
    ends = {"counter": "_total", "info": "_info"}
    shown = {
        one.name + ends.get(one.type, "")
        for one in text_string_to_metric_families(await read(port))
        if not one.name.endswith("_created")
    }
    assert shown == documented("agent")


async def test_a_port_that_is_taken_keeps_no_agent_from_its_work(
    agent: AgentProcess, port: int, jobs: Jobs
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        await agent.start()
        jobs.submit(cmd="/bin/true")
        assert (await ask(agent, "fetch_work", slot_ad(Name="slot1@vm"))).body
        await until_async(lambda: "metrics_not_served" in agent.log.read_text())
