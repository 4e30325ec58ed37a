"""The agent as a process: its parts put together, its chores, its signals.

What happens to a request in flight

- at SIGTERM: it is finished; a fetch that waits for work is answered with nothing. Then the agent says
  goodbye to its databases, so that its runs keep their own time, and ends with status 0. SIGQUIT: the same,
  at once.
- while PostgreSQL is away: FETCH_WORK is answered "no work", PREPARE_JOB keeps the job from starting,
  JOB_EXIT goes to the spool, an update is lost, and after a lease ends the job. All within their deadlines.
- sent twice: the SQL functions answer the second as the first; only FETCH_WORK would claim another job.

SIGHUP (condor_reconfig) opens the log file anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import signal
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fetchwork import __version__, handlers
from fetchwork.agent import peer
from fetchwork.agent.longpoll import Held, WaitingFetches
from fetchwork.agent.master import LAST_HOOKS_S, Master
from fetchwork.agent.replay import Replay
from fetchwork.agent.server import Server
from fetchwork.agent.slots import SlotReports
from fetchwork.agent.watch import WatchedRuns
from fetchwork.config import HostConfig
from fetchwork.errors import ConfigError, DatabaseUnavailable, FetchworkError, SchemaMismatch
from fetchwork.handlers import maintenance
from fetchwork.handlers.context import Answer, Caller, Task
from fetchwork.handlers.keywords import KeywordContext, make_contexts
from fetchwork.handlers.session import HostSession
from fetchwork.hook.spool import Spool, write_report
from fetchwork.hook.wire import Reply, Request
from fetchwork.log import event, reopen
from fetchwork.process import Process

log = logging.getLogger(__name__)

CALL_S = 5.0
#: seconds that requests in flight get at SIGTERM
PATIENCE_S = 10.0
SPOOL_S = 5.0
SLOTS_S = 5.0
#: held fetches look again after this even if nothing told them to: limits and rests end in silence
LOOK_S = 5.0
#: the same where notifications do not arrive
POLL_S = 1.0
#: the list of live runs is compared with the database's
RUNS_S = 60.0

# outcomes that change nothing: not worth a line each
_QUIET = frozenset({"nothing", "busy", "not_idle", "claimed_by_schedd", "alive", "late", "noted", None})


class Agent:
    """One host's agent; ``run`` is its life."""

    def __init__(self, config: HostConfig) -> None:
        self.config = config
        self.agent_id = str(uuid.uuid4())
        self.started_at = time.time()
        self.contexts = make_contexts(config, agent_id=self.agent_id)
        self.sessions = list(
            {id(context.session): context.session for context in self.contexts.values()}.values()
        )
        self.trusted = trusted_accounts(config)
        self.spool = Spool(str(config.agent.spool))
        self.replay = Replay(self.spool, self.contexts, self.trusted)
        self.waiting_fetches = WaitingFetches(config.agent.max_waiting_fetches)
        self.runs = WatchedRuns(self.replay_spool, self.waiting_fetches.resources_return)
        self.slots = SlotReports()
        self.server = Server(config.socket, self.dispatch, self.trusted)
        self.listening: set[HostSession] = set()
        self._renewing = {session: asyncio.Lock() for session in self.sessions}
        self._stopping = asyncio.Event()
        self._fast = False
        self._master = Master()
        self._missed_at: float | None = None
        self._away: set[HostSession] = set()

    # -- life

    async def run(self) -> None:
        """Serve until SIGTERM, SIGINT or SIGQUIT."""
        await asyncio.to_thread(self.spool.make)
        await self.server.start()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            loop.add_signal_handler(number, self.stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._reopen)
        event(
            log,
            logging.INFO,
            "agent_started",
            version=__version__,
            host=self.config.name,
            socket=self.config.socket,
            keywords=",".join(context.keyword for context in self.contexts.values()),
            pid=os.getpid(),
        )
        tasks = [asyncio.ensure_future(work) for work in self._maintenance()]
        try:
            await self._stopping.wait()
        finally:
            self.waiting_fetches.close()
            await self.server.stop(0.0 if self._fast else PATIENCE_S)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.runs.close()
            await asyncio.gather(*(self._goodbye(session) for session in self.sessions))
            event(log, logging.INFO, "agent_stopped")

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Begin to end."""
        self._fast = self._fast or number == signal.SIGQUIT
        event(log, logging.INFO, "stopping", signal=signal.Signals(number).name)
        self._stopping.set()

    def _reopen(self) -> None:
        reopen()
        event(log, logging.INFO, "log_reopened")

    async def _goodbye(self, session: HostSession) -> None:
        patience_s = 1.0 if self._fast else 3.0
        with contextlib.suppress(FetchworkError, TimeoutError):
            async with asyncio.timeout(2 * patience_s), self._renewing[session]:
                if session.greeting is not None:
                    await session.database.scalar(
                        "goodbye",
                        timeout_s=patience_s,
                        host_id=session.greeting.host_id,
                        agent_id=self.agent_id,
                    )
        await session.database.close()

    # -- requests

    async def dispatch(self, request: Request, who: peer.Peer, end: float, gone: asyncio.Event) -> Answer:
        """Answer one request of ``who``."""
        began = time.monotonic()
        if request.name == "status":
            return Answer(Reply(json.dumps(self.status(), indent=4).encode() + b"\n"))
        context = self.contexts.get(request.keyword.lower())
        if context is None:
            message = f"keyword '{request.keyword[:40]}' is not in the agent's host file"
            answer = Answer(
                Reply(code="bad_request", message=message), {"outcome": "bad_request", "problem": message}
            )
        elif request.name == "fetch_work" and self._master.gone:
            # the startd has seconds to live: what it starts now would be an orphan
            answer = Answer(Reply(), {"outcome": "no_master"})
        else:
            answer = await handlers.handle(self._task(request, who, context, end, gone))
        fields = {**answer.fields, "ms": int((time.monotonic() - began) * 1000)}
        if answer.reply.code:
            level = logging.WARNING
            fields["uid"] = who.uid
        else:
            level = logging.DEBUG if fields.get("outcome") in _QUIET else logging.INFO
        event(log, level, request.name, **fields)
        if context is not None and request.name == "fetch_work" and "slot" in answer.fields:
            self.slots.answered(context.session, request.body, fields, context.queues)
            if fields["outcome"] == "nothing":
                self.waiting_fetches.resources_return(context.session, fields["slot"])
        return answer

    def _task(
        self, request: Request, who: peer.Peer, context: KeywordContext, end: float, gone: asyncio.Event
    ) -> Task:
        starter = None
        if request.name not in handlers.STARTD_HOOKS:
            hook = Process.find(who.pid)
            parent = hook.parent if hook else None
            starter = parent.key if parent else None
        caller = Caller(who.uid, who.uid in self.trusted, starter)

        def hold(slot: str) -> Held | None:
            if context.max_fetch_wait_s <= 0:
                return None
            # people see the slot while it waits, too
            self.slots.fetched(context.session, slot, request.body, "waiting", context.queues)
            return self.waiting_fetches.enter(context.session, slot, gone)

        return Task(request, caller, context, self.runs, end, hold, self._keep)

    def _keep(self, report: Request) -> None:
        write_report(str(self.config.agent.spool), report)

    def status(self) -> dict[str, Any]:
        """What ``fetchwork agent --status`` and ``fetchwork doctor`` show; holds no secrets."""
        now = time.monotonic()
        return {
            "version": __version__,
            "pid": os.getpid(),
            "host": self.config.name,
            "master_gone": self._master.gone,
            "started_at": int(self.started_at),
            "uptime_s": int(time.time() - self.started_at),
            "keywords": {context.keyword: list(context.queues) for context in self.contexts.values()},
            "databases": {session.name: self._session_status(session, now) for session in self.sessions},
            "runs": [
                {
                    "run_id": run.run_id,
                    "job": run.job,
                    "slot": run.slot,
                    "owner": run.owner,
                    "state": run.state,
                }
                for run in self.runs
            ],
            "waiting_fetches": len(self.waiting_fetches),
            "max_waiting_fetches": self.waiting_fetches.limit,
            "requests": self.server.requests,
            "connections": len(self.server.connections),
            "spool": str(self.config.agent.spool),
        }

    def _session_status(self, session: HostSession, now: float) -> dict[str, Any]:
        return {
            "state": "unavailable" if session.database.problem else "up" if session.greeting else "unknown",
            "problem": session.database.problem,
            "last_answer_s": round(now - session.database.answered_at, 1),
            "schema": session.greeting.schema_version if session.greeting else None,
            "listening": session in self.listening,
            "autoclusters_cached": len(session.autoclusters),
            "cut_off": session.cut_off,
        }

    # -- chores

    def _maintenance(self) -> list[Awaitable[None]]:
        work: list[Awaitable[None]] = [self._every(SPOOL_S, self.replay_spool), self._every(1.0, self._look)]
        for session in self.sessions:
            work += [self._serve(session), self._listen(session), self._wake(session), *self._upkeep(session)]
        return work

    async def _every(self, seconds: float, chore: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(random.uniform(0.8, 1.2) * seconds)  # noqa: S311
            try:
                await chore()
            except DatabaseUnavailable as error:
                event(log, logging.DEBUG, "chore", problem=error)
            except SchemaMismatch as error:
                event(log, logging.ERROR, "schema", problem=error)
                await asyncio.sleep(30.0)
            except FetchworkError as error:
                event(log, logging.ERROR, "chore", problem=error)
            except Exception:
                log.exception("chore failed")

    async def _look(self) -> None:
        self.runs.look()
        if not self._master.gone:
            return
        if self._missed_at is None:
            self._missed_at = time.monotonic()
            event(log, logging.WARNING, "master_gone", runs=len(self.runs))
        still = any(run.state == "running" for run in self.runs)
        if not still and time.monotonic() > self._missed_at + LAST_HOOKS_S and not self._stopping.is_set():
            self.stop()

    async def _serve(self, session: HostSession) -> None:
        """Keep the lease of one database: greet it, take over its runs, beat; nothing slow in between."""
        due = {"beat": 0.0, "runs": 0.0}

        async def keep() -> None:
            try:
                now = time.monotonic()
                if session.greeting is None or session.cut_off:
                    # after so long a silence the host is as good as new: its runs may be others' by now
                    await self._renew(session, session.say_hello(CALL_S))
                    due["runs"] = now
                assert session.greeting is not None
                if due["runs"] <= now or session in self.runs.unknown_runs:
                    await self._take_over(session)
                    due["runs"] = now + random.uniform(0.8, 1.2) * RUNS_S  # noqa: S311
                if due["beat"] <= now:
                    await self._renew(session, self._beat(session))
                    due["beat"] = now + random.uniform(0.8, 1.0) * session.greeting.lease_s / 3  # noqa: S311
            except DatabaseUnavailable as error:
                self._note_away(session, error)
                raise
            if session in self._away:
                self._away.discard(session)
                event(log, logging.INFO, "database_back", database=session.name)
                # a crash may have forgotten a claim
                due["runs"] = 0.0
                self.waiting_fetches.wake(session)

        await self._every(0.5, keep)

    async def _renew(self, session: HostSession, call: Coroutine[Any, Any, Any]) -> None:
        """Make a call that renews the host's lease; it is not cut short, and goodbye comes after it."""

        async def alone() -> None:
            async with self._renewing[session]:
                await call

        work = asyncio.ensure_future(alone())
        # should nobody wait for it any more
        work.add_done_callback(_read_failure)
        await asyncio.shield(work)

    def _upkeep(self, session: HostSession) -> list[Awaitable[None]]:
        async def tick() -> None:
            if session.greeting is not None:
                await maintenance.tick(session)

        async def tell() -> None:
            if session.greeting is not None:
                await self.slots.tell(session)

        async def duties() -> None:
            if session.greeting is not None:
                await maintenance.do_leader_tasks(session)

        return [
            self._every(maintenance.TICK_S, tick),
            self._every(SLOTS_S, tell),
            self._every(maintenance.PREEMPT_S, duties),
        ]

    def _note_away(self, session: HostSession, problem: FetchworkError) -> None:
        if session not in self._away:
            self._away.add(session)
            event(log, logging.WARNING, "database_away", database=session.name, problem=problem)

    async def _beat(self, session: HostSession) -> None:
        assert session.greeting is not None
        asked_at = time.monotonic()
        rows = await session.database.call(
            "beat", timeout_s=CALL_S, host_id=session.greeting.host_id, alive=self.runs.alive(session)
        )
        session.renewed(asked_at)
        for row in rows:
            event(log, logging.DEBUG, "beat", run=row["run_id"], action=row["action"])

    async def _take_over(self, session: HostSession) -> None:
        # which of the database's keywords a run came from does not matter any more
        context = next(context for context in self.contexts.values() if context.session is session)
        await self.runs.take_over(context, CALL_S)

    async def _listen(self, session: HostSession) -> None:
        """Wake held fetches when work is notified."""
        while True:
            try:
                async with contextlib.aclosing(session.database.notifications("fetchwork_work")) as notes:
                    async for _ in notes:
                        self.listening.add(session)
                        self.waiting_fetches.wake(session)
            except FetchworkError as error:
                event(log, logging.DEBUG, "listen", database=session.name, problem=error)
                if session in self.listening:
                    # calls may still wait for it a while: this connection is the first to know
                    self._note_away(session, error)
            finally:
                self.listening.discard(session)
            await asyncio.sleep(random.uniform(0.5, 1.5))  # noqa: S311

    async def _wake(self, session: HostSession) -> None:
        """Let held fetches look now and then."""
        while True:
            await asyncio.sleep(LOOK_S if session in self.listening else POLL_S)
            self.waiting_fetches.wake(session)

    async def replay_spool(self) -> None:
        """Deliver the reports that could not be; ends with DatabaseUnavailable, if at all."""
        await self.replay.deliver(self.runs)


def _read_failure(work: asyncio.Future[None]) -> None:
    if not work.cancelled():
        work.exception()


def trusted_accounts(config: HostConfig) -> frozenset[int]:
    """Those that may ask what the startd asks: root, the agent itself, the account that HTCondor runs as."""
    uids = {0, os.geteuid()}
    for account in {"condor", config.agent.user} - {"", None}:
        uid = peer.uid_of(str(account))
        if uid is not None:
            uids.add(uid)
        elif account == config.agent.user and os.geteuid() == 0:
            raise ConfigError([f"agent.user: there is no account '{account}' on this host"])
    return frozenset(uids)
