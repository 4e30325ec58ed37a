"""The types of a handler's input (``Task``) and output (``Answer``)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

from fetchwork.db.calls import files as file_calls
from fetchwork.db.calls import runs as run_calls
from fetchwork.db.calls.call import Call
from fetchwork.errors import DatabaseUnavailable, FetchworkError
from fetchwork.handlers.host import accounts
from fetchwork.handlers.host.keywords import KeywordContext
from fetchwork.handlers.host.runs import LiveRun, Runs
from fetchwork.handlers.runad import RunKey
from fetchwork.hook.wire import Reply, Request
from fetchwork.process import Process
from fetchwork.sandbox.failure import TransferFailure

T = TypeVar("T")

#: seconds for the query for a run's owner
OWNER_S = 4.0

#: why a request was not handled: the codes of PROTOCOL.md
ErrorCode = Literal["bad_request", "unknown_request", "denied", "unavailable", "failed"]
#: outcomes of FETCH_WORK; an agent whose condor_master has ended answers ``no_master``
FetchOutcome = Literal["offered", "nothing", "busy", "not_idle", "claimed_by_schedd", "no_master"]
#: outcomes of REPLY_FETCH and EVICT_CLAIM; a run that is "over" was ended before
ReplyOutcome = Literal["accepted", "rejected", "over", "noted"]
StartOutcome = Literal["started", "refused", "could_not_start"]
#: outcomes of UPDATE_JOB_INFO: "end", "gone" and "fenced" end the job
UpdateOutcome = Literal["alive", "late", "end", "gone", "fenced"]
#: outcomes of JOB_EXIT: those of ``fetchwork.finish``, and those of reports that never reached it
ExitOutcome = Literal[
    "completed",
    "evicted",
    "could_not_start",
    "removed",
    "held",
    "vacated",
    "late",
    "duplicate",
    "withdrawn",
    "forgotten",
    "not_the_starter",
    "spooled",
]
#: outcomes of requests about files
#: of a chain's runner: its first job, and a repeated request
ChainOutcome = Literal["begun", "again"]
FilesOutcome = Literal["files", "chunk", "filled", "parked", "saving", "signed"]
Outcome = (
    FilesOutcome
    | ChainOutcome
    | ErrorCode
    | FetchOutcome
    | ReplyOutcome
    | StartOutcome
    | UpdateOutcome
    | ExitOutcome
)


class HostFiles(Protocol):
    """The files of this host's runs, which the agent downloads and uploads."""

    @property
    def plugin_limit_s(self) -> float:
        """Seconds that a transfer plugin may run for."""

    async def plugins(self) -> Mapping[str, tuple[str, bool, int]]:
        """The transfer plugins by scheme: path, whether one run takes several files, protocol."""

    def expect(self, task: Task, key: RunKey, plan: file_calls.RunFiles) -> None:
        """Get ready for requests for the contents of this plan."""

    async def chunk(self, task: Task, key: RunKey, content_id: int, number: int) -> bytes:
        """Return a chunk of an expected content; raises FetchworkError."""

    async def carry(self, task: Task, call: Call[T]) -> T:
        """Make a call that carries files, on a connection for such calls; raises FetchworkError."""

    async def saved(self, task: Task, name: str) -> str:
        """Return the state of the checkpoint staged in the directory ``name``, once that changes."""

    def full(self, uid: int) -> str | None:
        """Return the reason why an account may stage no more outputs of its jobs; None if it may."""

    async def parked(self, task: Task, key: RunKey, name: str) -> None:
        """Take over the directory ``name``, in which a run's outputs and the report of its end are staged."""


class Denied(FetchworkError):
    """The caller's account has no right to this."""


class OtherToken(Denied):
    """Another run has this number."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The process at the other end, as the kernel describes it.

    ``trusted`` is the startd's account, root, or the agent's own. ``starter`` is the identity of the process
    that started the hook, None if it can't be read.
    """

    uid: int
    trusted: bool
    starter: Process | None = None


@dataclass(slots=True)
class Task:
    """A request, and everything that its handler may use."""

    request: Request
    caller: Caller
    context: KeywordContext
    runs: Runs
    #: monotonic time after which the answer is of no use
    end: float
    #: spools a report that can't be delivered now; None: the hook does
    spool: Callable[[Request], Awaitable[None]] | None = None
    #: moves files to runs and from them; None outside an agent
    files: HostFiles | None = None
    #: why the job's outputs could not be transferred: the job is held for it
    failure: TransferFailure | None = None

    async def own_run(self, key: RunKey) -> LiveRun | None:
        """Return the run of this key, if this process knows it; raises Denied if it is another account's.

        If this process does not know the run, the database names its owner: the token alone is no proof,
        because HTCondor keeps the ads of ended jobs where other accounts may read them.
        """
        run = self.runs.get(self.context.session, key.run_id)
        if run is not None and run.token != key.token:
            raise OtherToken(f"the token is not that of run {key.run_id}")
        if self.caller.trusted:
            return run
        uid = run.owner_uid if run is not None else None
        if uid is None:
            owner = run.owner if run is not None else await self._recorded_owner(key)
            if owner is None or not self.context.check_accounts:
                # there is no such run, and the call that follows says so; or all jobs run as one account
                return run
            await accounts.known([owner])
            uid = accounts.uid_of(owner)
            if uid is None and not accounts.is_missing(owner):
                raise DatabaseUnavailable(f"the name service does not say who '{owner}' is")
        if uid != self.caller.uid:
            raise Denied(f"run {key.run_id} does not belong to uid {self.caller.uid}")
        return run

    async def _recorded_owner(self, key: RunKey) -> str | None:
        return await self.context.session.database.run(
            run_calls.run_owner(run_id=key.run_id, token=key.token), timeout_s=self.left(OWNER_S)
        )

    def left(self, most_s: float = float("inf"), reserve_s: float = 0.3) -> float:
        """Seconds that a call may take: those left less a reserve for answering, and at most ``most_s``."""
        return max(0.05, min(most_s, self.end - time.monotonic() - reserve_s))


@dataclass(frozen=True, slots=True)
class Answer:
    """The reply and its meaning, for the agent to act on and to log."""

    reply: Reply
    outcome: Outcome
    slot: str | None = None
    job: str | None = None
    run_id: int | None = None
    #: further fields for the log line alone
    details: Mapping[str, object] = field(default_factory=dict)
    #: seconds until a job that was told to end gets SIGKILL; None if it was not told
    kill_in_s: float | None = None
    #: withdraws the offer; called if the hook ends before it gets the reply
    undo: Callable[[], Awaitable[None]] | None = None

    def log_fields(self) -> dict[str, object]:
        """The fields of the answer's log line, in its order."""
        subject = {"slot": self.slot, "job": self.job, "run": self.run_id}
        known = {name: value for name, value in subject.items() if value is not None}
        return {**known, "outcome": self.outcome, **self.details}


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a request, as far as it is known: the common part of its possible answers."""

    slot: str
    run_id: int | None = None
    job: str | None = None

    def answer(self, outcome: Outcome, reply: Reply | None = None, **details: object) -> Answer:
        """Return an answer about this subject; without ``reply`` the hook prints nothing and succeeds."""
        return Answer(reply or Reply(), outcome, self.slot, self.job, self.run_id, details)
