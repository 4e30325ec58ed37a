"""The access point as a process: its parts, the accounts that it serves, its signals.

At SIGTERM it finishes requests in flight. SIGKILL loses nothing either: a committed submission is known by
its key, and the successor brings the event logs up to date (``submitting``, ``logs``).
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import pwd
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from fetchwork import __version__
from fetchwork.accesspoint.answers import ActingSession, Answers, frames
from fetchwork.accesspoint.budgets import MAX_WAITING_EACH
from fetchwork.accesspoint.checkpoints import Checkpoints
from fetchwork.accesspoint.children import Account, ChildEnded, Children
from fetchwork.accesspoint.commanding import Commands
from fetchwork.accesspoint.joblogs import JobLogs
from fetchwork.accesspoint.leading import Leading
from fetchwork.accesspoint.logs import LogKeeper
from fetchwork.accesspoint.outputs import Outputs
from fetchwork.accesspoint.scheduler.schedulerjobs import SchedulerJobs
from fetchwork.accesspoint.server import Channel, Moving, Server, failure
from fetchwork.accesspoint.submitting import Submitting
from fetchwork.client.link import CHANGES
from fetchwork.codes import Universe
from fetchwork.db.pool import AsyncDatabase
from fetchwork.db.sequencing import Sequencer
from fetchwork.errors import DatabaseUnavailable, FetchworkError, InsufficientPrivilege
from fetchwork.ipc.frames import Json, encode
from fetchwork.log import event
from fetchwork.queue.ask import Evaluate, Memory
from fetchwork.queue.operations import STEPS, STREAMS
from fetchwork.renewal import Renewal

log = logging.getLogger(__name__)

#: connections to the database for requests, besides those of submissions
CONNECTIONS = 8
#: seconds for one query, for the evaluation of one page of ads, and at the end for requests in flight
QUESTION_S = 60.0
EVALUATE_S = 30.0
PATIENCE_S = 10.0
#: seconds after which an account's line of passwd is read again
ACCOUNT_S = 60.0
#: evaluates the constraints of root, who has no child
_NOBODY = 65534


@dataclass(frozen=True)
class Settings:
    """The settings of an access point."""

    conninfo: str
    socket: Path
    #: the directory of its state
    state: Path
    #: its name in the ads of jobs submitted here
    name: str
    #: accounts with smaller uids are the system's, and are not served
    min_uid: int


@dataclass(frozen=True, slots=True)
class Asker:
    """The asker: the account that counts; None is root, who sees everything and owns nothing."""

    account: Account | None
    #: the owner whose rights the database applies; None: the rights of the access point's role
    owner: str | None


class AccessPoint:
    """One access point."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._me = os.geteuid()
        self._children = Children(settings.min_uid if self._me == 0 else 0)
        self._database = AsyncDatabase(
            settings.conninfo,
            size=CONNECTIONS,
            application_name="fetchwork access-point",
            timeout_s=QUESTION_S,
        )
        # separate, so that no request delays it
        self._log_database = AsyncDatabase(
            settings.conninfo, size=4, application_name="fetchwork access-point logs", timeout_s=QUESTION_S
        )
        self._logs = LogKeeper(
            self._log_database,
            JobLogs(self._log_database, settings.name),
            self._children,
            settings.state / "logs.json",
            self._serves,
        )
        self._submitting = Submitting(
            settings.conninfo, self._database, self._children, self._logs, settings.name
        )
        self._scheduler = SchedulerJobs(
            self._log_database,
            self._children,
            self._logs,
            name=settings.name,
            state=settings.state,
            access_point=settings.socket,
            quiet=self._submitting.quiet,
        )
        self._outputs = Outputs(
            self._log_database, self._children, settings.name, self._account_named, self._acts
        )
        self._checkpoints = Checkpoints(
            self._log_database, self._children, settings.name, self._account_named, self._acts
        )
        self._leading = Leading(self._log_database)
        self._renewal = Renewal("main", settings.conninfo, self._log_database)
        self._answers = Answers()
        self._server = Server(settings.socket, self._dispatch)
        self._commands = Commands(settings.socket, self._children, self._commander)
        self._memory = Memory()
        self._accounts: dict[int, tuple[float, Account]] = {}
        self._acting: bool | None = None
        self._stopping = asyncio.Event()
        self._started_at = time.monotonic()

    async def run(self) -> None:
        """Serve until SIGTERM."""
        self._children.start()
        self.settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            loop.add_signal_handler(number, self._stopping.set)
        with (self.settings.state / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FetchworkError(
                    f"another access point has its state in '{self.settings.state}'"
                ) from None
            await self._server.start()
            self._commands.start()
            event(
                log,
                logging.INFO,
                "access_point_started",
                socket=self.settings.socket,
                name=self.settings.name,
            )
            work = [
                asyncio.ensure_future(part)
                for part in (
                    self._logs.keep(),
                    self._scheduler.keep(),
                    self._outputs.keep(),
                    self._checkpoints.keep(),
                    self._leading.keep(),
                    self._renewal.keep(),
                    self._children.sweep(),
                    Sequencer(self._log_database).run(),
                )
            ]
            stop = asyncio.ensure_future(self._stopping.wait())
            try:
                await asyncio.wait([stop, *work], return_when=asyncio.FIRST_COMPLETED)
                for part in work:
                    if part.done():
                        part.result()
            finally:
                # while requests are still answered: ending jobs may send some
                await self._scheduler.stop()
                await self._commands.stop(PATIENCE_S)
                await self._server.stop(PATIENCE_S)
                for one in (*work, stop):
                    one.cancel()
                await asyncio.gather(*work, stop, return_exceptions=True)
                await self._submitting.close()
                await self._database.close()
                await self._log_database.close()
                await self._children.stop()
                event(log, logging.INFO, "access_point_ended")

    # -- the asker

    def _serves(self, name: str, uid: int) -> bool:
        if self._me != 0:
            return uid == self._me
        return uid != 0 and uid >= self.settings.min_uid

    async def _asker(self, request: Json, uid: int) -> Asker:
        """Return the asker: the account at the other end, or the account that root names with "as"."""
        name = request.pop("as", None)
        if name is not None and not isinstance(name, str):
            raise FetchworkError("'as' is not an account's name")
        if uid == 0 and name is None and self._me == 0:
            return Asker(None, None)
        if uid not in (0, self._me) and self._me != 0:
            mine = await self._account_of(self._me)
            raise InsufficientPrivilege(
                f"this access point serves '{mine.name}' alone; one that root starts serves all accounts"
            )
        if uid == 0 and name is not None:
            account = await _account_named(name)
        else:
            account = await self._account_of(self._me if self._me != 0 else uid)
            if name not in (None, account.name):
                raise InsufficientPrivilege(f"'{account.name}' may not act as '{name}'")
        if not self._serves(account.name, account.uid):
            raise InsufficientPrivilege(
                f"account '{account.name}' (uid {account.uid}) is not served by this access point;"
                f" allowed: {'its own account' if self._me else f'uid {self.settings.min_uid} and above'}"
            )
        return Asker(account, account.name if await self._acts() else None)

    async def _commander(self, uid: int) -> Account:
        """Return the account for a uid's commands; raises FetchworkError if the uid must run them itself."""
        account = (await self._asker({}, uid)).account
        if account is None or account.uid != uid:
            raise InsufficientPrivilege("the access point runs no commands for root")
        return account

    async def _account_of(self, uid: int) -> Account:
        kept = self._accounts.get(uid)
        if kept is not None and time.monotonic() - kept[0] < ACCOUNT_S:
            return kept[1]
        try:
            account = await asyncio.to_thread(lambda: Account.of(pwd.getpwuid(uid)))
        except KeyError:
            raise InsufficientPrivilege(f"uid {uid} has no account on this machine") from None
        self._accounts[uid] = (time.monotonic(), account)
        return account

    async def _account_named(self, name: str) -> Account:
        """Return the account of an owner; raises FetchworkError if it is missing here or not served."""
        account = await _account_named(name)
        if not self._serves(account.name, account.uid):
            raise FetchworkError(f"account '{name}' is not served here")
        return account

    async def _acts(self) -> bool:
        """Whether the role may act for accounts; for root's access point it must."""
        if self._acting is None:
            (row,) = await self._database.query(
                "SELECT current_user AS role, pg_has_role('fetchwork_access_point', 'USAGE') AS may"
            )
            if self._me == 0 and not row["may"]:
                raise InsufficientPrivilege(
                    f"role '{row['role']}' may not act for accounts; an administrator grants it"
                    " fetchwork_access_point"
                )
            self._acting = bool(row["may"])
        return self._acting

    # -- requests

    async def _dispatch(self, request: Json, channel: Channel) -> None:
        op = request.pop("op", None)
        began = time.monotonic()
        try:
            if op == "status":
                await channel.send(encode({"done": self.status()}))
                return
            if op not in ("submit", "retrieve") and op not in STEPS and op not in STREAMS:
                raise FetchworkError(f"the access point knows no operation '{op}'")
            asker = await self._asker(request, channel.peer.uid)
            if asker.account is None and (op == "submit" or op in CHANGES):
                raise InsufficientPrivilege(
                    "root owns no jobs: name the account that does with FETCHWORK_OWNER, or become it"
                )
            if op == "submit":
                await self._submit(asker, request, channel)
            elif op == "retrieve":
                await self._retrieve(asker, request, channel)
            elif op == "events":
                await self._events(asker, request, channel)
            else:
                await self._answers.give(
                    asker.owner,
                    op,
                    request,
                    lambda: self._limited(asker, op, request, channel),
                    channel.send,
                )
                if op in CHANGES:
                    self._scheduler.look()
        except (FetchworkError, ValueError, TypeError) as error:
            if isinstance(error, TypeError):
                # the operation does not take a name or a value in the request
                error = FetchworkError(f"the request '{op}' is malformed: {error}")
            uid = channel.peer.uid
            event(log, logging.INFO, "request_failed", person=uid, op=op, uid=uid, problem=error)
            await channel.send(failure(error))
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            uid = channel.peer.uid
            event(log, logging.ERROR, "request_failed", person=uid, exc_info=True, op=op, uid=uid)
            await channel.send(failure(FetchworkError(f"the access point failed over '{op}': see its log")))
        finally:
            event(
                log,
                logging.DEBUG,
                "request",
                op=op,
                uid=channel.peer.uid,
                ms=int((time.monotonic() - began) * 1000),
            )

    async def _limited(
        self, asker: Asker, op: str, arguments: Json, channel: Channel
    ) -> AsyncIterator[bytes]:
        async with channel.budget.running:
            async for frame in frames(self._session(asker), op, arguments):
                yield frame

    async def _events(self, asker: Asker, arguments: Json, channel: Channel) -> None:
        """Send events as they come; the waiting request holds no resource that others need."""
        budget = channel.budget
        if budget.waiting >= MAX_WAITING_EACH:
            raise DatabaseUnavailable(
                f"too many requests of this account wait for events; allowed: {MAX_WAITING_EACH}"
            )
        budget.waiting += 1
        try:
            async for frame in frames(self._session(asker), "events", arguments):
                await channel.send(frame)
        finally:
            budget.waiting -= 1

    async def _submit(self, asker: Asker, request: Json, channel: Channel) -> None:
        assert asker.account is not None
        try:
            async with channel.budget.running:
                answer = await self._submitting.submit(
                    asker.account, asker.owner is not None, request, Moving(channel)
                )
        finally:
            self._answers.changed(asker.owner)
        if answer["common"].get("JobUniverse") == Universe.SCHEDULER:
            self._scheduler.look()
        await channel.send(encode({"done": answer}))

    async def _retrieve(self, asker: Asker, request: Json, channel: Channel) -> None:
        jobs = request.get("jobs")
        if not (jobs is None or (isinstance(jobs, list) and all(isinstance(one, str) for one in jobs))):
            raise FetchworkError("the request 'retrieve' has no proper 'jobs'")
        brought: list[Json] = []
        if asker.account is not None:
            try:
                async with channel.budget.running:
                    brought = await self._outputs.retrieve(asker.account.name, jobs, Moving(channel))
            finally:
                # jobs with delivered outputs have ended
                self._answers.changed(asker.owner)
        await channel.send(encode({"done": brought}))

    def _session(self, asker: Asker) -> ActingSession:
        async def evaluate(question: Evaluate) -> list[bool]:
            account = asker.account or await self._account_of(_NOBODY)
            request = {
                "do": "evaluate",
                "constraint": question.constraint,
                "ads": [dict(ad) for ad in question.ads],
            }
            try:
                answer = await self._children.ask(account, request, EVALUATE_S)
            except (TimeoutError, ChildEnded):
                raise FetchworkError("the constraint can't be evaluated within its bounds") from None
            return list(answer["true"])

        return ActingSession(self._database, asker.owner, self._memory, evaluate)

    # -- status

    def status(self) -> Json:
        """Return the access point's state, for commands; without secrets."""
        return {
            "version": __version__,
            "pid": os.getpid(),
            "name": self.settings.name,
            "uptime_s": int(time.monotonic() - self._started_at),
            "serves": "everybody" if self._me == 0 else pwd.getpwuid(self._me).pw_name,
            "min_uid": self.settings.min_uid,
            "database": self._database.problem or "up",
            "connections": self._server.connections,
            "requests": self._server.requests,
            "commands": self._commands.run,
            "shared": self._answers.shared,
            "log_entries": self._logs.entries,
            "logs_behind": self._logs.owners_behind,
            "scheduler_jobs": self._scheduler.running,
            "outputs_brought": self._outputs.brought,
            "checkpoints_deleted": self._checkpoints.deleted,
        }


async def _account_named(name: str) -> Account:
    """Return an account of this machine; raises FetchworkError."""
    try:
        return await asyncio.to_thread(lambda: Account.of(pwd.getpwnam(name)))
    except KeyError:
        raise FetchworkError(f"no account '{name}' on this machine") from None
