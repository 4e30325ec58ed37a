"""The agent as a process: its parts put together, its periodic work, its signals.

Requests in flight

- at SIGTERM: they are finished; a waiting fetch is answered "no work". Then the agent says goodbye to its
  databases, so that its runs keep their own time, and ends with status 0. SIGQUIT does the same at once.
- while PostgreSQL is away: FETCH_WORK is answered "no work", PREPARE_JOB keeps the job from starting,
  JOB_EXIT goes to the spool, an update is lost, and after a lease ends the job; all within their deadlines.
- sent twice: SQL functions answer the second like the first; only FETCH_WORK would claim another job.

SIGHUP (condor_reconfig) reopens the log file and reads the host file again (``agent.hostfile``).
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import os
import signal
import time
import uuid
from collections.abc import Awaitable, Callable, Hashable
from pathlib import Path
from typing import TYPE_CHECKING

from fetchwork import __version__, handlers
from fetchwork.agent import credentialupkeep, identity, leader
from fetchwork.agent.client import AgentStatus, DatabaseStatus
from fetchwork.agent.fetching.fetches import Fetches
from fetchwork.agent.fetching.longpoll import WaitingFetches
from fetchwork.agent.fetching.notifications import WorkNotifications
from fetchwork.agent.fetching.slots import SlotReports
from fetchwork.agent.files.hostfiles import AgentFiles
from fetchwork.agent.hostfile import HostFile, trusted_accounts
from fetchwork.agent.lease import ROUND_S, Lease
from fetchwork.agent.master import LAST_HOOKS_S, Master
from fetchwork.agent.periodic import every
from fetchwork.agent.replay import Replay
from fetchwork.agent.root.signalrights import SignalRights
from fetchwork.agent.runs.ends import Ends
from fetchwork.agent.runs.liveoutput import ROUND_S as OUTPUT_S
from fetchwork.agent.runs.liveoutput import LiveOutputs, open_as_user
from fetchwork.agent.runs.starters import starter_of
from fetchwork.agent.runs.updates import ENDS_S, Updates
from fetchwork.agent.runs.updates import ROUND_S as UPDATES_S
from fetchwork.agent.runs.usage import DISK_S, MEMORY_S, DiskWatch, MemoryWatch
from fetchwork.agent.runs.watch import WatchedRuns
from fetchwork.agent.server import Server
from fetchwork.agent.signals import Signal
from fetchwork.agent.turns import Turns
from fetchwork.config import HostConfig
from fetchwork.config.hostname import listen_address
from fetchwork.db.sequencing import Sequencer
from fetchwork.errors import AgentUnavailable
from fetchwork.handlers.context import Answer, Caller, Outcome, Task
from fetchwork.handlers.host.keywords import (
    KeywordContext,
    change_contexts,
    jobs_change_account,
    make_contexts,
)
from fetchwork.handlers.host.session import HostSession
from fetchwork.handlers.requests.fetch import FetchAttempt
from fetchwork.hook.spool import Spool, write_report
from fetchwork.hook.wire import Reply, Request
from fetchwork.ipc.peer import Peer
from fetchwork.log import event, reopen
from fetchwork.process import Process
from fetchwork.renewal import Renewal

if TYPE_CHECKING:
    from fetchwork.agent.metrics import AgentMetrics
    from fetchwork.metrics.serving import Server as MetricsServer

log = logging.getLogger(__name__)

#: seconds that requests in flight get at SIGTERM
PATIENCE_S = 10.0
SPOOL_S = 5.0
SLOTS_S = 5.0
LOOK_S = 1.0
#: seconds between two sweeps of the starter logs of ended runs
CLEAN_S = 3600.0

# outcomes that change nothing, logged at DEBUG only
_QUIET: frozenset[Outcome] = frozenset(
    ("nothing", "busy", "not_idle", "claimed_by_schedd", "alive", "late", "noted", "chunk")
)


class Agent:
    """One host's agent; ``run`` is its life."""

    def __init__(
        self, config: HostConfig, rights: SignalRights | None = None, file: Path | None = None
    ) -> None:
        self.config = config  #: as at the start
        self.host_file = HostFile(file, config, self._take)
        self.rights = rights or SignalRights()
        self.agent_id = str(uuid.uuid4())
        self.started_at = time.time()
        self.contexts = make_contexts(config, agent_id=self.agent_id)
        # one context of each session: a lease does not depend on the keyword of a run
        contexts = {id(context.session): context for context in self.contexts.values()}.values()
        self.sessions = [context.session for context in contexts]
        self.trusted = trusted_accounts(config)
        self.spool = Spool(str(config.agent.spool))
        self.replay = Replay(self.spool, self.contexts, self.trusted)
        self.waiting_fetches = WaitingFetches(config.agent.max_waiting_fetches)
        self.runs = WatchedRuns(self.replay_spool, self.waiting_fetches.resources_return, self.rights)
        self.runs.tell_end = Ends(self.runs, self._keep).tell
        self.files = AgentFiles(config, self.contexts, self.sessions, self.runs, self.trusted)
        self.fetches = Fetches(self.runs, self.waiting_fetches, self._fetch_waits)
        self.slots = SlotReports()
        self.server = Server(config.socket, self.dispatch, self.trusted, self.runs.owners)
        self.leases = [
            Lease(context, self.runs, self.agent_id, self.waiting_fetches.wake) for context in contexts
        ]
        self.live_outputs = {
            session: LiveOutputs(session, self.runs, functools.partial(open_as_user, self.rights))
            for session in self.sessions
        }
        self.notifications = {
            lease.session: WorkNotifications(lease, self.waiting_fetches, self.live_outputs[lease.session])
            for lease in self.leases
        }
        self._turns = Turns()
        self._stopping = asyncio.Event()
        self._fast = False
        self._master = Master()
        self._missed_at: float | None = None
        self._metrics: AgentMetrics | None = None
        self._updates: Updates | None = None

    # -- life

    async def run(self) -> None:
        """Serve until SIGTERM, SIGINT or SIGQUIT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            loop.add_signal_handler(number, self.stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._reopen)
        await asyncio.to_thread(self.spool.make)
        await asyncio.to_thread(self.files.open)
        await self.server.start()
        me = await asyncio.to_thread(identity.assume, self.config.agent.spool, self.agent_id)
        for session in self.sessions:
            session.location, session.replaces = me.location, me.replaces
        event(
            log,
            logging.INFO,
            "agent_started",
            version=__version__,
            host=self.config.name,
            socket=self.config.socket,
            keywords=",".join(context.keyword for context in self.contexts.values()),
            pid=os.getpid(),
            rights=self.rights.how,
        )
        metrics_server = self._serve_metrics(loop)
        tasks = [asyncio.ensure_future(work) for work in self._periodic_work()]
        try:
            await self._stopping.wait()
        finally:
            if metrics_server is not None and self._metrics is not None:
                self._metrics.close()
                await asyncio.to_thread(metrics_server.close)
            self.waiting_fetches.close()
            await self.server.stop(0.0 if self._fast else PATIENCE_S)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.files.close()
            await self.runs.close()
            await asyncio.gather(*(output.close() for output in self.live_outputs.values()))
            await asyncio.gather(*(lease.goodbye(1.0 if self._fast else 3.0) for lease in self.leases))
            me.close()
            self.rights.close()
            event(log, logging.INFO, "agent_stopped")

    def _serve_metrics(self, loop: asyncio.AbstractEventLoop) -> MetricsServer | None:
        """Serve Prometheus if the host file says so; an agent that can't listen there goes on."""
        if self.config.agent.metrics is None:
            return None
        # imported here because most hosts need no metrics
        from fetchwork.agent.metrics import AgentMetrics

        metrics = AgentMetrics.of(self.status, self.spool, loop)
        try:
            server = metrics.serve(*listen_address(self.config.agent.metrics))
        except AgentUnavailable as error:
            event(log, logging.ERROR, "metrics_not_served", problem=error)
            return None
        self._metrics = metrics
        return server

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Begin the agent's end; SIGQUIT shortens the time that requests and goodbyes get."""
        self._fast = self._fast or number == signal.SIGQUIT
        event(log, logging.INFO, "stopping", signal=signal.Signals(number).name)
        self._stopping.set()

    def _reopen(self) -> None:
        reopen()
        event(log, logging.INFO, "log_reopened")
        self.host_file.reload_soon()

    def _take(self, config: HostConfig) -> None:
        """Change the settings that a running agent can change."""
        change_contexts(self.contexts, config)
        for session in self.sessions:
            self.host_file.use_conninfo(session.database, session.name)
        self.waiting_fetches.limit = config.agent.max_waiting_fetches
        if self._updates is not None:
            slots = config.slots
            self._updates.change_intervals(slots.initial_update_interval_s, slots.update_interval_s)
        # they wait for work of the earlier queues
        self.waiting_fetches.end_all()

    # -- requests

    async def dispatch(self, request: Request, who: Peer, end: float, gone: Signal) -> Answer:
        """Answer one request of ``who``; the end of its connection sets ``gone``."""
        began = time.monotonic()
        if request.name == "status":
            return Answer(Reply(json.dumps(self.status(), indent=4).encode() + b"\n"), "noted")
        if request.name == "reload":
            if who.uid not in self.trusted:
                reply = Reply(code="denied", message="only root and the agent's account may ask for that")
                return Answer(reply, "denied")
            await self.host_file.reload()
            return Answer(Reply(json.dumps(self.status()).encode()), "noted")
        context = self.contexts.get(request.keyword.lower())
        if context is None:
            message = f"keyword '{request.keyword[:40]}' is not in the agent's host file"
            reply = Reply(code="bad_request", message=message)
            answer = Answer(reply, "bad_request", details={"problem": message})
        elif request.name == "fetch_work" and self._master.gone:
            # the startd has seconds to live: a job that it starts now would become an orphan
            answer = Answer(Reply(), "no_master")
        else:
            answer = await self._handle(self._task(request, who, context, end), gone)
        self._log(request, who, answer, began)
        if self._metrics is not None:
            self._metrics.answered(request.name, answer, time.monotonic() - began)
        if context is not None and request.name == "fetch_work" and answer.slot is not None:
            self.slots.answered(context, request.body, answer)
            if answer.outcome == "nothing":
                self.waiting_fetches.resources_return(context.session, answer.slot)
        return answer

    async def _handle(self, task: Task, gone: Signal) -> Answer:
        async with self._turns.of(task.caller, task.request.name):
            return await handlers.handle(task, fetch_work=lambda task: self.fetches.answer(task, gone))

    def _task(self, request: Request, who: Peer, context: KeywordContext, end: float) -> Task:
        starter = None
        if request.name not in handlers.STARTD_HOOKS:
            hook = Process.find(who.pid)
            starter = starter_of(hook) if hook else None
        caller = Caller(who.uid, who.uid in self.trusted, starter)
        return Task(request, caller, context, self.runs, end, self._spool_of(caller), self.files)

    def _spool_of(self, caller: Caller) -> Callable[[Request], Awaitable[None]] | None:
        """Return a function that spools a report in the caller's name; None if only the hook itself can."""
        if os.geteuid() != 0 and not caller.trusted:
            return None
        return functools.partial(self._keep, uid=-1 if caller.trusted else caller.uid)

    async def _keep(self, report: Request, uid: int = -1) -> None:
        """Spool a report in the name of an account, or as the agent's own."""
        await asyncio.to_thread(write_report, str(self.config.agent.spool), report, uid)

    def _fetch_waits(self, attempt: FetchAttempt) -> None:
        """Report the slot also while its fetch waits, so that people see it."""
        self.slots.fetched(attempt.task.context, attempt.slot_name, attempt.task.request.body, "waiting")

    def _log(self, request: Request, who: Peer, answer: Answer, began: float) -> None:
        fields = {**answer.log_fields(), "ms": int((time.monotonic() - began) * 1000)}
        level = logging.DEBUG if answer.outcome in _QUIET else logging.INFO
        # an account may have many runs, and the limit of lines is for each run
        person: Hashable = (who.uid, fields.get("run"))
        if answer.reply.code:
            level, person, fields["uid"] = logging.WARNING, who.uid, who.uid
        event(log, level, request.name, person=None if who.uid in self.trusted else person, **fields)

    # -- status

    def status(self) -> AgentStatus:
        """The agent's state, for commands."""
        now = time.monotonic()
        return {
            "version": __version__,
            "pid": os.getpid(),
            "host": self.config.name,
            "master_gone": self._master.gone,
            "started_at": int(self.started_at),
            "uptime_s": int(time.time() - self.started_at),
            "keywords": {context.keyword: list(context.queues) for context in self.contexts.values()},
            "databases": {session.name: self._database_status(session, now) for session in self.sessions},
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
            "rights": self.rights.how,
            "host_file": self.host_file.status(),
        }

    def _database_status(self, session: HostSession, now: float) -> DatabaseStatus:
        problem = session.database.problem
        state = "unavailable" if problem else "up" if session.greeting else "unknown"
        return {
            "state": "taken" if session.taken else state,
            "problem": session.taken or problem,
            "last_answer_s": round(now - session.database.answered_at, 1),
            "schema": session.greeting.schema_version if session.greeting else None,
            "listening": self.notifications[session].listening,
            "autoclusters_cached": len(session.autoclusters),
            "cut_off": session.cut_off,
        }

    # -- periodic work

    def _periodic_work(self) -> list[Awaitable[None]]:
        work: list[Awaitable[None]] = [
            every(SPOOL_S, self.replay_spool),
            every(LOOK_S, self._look),
            every(CLEAN_S, self._clean),
            self._end_without_rights(),
        ]
        if self.config.agent_updates:
            slots = self.config.slots
            updates = self._updates = Updates(
                self.runs,
                self.contexts,
                self.config.agent.spool.with_name(f"{self.config.agent.spool.name}.runs"),
                first_s=slots.initial_update_interval_s,
                interval_s=slots.update_interval_s,
            )
            work.append(every(UPDATES_S, updates.round, self.runs.orders.came))
            work.append(every(ENDS_S, updates.tell_ends))
            if self.config.slots.limit_memory is not False:
                work.append(every(MEMORY_S, MemoryWatch(self.runs).round))
            if self.config.slots.limit_disk:
                work.append(every(DISK_S, DiskWatch(self.runs).round))
        for lease in self.leases:
            notifications = self.notifications[lease.session]
            output = self.live_outputs[lease.session]
            work += [
                every(ROUND_S, lease.keep, lease.soon),
                every(ROUND_S, lease.look_after_runs),
                every(OUTPUT_S, output.round, output.soon),
                notifications.listen(),
                notifications.wake(),
                *self._upkeep(lease.session),
            ]
        one_account = None if jobs_change_account(self.config) else os.geteuid()
        # one for each database, as with sessions
        for host in filter(None, {context.credentials for context in self.contexts.values()}):
            work += credentialupkeep.periodic(host, self.rights, one_account)
        return work

    def _upkeep(self, session: HostSession) -> list[Awaitable[None]]:
        """Return the periodic work with a database that has answered once."""

        async def report_slots() -> None:
            if session.greeting is not None:
                await self.slots.report(session)
                self.slots.forget(session, {run.slot for run in self.runs if run.context.session is session})

        conninfo = self.config.databases[session.name].conninfo
        lead = leader.Leader(session)
        return [
            every(leader.MAINTAIN_QUEUE_S, lead.keep_in_order),
            every(SLOTS_S, report_slots, session.wants_slots_known),
            every(leader.PREEMPT_S, lead.do_tasks),
            every(leader.NOTIFICATIONS_S, lead.free_notifications),
            every(LOOK_S, Renewal(session.name, conninfo, session.database).look),
            Sequencer(session.database, lambda: lead.leads).run(),
        ]

    async def _end_without_rights(self) -> None:
        """End together with the privileged part: condor_master starts both again."""
        await self.rights.until_lost()
        event(log, logging.ERROR, "root_part_ended", problem="agent ends with the part of it that keeps root")
        self.stop()

    async def _look(self) -> None:
        """Check the starters, and end once the master is gone and none of its runs is left."""
        self.runs.look()
        if not self._master.gone:
            return
        if self._missed_at is None:
            self._missed_at = time.monotonic()
            event(log, logging.WARNING, "master_gone", runs=len(self.runs))
        still = any(run.state == "running" for run in self.runs)
        if not still and time.monotonic() > self._missed_at + LAST_HOOKS_S and not self._stopping.is_set():
            self.stop()

    async def _clean(self) -> None:
        # a database that has been away since the start may know runs of the previous agent
        if not self.runs.taken_over.issuperset(self.sessions):
            return
        for logs in {context.starter_logs for context in self.contexts.values()}:
            await logs.clean([(run.run_id, run.token) for run in self.runs])

    async def replay_spool(self) -> None:
        """Deliver the reports and outputs that hooks have left; raises only DatabaseUnavailable."""
        await self.files.outputs.look()
        await self.replay.deliver(self.runs)
