"""The simulated startd and starter, against an agent that is a list of answers.

Their expected behaviour was observed on real HTCondor; the comments have the observations.
"""

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchwork.handlers.starterend import read_end
from fetchwork.hook.spool import Spool
from fetchwork.hook.wire import HOOKS, Reply, Request, RequestReader, encode_reply
from fetchwork.simulate import BEHAVIOURS, Clock, Host, Ledger, SlotSpec, Timing
from fetchwork.simulate.behaviour import NEVER
from fetchwork.simulate.family import Actor, connect_as_hooks
from fetchwork.simulate.hookcalls import HookKilled, Step, allow_connections, connect_to
from fetchwork.simulate.textad import TextAd
from tests.support.there import there
from tests.support.waiting import PATIENCE_S, until_async

SCALE = 20.0


class Agent:
    """Answers each fetch with the next of its jobs, every other request with yes; stores the requests."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.hosts: list[Host] = []
        self.jobs: list[bytes] = []
        self.asked: list[Request] = []
        self.answers: dict[str, Callable[[Request], Reply | None]] = {}
        self.changed = asyncio.Condition()
        self.pids: list[int] = []

    async def serve(self, incoming: asyncio.StreamReader, outgoing: asyncio.StreamWriter) -> None:
        sock = outgoing.get_extra_info("socket")
        pid = int.from_bytes(sock.getsockopt(1, 17, 12)[:4], "little")  # SOL_SOCKET, SO_PEERCRED
        reader = RequestReader()
        # a hook may end before it has read its answer
        with contextlib.suppress(ConnectionError):
            while data := await incoming.read(65536):
                reader.feed(data)
                while (request := reader.next_request()) is not None:
                    async with self.changed:
                        self.asked.append(request)
                        self.pids.append(pid)
                        self.changed.notify_all()
                    reply = self._answer(request)
                    if reply is None:
                        outgoing.close()
                        return
                    outgoing.write(encode_reply(reply))
        outgoing.close()

    def _answer(self, request: Request) -> Reply | None:
        if request.name in self.answers:
            return self.answers[request.name](request)
        if request.name == "fetch_work" and self.jobs and _idle(request):
            return Reply(self.jobs.pop(0))
        return Reply()

    def start(self, version: str = "23.9", slots: int = 1, **options: Any) -> Host:
        """A host whose slots ask it."""
        settings = {"unclaimed_delay_s": 2, **options.pop("timing", {})}
        options.setdefault("connect", connect_to(self.socket))
        host = Host(
            "ep1",
            slots=[options.pop("spec", SlotSpec())] * slots,
            behaviour=BEHAVIOURS[version],
            timing=Timing(**settings),
            clock=Clock(SCALE),
            ledger=Ledger(),
            **options,
        )
        self.hosts.append(host)
        host.start()
        return host

    async def start_job(self, **options: Any) -> Host:
        """A host that has begun to run the job."""
        host = self.start(**options)
        await until_async(lambda: host.ledger.executions, "the start of the job")
        return host

    def names(self) -> list[str]:
        return [f"{request.name} {request.arg}".strip() for request in self.asked]

    async def until(self, *names: str, count: int = 1) -> None:
        """Wait until each of these was requested ``count`` times."""
        async with asyncio.timeout(PATIENCE_S), self.changed:
            await self.changed.wait_for(lambda: all(self.names().count(name) >= count for name in names))

    def ads(self, name: str) -> list[TextAd]:
        found = [request for request in self.asked if f"{request.name} {request.arg}".strip() == name]
        return [ad for request in found if (ad := TextAd.parse(request.body.split(b"-----\n")[0]))]


def _idle(request: Request) -> bool:
    ad = TextAd.parse(request.body)
    return ad is not None and (ad.text("State"), ad.text("Activity")) in (
        ("Unclaimed", "Idle"),
        ("Claimed", "Idle"),
    )


def job(seconds: float = 0.5, **more: str) -> bytes:
    ad = TextAd()
    for name, expression in {
        "Cmd": '"/bin/sleep"',
        "Owner": '"alice"',
        "User": '"alice@pool"',
        "ClusterId": "7",
        "ProcId": "0",
        "FetchWorkRunId": "12",
        "SimulatedSeconds": str(seconds),
        **more,
    }.items():
        ad.put(name, expression)
    return bytes(ad)


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Agent]:
    agent = Agent(tmp_path / "agent.sock")
    server = await asyncio.start_unix_server(agent.serve, agent.socket, backlog=4096)
    yield agent
    for host in agent.hosts:
        await host.vanish()
    server.close()


async def test_hooks_of_a_job_come_in_htcondors_order(agent: Agent) -> None:
    agent.jobs = [job()]
    agent.start()
    await agent.until("job_exit exit")
    await agent.until("fetch_work", count=2)
    names = agent.names()
    assert names[:2] == ["fetch_work", "reply_fetch accept"]
    # in either order
    assert sorted(names[2:4]) == ["prepare_job", "update_job_info"]
    # the last update and JOB_EXIT race
    assert sorted(names[4:6]) == ["job_exit exit", "update_job_info"]
    assert names[6] == "fetch_work"
    first, _, second = agent.ads("update_job_info")[0], *agent.ads("update_job_info")
    assert "JobPid" not in first
    assert second.text("JobState") == "Running"
    assert agent.ads("job_exit exit")[0].expression("ExitCode") == "0"
    assert [ad.text("State") for ad in agent.ads("fetch_work")[:2]] == ["Unclaimed", "Claimed"]


async def test_updates_come_at_their_intervals(agent: Agent) -> None:
    agent.jobs = [job(13)]
    agent.start(timing={"starter_initial_update_interval_s": 2, "starter_update_interval_s": 4})
    await agent.until("job_exit exit")
    # 1 before the job, at 2, 6 and 10 s, the last
    assert agent.names().count("update_job_info") == 5


async def test_claim_ends_with_a_fetch_that_brings_nothing(agent: Agent) -> None:
    agent.jobs = [job(), job()]
    agent.start()
    await agent.until("fetch_work", count=4)
    assert [ad.text("State") for ad in agent.ads("fetch_work")[:4]] == [
        "Unclaimed",
        "Claimed",
        "Claimed",
        "Unclaimed",
    ]


async def test_older_startd_fetches_at_the_end_of_a_job(agent: Agent) -> None:
    agent.jobs = [job(), job()]
    # only polling lets a claimed slot fetch
    agent.start("23.9", timing={"polling_interval_s": NEVER, "update_interval_s": 0})
    await agent.until("job_exit exit", count=2)


async def test_newer_startd_fetches_at_the_next_poll(agent: Agent) -> None:
    agent.jobs = [job(), job(), job()]
    host = agent.start("25.14", timing={"polling_interval_s": 20, "update_interval_s": 0})
    await agent.until("job_exit exit", count=3)
    # the second job began right after a poll, and most of the time to the next one was left when it ended
    assert host.ledger.gaps[1] * SCALE > 2.0


async def test_fetch_in_flight_at_the_end_of_a_job_is_the_next_fetch(agent: Agent) -> None:
    # 25.14.1: a fetch that was held while its slot was busy is accepted once the job has ended
    def answer(request: Request) -> Reply:
        return Reply(agent.jobs.pop(0)) if agent.jobs and _idle(request) else Reply()

    agent.answers["fetch_work"] = answer
    agent.jobs = [job(3), job(3)]
    host = agent.start("25.14", timing={"busy_delay_s": 1.0, "polling_interval_s": 5})
    await agent.until("job_exit exit", count=2)
    busy = [ad for ad in agent.ads("fetch_work") if ad.text("Activity") == "Busy"]
    assert busy, "a slot with a delay for busy slots fetches while its job runs"
    assert host.ledger.counts["reject"] == 0


async def test_ad_for_a_busy_slot_is_rejected(agent: Agent) -> None:
    agent.answers["fetch_work"] = lambda request: Reply(job(20))
    agent.start("25.14", timing={"busy_delay_s": 1.0})
    await agent.until("reply_fetch reject", count=2)
    assert agent.names().count("prepare_job") == 1


async def test_nothing_but_job_exit_tells_of_a_refused_start(agent: Agent) -> None:
    agent.jobs = [job()]
    agent.answers["prepare_job"] = lambda request: Reply(b"HookStatusCode = 350\n", exit=1)
    host = agent.start()
    await agent.until("job_exit evict")
    ad = agent.ads("job_exit evict")[0]
    assert "ExitCode" not in ad
    assert "JobPid" not in ad
    assert host.ledger.executions == []


async def test_printed_status_wins_over_exit_status(agent: Agent) -> None:
    agent.jobs = [job()]
    agent.answers["prepare_job"] = lambda request: Reply(b"HookStatusCode = 0\n", exit=7)
    agent.start()
    await agent.until("job_exit exit")


async def test_failed_exec_is_an_evict_without_exit_code(agent: Agent) -> None:
    agent.jobs = [job(SimulatedFailure='"exec"')]
    agent.start()
    await agent.until("job_exit evict")
    assert "ExitCode" not in agent.ads("job_exit evict")[0]


async def test_unknown_account_means_accept_and_silence(agent: Agent) -> None:
    # 25.14.1 ignores Owner
    agent.jobs = [job(User="undefined")]
    agent.start("25.14", timing={"update_interval_s": 0, "polling_interval_s": 1})
    await agent.until("fetch_work", count=2)
    assert agent.names()[:3] == ["fetch_work", "reply_fetch accept", "fetch_work"]


@pytest.mark.parametrize(
    ("version", "told"), [("23.9", None), ("25.14", "Claim vacated by the administrator")]
)
async def test_vacate_is_an_evict_with_a_signal(agent: Agent, version: str, told: str | None) -> None:
    agent.jobs = [job(100)]
    host = await agent.start_job(version=version, timing={"update_interval_s": 0})
    await agent.until("prepare_job")
    host.busy()[0].starter.vacate()
    await agent.until("job_exit evict")
    ad = agent.ads("job_exit evict")[0]
    assert ad.expression("ExitSignal") == "15"
    assert ad.text("VacateReason") == told


async def test_suspended_job_says_so_and_takes_longer(agent: Agent) -> None:
    agent.jobs = [job(4)]
    host = await agent.start_job(
        timing={"starter_initial_update_interval_s": 1, "starter_update_interval_s": 1}
    )
    starter = there(host.busy()[0].starter)
    starter.suspend()

    def states() -> list[str | None]:
        return [ad.text("JobState") for ad in agent.ads("update_job_info")]

    # the job takes 4 s, an update comes each second
    while states().count("Suspended") < 6:
        await asyncio.sleep(0.01)
    assert "job_exit exit" not in agent.names()
    starter.suspend(False)
    await agent.until("job_exit exit")
    assert states()[-1] == "Running"


async def test_killed_starter_calls_no_hook(agent: Agent) -> None:
    agent.jobs = [job(100)]
    host = await agent.start_job()
    await agent.until("prepare_job", "update_job_info")
    host.slots[0].kill_starter()
    await agent.until("fetch_work", count=2)
    assert "job_exit exit" not in agent.names()
    assert "job_exit evict" not in agent.names()
    # the claim still exists
    assert agent.ads("fetch_work")[1].text("State") == "Claimed"
    assert host.ledger.executions[0].ended is not None


async def test_job_lives_on_without_its_master(agent: Agent) -> None:
    agent.jobs = [job(100)]
    host = await agent.start_job()
    await host.lose_master()
    assert host.ledger.executions[0].ended is None


async def test_update_that_answers_with_a_signal_ends_the_job(agent: Agent) -> None:
    def answer(request: Request) -> Reply:
        ad = there(TextAd.parse(request.body))
        return Reply(signal=9, pid=int(ad.number("JobPid") or 0)) if "JobPid" in ad else Reply()

    agent.answers["update_job_info"] = answer
    agent.jobs = [job(1000)]
    agent.start(timing={"starter_initial_update_interval_s": 1})
    await agent.until("job_exit exit")
    assert agent.ads("job_exit exit")[0].expression("ExitSignal") == "9"


async def test_bad_line_drops_the_ad_without_a_reply(agent: Agent) -> None:
    agent.jobs = [job() + b"# comment\n", job()]
    agent.start()
    await agent.until("job_exit exit")
    assert agent.names()[:3] == ["fetch_work", "fetch_work", "reply_fetch accept"]


async def test_ad_is_cut_at_pipe_buffer_max(agent: Agent) -> None:
    agent.jobs = [job(Zlast='"' + "x" * 20000 + '"')]
    agent.start(timing={"pipe_buffer_max": 10240})
    await agent.until("reply_fetch accept")
    assert len(agent.asked[1].body.split(b"-----\n")[0]) < 10300


async def test_partitionable_slot_is_cut_and_given_back(agent: Agent) -> None:
    agent.jobs = [job(1, RequestCpus="2", RequestMemory="512")]
    host = agent.start(spec=SlotSpec(4, 4096, 1000, partitionable=True))
    await agent.until("job_exit exit")
    assert agent.asked[1].body.count(b'Name = "slot1@ep1"') == 1, "REPLY_FETCH shows the partitionable slot"
    starter_hooks = [request for request in agent.asked if request.name == "prepare_job"]
    assert starter_hooks[0].slot == "slot1_1"
    await agent.until("fetch_work", count=3)
    # as Claimed/Idle it asked for a job of its own size
    own = [ad for ad in agent.ads("fetch_work") if ad.text("SlotType") == "Dynamic"]
    assert own[0].expression("Cpus") == "2"
    await until_async(lambda: len(host.slots) == 1)
    assert host.slots[0].cpus == 4


async def test_full_partitionable_slot_rejects(agent: Agent) -> None:
    agent.answers["fetch_work"] = lambda request: Reply(job(100))
    agent.start(spec=SlotSpec(1, 100, 1000, partitionable=True))
    await agent.until("reply_fetch reject")
    assert agent.names().count("reply_fetch accept") == 1


async def test_report_without_an_agent_goes_to_the_spool(agent: Agent, tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "spool"))
    spool.make()
    agent.jobs = [job(SimulatedExitCode="3")]
    agent.answers["job_exit"] = lambda request: None
    host = agent.start(spool=tmp_path / "spool")
    await agent.until("fetch_work", count=2)
    report = spool.read().reports[0]
    assert report.request.arg == "exit"
    assert b"ExitCode = 3" in report.request.body
    assert host.ledger.executions[0].reported == "spool"


def carrier() -> bytes:
    """The ad of a chain's runner."""
    return job(Cmd='"/hooks/runner"', Environment='"FETCHWORK_CHAIN=12:5f0d"')


def chain_of(agent: Agent, *jobs: bytes) -> None:
    """Let the agent offer a chain of these jobs."""
    texts = [text + b"-----\n" for text in jobs]
    agent.jobs = [carrier()]
    agent.answers["chain_first"] = agent.answers["chain_next"] = lambda request: Reply(
        texts.pop(0) if texts else b""
    )


async def test_runner_reports_each_end_and_gets_the_next_job(agent: Agent) -> None:
    chain_of(agent, job(FetchWorkRunId="12"), job(FetchWorkRunId="13", SimulatedExitCode="3"))
    host = agent.start(chains=True)
    await agent.until("chain_next exit", count=2)
    await agent.until("fetch_work", count=2)
    names = [name for name in agent.names() if "fetch" not in name]
    # the carrier has neither updates nor a JOB_EXIT
    assert names == ["prepare_job", "chain_first", "chain_next exit", "chain_next exit"]
    assert agent.ads("chain_first")[0].text("FetchWorkToken") == "5f0d"
    ends = agent.ads("chain_next exit")
    assert [ad.expression("FetchWorkRunId") for ad in ends] == ["12", "13"]
    assert [ad.expression("ExitCode") for ad in ends] == ["0", "3"]
    assert [run.run_id for run in host.ledger.executions] == [12, 13]
    assert agent.ads("fetch_work")[0].expression("FetchWorkPlain") == "true"


@pytest.mark.parametrize(
    ("more", "reason", "report"),
    [
        ({"SimulatedExitCode": "3"}, "exit", {"ExitCode": 3}),
        ({"SimulatedExitSignal": "9"}, "exit", {"ExitSignal": 9}),
    ],
)
async def test_starter_without_job_exit_logs_the_end(
    agent: Agent, tmp_path: Path, more: dict[str, str], reason: str, report: dict[str, int]
) -> None:
    log = tmp_path / "starter"
    log.touch()
    agent.jobs = [job(0.5, HookKeyword='"FW_PLAIN"', StarterUserLog=f'"{log}"', **more)]
    agent.start(chains=True)
    await agent.until("fetch_work", count=2)
    assert not [name for name in agent.names() if name.startswith("job_exit")]
    end = read_end(log.read_text(), 0)
    assert end is not None
    assert (end.reason, report.items() <= end.report.items()) == (reason, True)


async def test_evicted_runner_ends_its_job_and_the_chain(agent: Agent) -> None:
    chain_of(agent, job(100), job(100))
    host = await agent.start_job(chains=True)
    host.busy()[0].starter.vacate()
    await agent.until("chain_next evict")
    await agent.until("fetch_work", count=2)
    assert agent.ads("chain_next evict")[0].expression("ExitSignal") == "15"
    assert len(host.ledger.executions) == 1


async def test_killed_runner_reports_nothing(agent: Agent) -> None:
    chain_of(agent, job(100), job(100))
    host = await agent.start_job(chains=True)
    host.busy()[0].starter.kill_runner()
    await agent.until("fetch_work", count=2)
    assert not [name for name in agent.names() if name.startswith(("chain_next", "job_exit"))]
    assert host.ledger.executions[0].ended is not None


async def test_runner_without_an_answer_becomes_job_exit(agent: Agent, tmp_path: Path) -> None:
    spool = Spool(str(tmp_path / "spool"))
    spool.make()
    chain_of(agent, job(SimulatedExitCode="3"))
    agent.answers["chain_next"] = agent.answers["job_exit"] = lambda request: None
    host = agent.start(spool=tmp_path / "spool", chains=True, deadlines_s={"chain_next": 0.6})
    await agent.until("fetch_work", count=2)
    assert agent.names().count("chain_next exit") > 1
    report = spool.read().reports[0]
    assert (report.request.name, report.request.arg) == ("job_exit", "exit")
    assert b"ExitCode = 3" in report.request.body
    assert host.ledger.executions[0].reported == "spool"


async def test_hook_can_be_killed_at_each_step(agent: Agent) -> None:
    seen: list[str] = []

    def watch(step: Step) -> None:
        seen.append(f"{step.hook} {step.phase}")
        if (step.hook, step.phase) == ("prepare_job", "sent"):
            raise HookKilled

    agent.jobs = [job()]
    agent.start(watch=watch)
    await agent.until("job_exit evict")
    assert "fetch_work answered" in seen
    assert "prepare_job begin" in seen
    assert "prepare_job answered" not in seen


async def test_startd_comes_back_after_a_crash(agent: Agent) -> None:
    agent.jobs = [job(1000)]
    host = await agent.start_job()
    await host.crash_startd()
    await agent.until("fetch_work", count=2)
    assert agent.ads("fetch_work")[-1].text("State") == "Unclaimed"
    assert host.ledger.executions[0].ended is not None


async def test_lease_of_the_claim_ends_jobs_of_older_versions(agent: Agent) -> None:
    agent.jobs = [job(1000, JobLeaseDuration="6")]
    agent.start("23.9")
    await agent.until("job_exit evict")
    assert agent.ads("job_exit evict")[0].expression("ExitSignal") == "9"


async def test_drained_slots_reject(agent: Agent) -> None:
    agent.answers["fetch_work"] = lambda request: Reply(job(1000))
    host = await agent.start_job(timing={"other_delay_s": 2.0})
    host.drain()
    await agent.until("job_exit evict", "reply_fetch reject")
    drained = [ad for ad in agent.ads("fetch_work") if ad.text("State") == "Drained"]
    assert drained


async def test_real_processes_tell_starters_apart(agent: Agent, tmp_path: Path) -> None:
    family = Actor.startd()
    with contextlib.ExitStack() as stack:
        stack.callback(family.kill)
        agent.jobs = [job(1), job(1)]
        agent.start(slots=2, connect=connect_as_hooks(agent.socket), family=family)
        await agent.until("job_exit exit", count=2)
        # every hook is a process of its own, and none is the simulation itself
        assert len(set(agent.pids)) == len(agent.pids)


@pytest.fixture
def few_open_files() -> Iterator[None]:
    """The limits of open files: the default, and the maximum."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


# each has a connection on either side: already 700 need more than the default limit
@pytest.mark.parametrize("slots", [700, pytest.param(2000, marks=pytest.mark.all)])
async def test_hundreds_of_slots_are_busy_in_one_process(
    few_open_files: None, agent: Agent, slots: int
) -> None:
    allow_connections()
    agent.jobs = [job(100_000, ClusterId=str(number), JobLeaseDuration="1000000") for number in range(slots)]
    # all hooks of all slots run in this process: on a busy machine their time is no fair measure of an agent
    host = agent.start(
        slots=slots,
        timing={"starter_initial_update_interval_s": NEVER},
        deadlines_s=dict.fromkeys(HOOKS, PATIENCE_S),
    )
    async with asyncio.timeout(2 * PATIENCE_S):
        while host.ledger.running < slots:
            await asyncio.sleep(0.05)
        assert len(host.busy()) == slots
        await host.shut_down()
    assert len({run.job for run in host.ledger.executions}) == slots
    assert host.ledger.counts["job_exit evict"] == slots
    # no hook was left without an answer
    assert not [name for name in host.ledger.counts if "unanswered" in name or "error" in name]
