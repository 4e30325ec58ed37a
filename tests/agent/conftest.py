"""The hooks' handlers on a real database, without a socket: each request as a host's process handles it."""

import asyncio
import dataclasses
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from fetchwork import config, handlers, leadertasks
from fetchwork.agent.fetching.fetches import Fetches, HostRuns
from fetchwork.agent.fetching.longpoll import WaitingFetch, WaitingFetches
from fetchwork.agent.runs.watch import WatchedRuns
from fetchwork.agent.signals import Signal
from fetchwork.classad.ads import parse_old, print_old
from fetchwork.classad.values import ClassAd
from fetchwork.db.database import Database
from fetchwork.handlers.context import Answer, Caller, Task
from fetchwork.handlers.host.keywords import KeywordContext, make_contexts
from fetchwork.handlers.host.runs import Runs
from fetchwork.handlers.host.starterlog import StarterLogs
from fetchwork.hook.wire import Request
from fetchwork.process import Process
from fetchwork.simulate.agents import PROGRAM, AgentProcess
from tests.support.by_name import call
from tests.support.direct_queue import AGENT_ID
from tests.support.nursery import forked_processes
from tests.support.waiting import PATIENCE_S

RUNNING: dict[str, Any] = {"JobState": "Running", "JobPid": 4242}
EXITED: dict[str, Any] = {"JobState": "Exited", "JobPid": 4242, "JobDuration": 1.5, "ExitBySignal": False}

ADS = Path(__file__).parent.parent / "data/ads"
STARTER = Process(4711, 100)
#: no file can be made there
NO_DIRECTORY = Path("/dev/null/starter")
__all__ = ["forked_processes"]

Child = subprocess.Popen[bytes]
Rows = list[dict[str, Any]]
Replay = Callable[[], Awaitable[None]]


class Waiting(WaitingFetches):
    """Waiting fetches that can be waited for."""

    def __init__(self, limit: int = 10) -> None:
        super().__init__(limit)
        #: the number of times that a fetch had found no job and began to wait
        self.waits = 0

    def enter(self, *args: Any, **more: Any) -> WaitingFetch | None:
        waiting = super().enter(*args, **more)
        if waiting is not None:
            wait = waiting.wait

            async def counted(timeout_s: float) -> bool:
                self.waits += 1
                return await wait(timeout_s)

            waiting.wait = counted
        return waiting

    async def until(self, number: int) -> None:
        """Wait until this many fetches have found no job and wait."""
        async with asyncio.timeout(PATIENCE_S):
            while self.waits < number:
                await asyncio.sleep(0.01)


class UnwatchedRuns(Runs):
    """Runs about which only the hooks' reports are known."""

    async def free_slot(self, context: KeywordContext, slot: str, ad: bytes, timeout_s: float) -> bool:
        await context.session.slot_is_free(slot, timeout_s)
        return True

    async def starter_before_next(self, context: KeywordContext, slot: str) -> None:
        return None


class Jobs:
    """Puts jobs into a queue, and reads their rows."""

    def __init__(self, conninfo: str) -> None:
        self.database = Database(conninfo)

    def submit(self, **arguments: Any) -> str:
        """Put a job into the queue: submit(cmd=..., ...) -> "1.0"."""
        return str(self.call("submit", **{"cmd": "/bin/true", "owner": "nobody", **arguments})[0]["submit"])

    def job_of(self, job: str) -> dict[str, Any]:
        """A job's row of the view jobs, else of history: job_of("1.0")."""
        for view in ("jobs", "history"):
            for row in self.database.query(f"SELECT * FROM fetchwork.{view} WHERE JobId = %s", [job]):
                return row
        raise AssertionError(f"job {job} is nowhere")

    def call(self, function: str, **arguments: object) -> Rows:
        """The rows of a SQL function."""
        return call(self.database, function, **arguments)

    def give_up(self) -> None:
        """All live runs are lost."""
        self.database.query("SELECT fetchwork.starter_gone(run_id, token) FROM fetchwork.run")

    def wait_longer(self) -> None:
        """Make jobs wait in the queue whose backoff has not ended."""
        self.database.query("UPDATE fetchwork.job SET not_before = now() WHERE not_before IS NOT NULL")
        self.call("wake")


class Hooks(Jobs):
    """One host's hooks; each call is one request.

    ``own``: the connection string of the host alone, if it joined.
    """

    def __init__(
        self, conninfo: str, *, runs: Runs | None = None, own: str | None = None, **context: Any
    ) -> None:
        super().__init__(conninfo)
        self.config = config.from_dict(
            {
                "database": {"main": {"conninfo": own or conninfo}},
                "agent": {"user": ""},
                "keyword": {"FW": {}},
                "host": {"name": "vm"},
            }
        )
        # the tests run as root: their jobs' owners need no accounts unless a test is about accounts
        context = {
            "check_accounts": False,
            "max_fetch_wait_s": 0.0,
            "starter_logs": StarterLogs(NO_DIRECTORY, of_users=False),
            **context,
        }
        (made,) = make_contexts(self.config, agent_id=AGENT_ID).values()
        # as on a host whose agent has rights over jobs
        made.session.signals_jobs = True
        self.context = dataclasses.replace(made, **context)
        self.runs = UnwatchedRuns() if runs is None else runs
        self.spooled: list[Request] = []
        #: fetches wait if a test sets max_fetch_wait_s
        self.waiting = Waiting()
        self.fetches = Fetches(cast(HostRuns, self.runs), self.waiting)

    async def policy_pass(self) -> int:
        """Evaluate the policies of the jobs that don't run; the number of changed jobs."""
        session = self.context.session
        return await leadertasks.policy_pass(session.database, session.matchmaker)

    async def ask(self, name: str, body: bytes = b"", arg: str = "", **more: Any) -> Answer:
        """The whole answer to one request."""
        caller = more.pop("caller", Caller(0, trusted=True, starter=more.pop("starter", STARTER)))
        seconds = more.pop("seconds", 700.0)
        spool = self.keep if more.pop("spool", False) else None
        request = Request(name, body, keyword="FW", arg=arg, **more)
        task = Task(
            request,
            caller,
            self.context,
            self.runs,
            time.monotonic() + seconds,
            spool=spool,
        )
        return await handlers.handle(task, fetch_work=lambda task: self.fetches.answer(task, Signal()))

    async def close(self) -> None:
        await self.context.session.close()
        self.database.close()

    async def keep(self, report: Request) -> None:
        """Spool a report."""
        self.spooled.append(report)

    async def fetch(self, slot: bytes | None = None) -> bytes:
        """The job ad that a slot gets, as bytes; empty without work."""
        answer = await self.ask("fetch_work", slot if slot is not None else slot_ad())
        assert not answer.reply.code, answer.reply.message
        return answer.reply.body

    async def reply(self, arg: str, job: bytes, slot: bytes | None = None) -> Answer:
        return await self.ask("reply_fetch", job + b"-----\n" + (slot or slot_ad()), arg)

    async def start(self, job: bytes, **more: Any) -> Answer:
        return await self.ask("prepare_job", job, slot="slot1", **more)

    async def update(self, job: bytes, **attributes: Any) -> Answer:
        return await self.ask("update_job_info", with_attributes(job, **attributes), slot="slot1")

    async def exit(
        self,
        job: bytes,
        arg: str = "exit",
        *,
        starter: Process | None = STARTER,
        caller: Caller | None = None,
        **attributes: Any,
    ) -> Answer:
        body = with_attributes(job, **attributes)
        caller = caller or Caller(0, trusted=True, starter=starter)
        return await self.ask("job_exit", body, arg, slot="slot1", caller=caller)

    async def started_job(self) -> bytes:
        """A job that was fetched, accepted and started; its ad."""
        job = await self.fetch()
        await self.reply("accept", job)
        answer = await self.start(job)
        assert answer.outcome == "started", answer
        return job


async def nothing() -> None:
    """The function that agents replay reports with here: it does nothing."""


class WatchingHooks(Hooks):
    """The hooks of a host whose agent watches its runs."""

    runs: WatchedRuns

    def __init__(self, conninfo: str, *, replay: Replay = nothing, **context: Any) -> None:
        super().__init__(conninfo, runs=WatchedRuns(replay, lambda session, slot: None), **context)

    async def begin(self, starter: Process, slot: bytes | None = None) -> bytes:
        """The ad of the next job, which a starter has begun to run."""
        job = await self.fetch(slot)
        await self.reply("accept", job, slot)
        assert (await self.start(job, starter=starter)).outcome == "started"
        return job

    async def close(self) -> None:
        await self.runs.close()
        await super().close()


def process_of(child: Child) -> Process:
    process = Process.find(child.pid)
    assert process is not None
    return process


def when_ready(child: Child) -> Process:
    """The process of a child that writes a line once it is ready."""
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    return process_of(child)


def slot_ad(name: str = "25.14.1-fetch_work-static-unclaimed", **more: Any) -> bytes:
    """A captured slot ad, with some attributes changed."""
    body = (ADS / f"{name}.ad").read_bytes()
    return with_attributes(body, **more)


def with_attributes(body: bytes, **attributes: Any) -> bytes:
    if not attributes:
        return body
    ad = parse_old(body)
    ad.update(attributes)
    return print_old(ad).encode()


def attributes_of(body: bytes) -> ClassAd:
    return parse_old(body)


@pytest.fixture
async def agent(conninfo: str) -> AsyncIterator[WatchingHooks]:
    agent = WatchingHooks(conninfo)
    yield agent
    await agent.close()


#: makes an agent's process, not started yet: make_agent("vm", agent={...}, max_fetch_wait_s=...)
MakeAgent = Callable[..., AgentProcess]


@pytest.fixture
def make_agent(conninfo: str, public_directory: Callable[[], Path]) -> Iterator[MakeAgent]:
    """Makes agents in one host's directory; further keywords are settings of the hook keyword FW."""
    home = public_directory()
    made: list[AgentProcess] = []

    def make(
        name: str = "vm",
        *,
        directory: str = ".",
        program: str = PROGRAM,
        agent: dict[str, object] | None = None,
        **keyword: object,
    ) -> AgentProcess:
        (home / directory).mkdir(exist_ok=True)
        process = AgentProcess(
            home / directory,
            name,
            conninfo,
            agent={"log_level": "debug", "lease_s": 15, **(agent or {})},
            keyword={"max_fetch_wait_s": 0, **keyword},
            keyword_name="FW",
            program=program,
        )
        made.append(process)
        return process

    yield make
    for process in made:
        process.signal(signal.SIGKILL)


@pytest.fixture
def jobs(conninfo: str) -> Iterator[Jobs]:
    """The queue, for tests without hooks."""
    jobs = Jobs(conninfo)
    yield jobs
    jobs.database.close()


@pytest.fixture
async def hooks(conninfo: str) -> AsyncIterator[Hooks]:
    hooks = Hooks(conninfo)
    yield hooks
    await hooks.close()


@pytest.fixture
async def waits(conninfo: str) -> AsyncIterator[Hooks]:
    """The hooks of a host whose fetches wait for work."""
    hooks = Hooks(conninfo, max_fetch_wait_s=600.0)
    yield hooks
    await hooks.close()


@pytest.fixture
async def no_database() -> AsyncIterator[Hooks]:
    """The hooks of a host whose database is away."""
    hooks = Hooks("host=127.0.0.1 port=1 dbname=x")
    yield hooks
    await hooks.close()
