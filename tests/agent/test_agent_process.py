"""The agent as a process: its life, signals and open files, and the starters and jobs that it watches."""

import asyncio
import contextlib
import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from fetchwork.agent import client
from fetchwork.agent.server import MAX_CONNECTIONS
from fetchwork.hook.wire import Reply, ReplyReader, Request, encode_request
from fetchwork.simulate.agents import PROGRAM, AgentProcess
from fetchwork.simulate.family import Actor
from tests.agent.conftest import Jobs, MakeAgent, slot_ad, with_attributes
from tests.support.waiting import PATIENCE_S
from tests.support.waiting import until_async as until

KEYWORD = "FW"
#: the account of the tests' jobs, if this process may become another
OWNER = "nobody" if os.geteuid() == 0 else None
#: an agent that asks for work only when it is notified, and does not poll now and then
LOOKS_ONLY_WHEN_TOLD = f"from fetchwork.agent import main\nmain.LOOK_S = 1e6\n{PROGRAM}"


@pytest.fixture
async def agent(make_agent: MakeAgent) -> AgentProcess:
    agent = make_agent()
    await agent.start()
    return agent


async def ask(
    agent: AgentProcess,
    name: str,
    body: bytes = b"",
    arg: str = "",
    *,
    actor: Actor | None = None,
    seconds: float = 60.0,
    **more: Any,
) -> Reply:
    """Send one request, from this process or from a process of the simulation."""
    request = Request(name, body, keyword=KEYWORD, arg=arg, deadline_ms=int(seconds * 1000), **more)
    if actor is None:
        return await asyncio.to_thread(client.ask, agent.socket, request, seconds + 2)
    link = await actor.connect(agent.socket)
    reader, writer = await asyncio.open_unix_connection(sock=link)
    writer.write(encode_request(request))
    replies = ReplyReader()
    while (reply := replies.next_reply()) is None:
        data = await asyncio.wait_for(reader.read(65536), seconds + 2)
        assert data, "the agent closed the connection"
        replies.feed(data)
    writer.close()
    return reply


class Run:
    """A fetched job with a starter that is a process, whose hooks are its children."""

    def __init__(self, agent: AgentProcess, ad: bytes, starter: Actor) -> None:
        self.agent, self.ad, self.starter = agent, ad, starter

    @classmethod
    async def begin(cls, agent: AgentProcess, startd: Actor, slot: str = "slot1") -> Self:
        reply = await ask(agent, "fetch_work", slot_ad(Name=f"{slot}@vm"))
        assert reply.body, reply
        starter = await startd.fork()
        run = cls(agent, reply.body, starter)
        reply = await run.hook("prepare_job", slot=slot)
        assert (reply.code, reply.exit) == ("", 0), reply
        return run

    async def hook(self, name: str, arg: str = "", *, slot: str = "slot1", **attributes: Any) -> Reply:
        hook = await self.starter.fork()
        try:
            return await ask(
                self.agent, name, with_attributes(self.ad, **attributes), arg, actor=hook, slot=slot
            )
        finally:
            hook.kill()


@pytest.fixture
def startd() -> Iterator[Actor]:
    startd = Actor.startd()
    starters, fork = [], startd.fork

    async def fork_and_remember() -> Actor:
        starters.append(await fork())
        return starters[-1]

    startd.fork = fork_and_remember  # type: ignore[assignment]
    yield startd
    for starter in starters:
        starter.kill()
    startd.kill()


# -- its life


async def test_status_tells_what_the_agent_serves_and_no_secret(agent: AgentProcess, conninfo: str) -> None:
    await until(lambda: client.status(agent.socket, PATIENCE_S)["databases"]["main"]["state"] == "up")
    told = await agent.status()
    assert told["keywords"] == {KEYWORD: ["default"]}
    assert (told["host"], told["pid"], told["runs"], told["waiting_fetches"]) == ("vm", agent.pid, [], 0)
    assert conninfo.split("password=")[1].split(maxsplit=1)[0] not in str(told)


async def test_as_many_files_are_allowed_as_connections_may_need(make_agent: MakeAgent) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    try:
        agent = make_agent()
        await agent.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    soft, hard = resource.prlimit(agent.pid, resource.RLIMIT_NOFILE)
    assert soft >= min(hard, MAX_CONNECTIONS + 1024)


async def test_socket_is_open_to_everybody_and_gone_at_the_end(agent: AgentProcess) -> None:
    assert agent.socket.stat().st_mode & 0o777 == 0o666
    await agent.stop()
    assert not agent.socket.exists()


async def test_second_agent_refuses_to_take_the_firsts_place(
    agent: AgentProcess, make_agent: MakeAgent
) -> None:
    second = make_agent()
    second.spawn()
    assert await asyncio.to_thread(second._process.wait, PATIENCE_S) == 1
    assert "another agent" in second.log.read_text()
    assert (await agent.status())["pid"] == agent.pid


async def test_socket_of_a_killed_agent_is_taken_over(agent: AgentProcess, make_agent: MakeAgent) -> None:
    agent.signal(signal.SIGKILL)
    assert agent.socket.exists()
    second = make_agent()
    await second.start()
    assert (await second.status())["pid"] == second.pid


async def test_hangup_opens_the_log_anew_and_serving_goes_on(agent: AgentProcess) -> None:
    old = agent.log.with_suffix(".1")
    agent.log.rename(old)
    agent.signal(signal.SIGHUP)
    await until(lambda: agent.log.exists() and "log_reopened" in agent.log.read_text())
    assert (await agent.status())["pid"] == agent.pid


def change(agent: AgentProcess, old: str, new: str) -> None:
    """Edit the agent's host file."""
    text = agent.file.read_text()
    assert old in text
    agent.file.write_text(text.replace(old, new))


async def test_hangup_has_it_draw_from_queues_that_its_host_file_names_now(
    make_agent: MakeAgent, jobs: Jobs
) -> None:
    agent = make_agent(queues=["default"], max_fetch_wait_s=30)
    await agent.start()
    jobs.database.query("SELECT fetchwork.set_queue('other')")
    jobs.submit(queue="other")
    waits = asyncio.ensure_future(ask(agent, "fetch_work", slot_ad(Name="slot1@vm"), seconds=40))
    await until(lambda: client.status(agent.socket)["waiting_fetches"] == 1)
    change(agent, '["default"]', '["default", "other"]')
    problems = list(client.host_file_problems(await agent.status()))
    assert problems == ["changed since the agent read it: run `fetchwork config install`, or condor_reconfig"]
    agent.signal(signal.SIGHUP)
    assert (await waits).body == b"", "it asked for the work of the queues before"
    reply = await ask(agent, "fetch_work", slot_ad(Name="slot1@vm"))
    assert b"ClusterId = 1" in reply.body
    told = await agent.status()
    assert told["keywords"] == {KEYWORD: ["default", "other"]}
    assert list(client.host_file_problems(told)) == []
    assert f"taken=keyword.{KEYWORD}.queues" in agent.log.read_text()


async def test_host_file_that_is_wrong_leaves_the_settings_before_in_force(agent: AgentProcess) -> None:
    change(agent, '"max_fetch_wait_s" = 0', '"max_fetch_wait_s" = 10\nqueue = 5')
    told = await asyncio.to_thread(client.reload, agent.socket)
    (problem,) = client.host_file_problems(told)
    assert problem.startswith(f"refused, the settings before are in force: {agent.file}:")
    assert "keyword.FW.queue" in problem
    assert "host_file_refused" in agent.log.read_text()
    change(agent, "queue = 5", "")
    told = await asyncio.to_thread(client.reload, agent.socket)
    assert list(client.host_file_problems(told)) == []


async def test_settings_that_a_running_agent_does_not_take_are_named(agent: AgentProcess) -> None:
    change(agent, '"lease_s" = 15', '"lease_s" = 16\npool_size = 3')
    change(agent, "dbname=", "application_name=x dbname=")
    # it decides whether replies are told
    agent.file.write_text(f"{agent.file.read_text()}\n[slots]\nfetched_only = true\n")
    told = await asyncio.to_thread(client.reload, agent.socket)
    assert told["host_file"]["needs_restart"] == ["agent.lease_s", "agent.pool_size"]
    assert "taken=database.main.conninfo,slots.fetched_only" in agent.log.read_text()
    change(agent, "dbname=", "dbname=other_")
    told = await asyncio.to_thread(client.reload, agent.socket)
    assert "database.main.conninfo" in told["host_file"]["needs_restart"]
    change(agent, "dbname=other_", "dbname=")
    change(agent, '"lease_s" = 16\npool_size = 3', '"lease_s" = 15')
    told = await asyncio.to_thread(client.reload, agent.socket)
    assert told["host_file"]["needs_restart"] == []


async def test_agent_that_cannot_read_its_host_file_logs_why(make_agent: MakeAgent, tmp_path: Path) -> None:
    agent = make_agent()
    agent.file.unlink()
    log = tmp_path / "log"
    command = [*agent._command, "--log-file", str(log)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)
    assert done.returncode == 1
    assert "agent_failed" in log.read_text()
    assert f"{agent.file}: cannot be read: No such file" in log.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
async def test_signal_ends_it_with_status_0_and_its_lease_given_back(
    agent: AgentProcess, jobs: Jobs, number: Any
) -> None:
    lease = "SELECT lease_until FROM fetchwork.host WHERE name = 'vm' AND lease_until IS NOT NULL"
    await until(lambda: jobs.database.query(lease))
    agent.signal(number)
    assert await asyncio.to_thread(agent._process.wait, PATIENCE_S) == 0
    assert not jobs.database.query(lease)


async def test_log_has_a_line_for_a_fetch_and_never_the_token(
    agent: AgentProcess, jobs: Jobs, startd: Actor
) -> None:
    jobs.submit()
    run = await Run.begin(agent, startd)
    await run.hook("job_exit", "exit", ExitCode=0, JobPid=1)
    token = run.ad.split(b'FetchWorkToken = "')[1].split(b'"')[0].decode()
    # a log line may be written after its event
    await until(lambda: "outcome=completed" in agent.log.read_text(), "the line for the end")
    text = agent.log.read_text()
    assert "INFO fetch_work slot=slot1@vm job=1.0 run=1 outcome=offered" in text
    assert token not in text


async def test_leader_puts_events_into_the_stream(agent: AgentProcess, jobs: Jobs) -> None:
    jobs.submit()
    placed = "SELECT batch IS NOT NULL AS placed FROM fetchwork.events"
    await until(lambda: jobs.database.query(placed) == [{"placed": True}])


# -- waiting fetches


async def test_waiting_fetch_is_answered_when_work_appears(make_agent: MakeAgent, jobs: Jobs) -> None:
    agent = make_agent(max_fetch_wait_s=600, program=LOOKS_ONLY_WHEN_TOLD)
    await agent.start()
    await until(lambda: client.status(agent.socket, PATIENCE_S)["databases"]["main"]["listening"])
    fetch = asyncio.ensure_future(ask(agent, "fetch_work", slot_ad(), seconds=700))
    await until(lambda: client.status(agent.socket, PATIENCE_S)["waiting_fetches"] == 1)
    await asyncio.to_thread(jobs.submit)
    assert (await asyncio.wait_for(fetch, PATIENCE_S)).body


async def test_slot_is_told_of_while_its_fetch_waits(make_agent: MakeAgent, jobs: Jobs) -> None:
    agent = make_agent(max_fetch_wait_s=600)
    await agent.start()
    fetch = asyncio.ensure_future(ask(agent, "fetch_work", slot_ad(Name="slot1@vm"), seconds=700))
    told = "SELECT name, state, last_answer FROM fetchwork.slots"
    await until(lambda: jobs.database.query(told))
    assert jobs.database.query(told) == [{"name": "slot1@vm", "state": "Unclaimed", "last_answer": "waiting"}]
    assert not fetch.done()
    agent.signal(signal.SIGTERM)
    await fetch


async def test_waiting_fetch_is_answered_with_nothing_when_the_agent_ends(make_agent: MakeAgent) -> None:
    agent = make_agent(max_fetch_wait_s=600)
    await agent.start()
    fetch = asyncio.ensure_future(ask(agent, "fetch_work", slot_ad(), seconds=700))
    await until(lambda: client.status(agent.socket, PATIENCE_S)["waiting_fetches"] == 1)
    agent.signal(signal.SIGTERM)
    assert (await asyncio.wait_for(fetch, PATIENCE_S)).body == b""
    assert await asyncio.to_thread(agent._process.wait, PATIENCE_S) == 0


async def test_fetch_ends_without_work_when_its_time_is_over(make_agent: MakeAgent) -> None:
    agent = make_agent(max_fetch_wait_s=1)
    await agent.start()
    begun = time.monotonic()
    fetch = ask(agent, "fetch_work", slot_ad(), seconds=700)
    assert (await asyncio.wait_for(fetch, PATIENCE_S)).body == b""
    assert time.monotonic() - begun > 0.9


async def test_waiting_fetch_whose_hook_goes_takes_no_job(make_agent: MakeAgent, jobs: Jobs) -> None:
    agent = make_agent(max_fetch_wait_s=600)
    await agent.start()
    with socket.socket(socket.AF_UNIX) as hook:
        hook.connect(str(agent.socket))
        hook.sendall(encode_request(Request("fetch_work", slot_ad(), keyword=KEYWORD, deadline_ms=700_000)))
        await until(lambda: client.status(agent.socket, PATIENCE_S)["waiting_fetches"] == 1)
    await until(lambda: client.status(agent.socket, PATIENCE_S)["waiting_fetches"] == 0)
    # a later waiting fetch would get the second job
    fetch = asyncio.ensure_future(ask(agent, "fetch_work", slot_ad(Name="slot2@vm"), seconds=700))
    await until(lambda: client.status(agent.socket, PATIENCE_S)["waiting_fetches"] == 1)
    await asyncio.to_thread(jobs.submit)
    assert (await asyncio.wait_for(fetch, PATIENCE_S)).body
    assert jobs.database.query("SELECT slot FROM fetchwork.run") == [{"slot": "slot2@vm"}]


async def test_no_more_fetches_wait_than_allowed(make_agent: MakeAgent) -> None:
    agent = make_agent(agent={"max_waiting_fetches": 2}, max_fetch_wait_s=600)
    await agent.start()
    try:
        fetches = [
            asyncio.ensure_future(ask(agent, "fetch_work", slot_ad(Name=f"slot{n}@vm"), seconds=700))
            for n in range(3)
        ]
        done, _ = await asyncio.wait(fetches, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
        assert len(done) == 1
        assert (await agent.status())["waiting_fetches"] == 2
    finally:
        agent.signal(signal.SIGTERM)
        await asyncio.gather(*fetches)
        agent.signal(signal.SIGKILL)


async def test_fetch_of_a_busy_slot_is_answered_when_its_starter_has_gone(
    make_agent: MakeAgent, jobs: Jobs, startd: Actor
) -> None:
    agent = make_agent(max_fetch_wait_s=600, program=LOOKS_ONLY_WHEN_TOLD)
    await agent.start()
    jobs.submit()
    run = await Run.begin(agent, startd)
    await asyncio.to_thread(jobs.submit)
    busy = slot_ad("25.14.1-fetch_work-static-claimed-busy", Name="slot1@vm")
    fetch = asyncio.ensure_future(ask(agent, "fetch_work", busy, seconds=700))
    await until(lambda: client.status(agent.socket, PATIENCE_S)["waiting_fetches"] == 1)
    await run.hook("job_exit", "exit", ExitCode=0, JobPid=1, JobState="Exited")
    await asyncio.sleep(0.2)
    assert not fetch.done()
    run.starter.kill()
    assert (await asyncio.wait_for(fetch, PATIENCE_S)).body


async def waiting_fetch_of_a_partitionable_slot(agent: AgentProcess) -> asyncio.Future[Reply]:
    whole = slot_ad("25.14.1-fetch_work-pslot-with-dslots", Name="slot1@vm")
    fetch = asyncio.ensure_future(ask(agent, "fetch_work", whole, seconds=700))
    await until(lambda: client.status(agent.socket, PATIENCE_S)["waiting_fetches"] == 1)
    return fetch


async def test_partitionable_slot_asks_again_once_a_dynamic_slot_gets_nothing(make_agent: MakeAgent) -> None:
    agent = make_agent(max_fetch_wait_s=600)
    await agent.start()
    fetch = await waiting_fetch_of_a_partitionable_slot(agent)
    idle = slot_ad("25.14.1-fetch_work-dslot-idle", Name="slot2_1@vm")
    assert (await ask(agent, "fetch_work", idle)).body == b""
    assert client.status(agent.socket, PATIENCE_S)["waiting_fetches"] == 1
    idle = slot_ad("25.14.1-fetch_work-dslot-idle", Name="slot1_1@vm")
    assert (await ask(agent, "fetch_work", idle)).body == b""
    assert (await asyncio.wait_for(fetch, PATIENCE_S)).body == b""


async def test_partitionable_slot_asks_again_once_the_starter_on_a_dynamic_slot_is_gone(
    make_agent: MakeAgent, jobs: Jobs, startd: Actor
) -> None:
    agent = make_agent(max_fetch_wait_s=600)
    await agent.start()
    jobs.submit()
    run = await Run.begin(agent, startd, "slot1_1")
    fetch = await waiting_fetch_of_a_partitionable_slot(agent)
    await run.hook("job_exit", "exit", slot="slot1_1", ExitCode=0, JobPid=1, JobState="Exited")
    run.starter.kill()
    assert (await asyncio.wait_for(fetch, PATIENCE_S)).body == b""


async def test_fetch_of_a_busy_slot_without_a_starter_of_ours_gets_nothing_at_once(
    make_agent: MakeAgent, jobs: Jobs
) -> None:
    agent = make_agent(max_fetch_wait_s=20)
    await agent.start()
    jobs.submit()
    busy = slot_ad("25.14.1-fetch_work-static-claimed-busy", Name="slot1@vm")
    assert (await ask(agent, "fetch_work", busy, seconds=30)).body == b""


# -- starters and jobs


async def test_killed_starter_returns_the_job_before_its_lease_is_over(
    agent: AgentProcess, jobs: Jobs, startd: Actor
) -> None:
    job = jobs.submit()
    run = await Run.begin(agent, startd)
    # without the agent, the database would call the run lost only after an hour
    jobs.database.query("UPDATE fetchwork.run SET deadline = now() + interval '1 hour'")
    run.starter.kill()
    await until(lambda: jobs.job_of(job)["jobstatus"] == 1)
    assert jobs.job_of(job)["numlost"] == 1


async def test_starter_that_ends_after_its_report_loses_nothing(
    agent: AgentProcess, jobs: Jobs, startd: Actor
) -> None:
    job = jobs.submit()
    run = await Run.begin(agent, startd)
    await run.hook("job_exit", "exit", ExitCode=0, JobPid=1)
    run.starter.kill()
    await asyncio.sleep(1.5)
    assert (jobs.job_of(job)["jobstatus"], jobs.job_of(job)["numlost"]) == (4, 0)


async def test_orphan_is_ended_before_its_job_runs_again(
    agent: AgentProcess, jobs: Jobs, startd: Actor
) -> None:
    # kill -9 of condor_master: starter and startd end, the job goes on
    job = jobs.submit()
    run = await Run.begin(agent, startd)
    # as a starter runs it: in a process group of its own
    command = ["/bin/sh", "-c", "trap '' TERM; sleep 1000 & wait; wait"]
    with subprocess.Popen(command, user=OWNER, process_group=0) as orphan:
        try:
            await run.hook("update_job_info", JobState="Running", JobPid=orphan.pid)
            run.starter.kill()
            await asyncio.sleep(1.0)
            # the slot's next fetch must not start the job a second time
            offered = (await ask(agent, "fetch_work", slot_ad(Name="slot1@vm"))).body
            status = jobs.job_of(job)["jobstatus"]
            # unless the job has already been ended in the meantime
            assert orphan.poll() is not None or (offered, status) == (b"", 2)
            # it ignores SIGTERM
            await asyncio.to_thread(orphan.wait, PATIENCE_S)
            assert orphan.returncode == -signal.SIGKILL
            await until(lambda: jobs.job_of(job)["jobstatus"] == 1)
        finally:
            with contextlib.suppress(ProcessLookupError):
                orphan.kill()


async def test_process_of_another_account_is_nobodys_orphan(
    agent: AgentProcess, jobs: Jobs, startd: Actor
) -> None:
    # a job's user could name any process of the host
    job = jobs.submit()
    run = await Run.begin(agent, startd)
    with subprocess.Popen(["/bin/sleep", "1000"], user="daemon" if OWNER else None) as other:
        try:
            pid = other.pid if OWNER else 1
            await run.hook("update_job_info", JobState="Running", JobPid=pid)
            run.starter.kill()
            await until(lambda: jobs.job_of(job)["jobstatus"] == 1)
            assert other.poll() is None
        finally:
            other.kill()


async def test_agent_that_comes_back_sees_that_the_starter_went_meanwhile(
    agent: AgentProcess, make_agent: MakeAgent, jobs: Jobs, startd: Actor
) -> None:
    job = jobs.submit()
    run = await Run.begin(agent, startd)
    agent.signal(signal.SIGKILL)
    run.starter.kill()
    second = make_agent()
    await second.start()
    await until(lambda: jobs.job_of(job)["jobstatus"] == 1)
    assert jobs.job_of(job)["numlost"] == 1


async def test_agent_that_comes_back_watches_what_still_runs(
    agent: AgentProcess, make_agent: MakeAgent, jobs: Jobs, startd: Actor
) -> None:
    job = jobs.submit()
    run = await Run.begin(agent, startd)
    agent.signal(signal.SIGKILL)
    second = make_agent()
    await second.start()
    await until(lambda: [each["job"] for each in client.status(second.socket, PATIENCE_S)["runs"]] == [job])
    run.starter.kill()
    await until(lambda: jobs.job_of(job)["jobstatus"] == 1)


async def test_exit_of_another_process_than_the_runs_starter_does_not_end_the_run(
    agent: AgentProcess, jobs: Jobs, startd: Actor
) -> None:
    job = jobs.submit()
    run = await Run.begin(agent, startd)
    other = await startd.fork()
    await Run(agent, run.ad, other).hook("job_exit", "exit", ExitCode=0, JobPid=1)
    assert jobs.job_of(job)["jobstatus"] == 2
    await run.hook("job_exit", "exit", ExitCode=7, JobPid=1)
    assert jobs.job_of(job)["exitcode"] == 7


async def test_offer_without_an_answer_is_taken_back_when_the_slot_asks_again(
    agent: AgentProcess, jobs: Jobs
) -> None:
    jobs.submit()
    first = await ask(agent, "fetch_work", slot_ad())
    second = await ask(agent, "fetch_work", slot_ad())
    assert first.body and second.body and first.body != second.body
    outcomes = jobs.database.query("SELECT outcome, reason FROM fetchwork.run_history")
    assert [(row["outcome"], row["reason"]) for row in outcomes] == [
        ("withdrawn", "the slot asked again without an answer")
    ]
