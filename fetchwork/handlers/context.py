"""What a handler is given, and what it answers."""

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
from fetchwork.sandbox.failure import TransferFailure

T = TypeVar("T")

#: seconds for the question whose run it is
OWNER_S = 4.0

#: why a request was not handled: the codes of PROTOCOL.md
ErrorCode = Literal["bad_request", "unknown_request", "denied", "unavailable", "failed"]
#: what FETCH_WORK came to; the last is of an agent whose condor_master has gone
FetchOutcome = Literal["offered", "nothing", "busy", "not_idle", "claimed_by_schedd", "no_master"]
#: what REPLY_FETCH and EVICT_CLAIM came to; a run that is "over" was ended before
ReplyOutcome = Literal["accepted", "rejected", "over", "noted"]
StartOutcome = Literal["started", "refused", "could_not_start"]
#: what UPDATE_JOB_INFO came to: "end", "gone" and "fenced" end the job
UpdateOutcome = Literal["alive", "late", "end", "gone", "fenced"]
#: what JOB_EXIT came to: the outcomes of ``fetchwork.finish``, and what never reached it
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
#: what requests about files came to
FilesOutcome = Literal["files", "chunk", "filled", "parked", "saving", "signed"]
Outcome = FilesOutcome | ErrorCode | FetchOutcome | ReplyOutcome | StartOutcome | UpdateOutcome | ExitOutcome


class HostFiles(Protocol):
    """The files of this host's runs, which the agent brings and takes away."""

    @property
    def plugin_limit_s(self) -> float:
        """Seconds that one run of a plugin may take."""

    async def plugins(self) -> Mapping[str, tuple[str, bool, int]]:
        """The transfer plugins by scheme: path, whether one run takes several files, protocol."""

    def expect(self, task: Task, key: RunKey, plan: file_calls.RunFiles) -> None:
        """These contents will be asked for."""

    async def chunk(self, task: Task, key: RunKey, content_id: int, number: int) -> bytes:
        """A chunk of a content that was expected; raises FetchworkError."""

    async def carry(self, task: Task, call: Call[T]) -> T:
        """Make a call that carries files, on a connection for these; raises FetchworkError."""

    async def saved(self, task: Task, name: str) -> str:
        """What became of the checkpoint that is parked in the directory ``name``; waits for news."""

    def full(self, uid: int) -> str | None:
        """Why an account may park no more of what its jobs leave; None if it may."""

    async def parked(self, task: Task, key: RunKey, name: str) -> None:
        """What the run leaves is in the directory ``name``, together with the report of its end."""


class Denied(FetchworkError):
    """The caller's account gives no right to this."""


class OtherToken(Denied):
    """Another run has this number."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The process at the other end, as the kernel describes it.

    ``trusted`` is the startd's account, root, or the agent's own. ``starter`` is the identity of the process
    that started the hook ("pid:start time"), None where it can't be seen.
    """

    uid: int
    trusted: bool
    starter: str | None = None


@dataclass(slots=True)
class Task:
    """One request, and all that its handler may use."""

    request: Request
    caller: Caller
    context: KeywordContext
    runs: Runs
    #: monotonic time at which the answer is worth nothing any more
    end: float
    #: keeps a report that can't be delivered now; None: the hook does
    spool: Callable[[Request], Awaitable[None]] | None = None
    #: brings files to runs and takes them away; None where nothing asks for files
    files: HostFiles | None = None
    #: what the job leaves could not be taken away: it is to be held for that
    failure: TransferFailure | None = None

    async def own_run(self, key: RunKey) -> LiveRun | None:
        """The run of this key, if this process knows it; raises Denied if it is another account's.

        Whose run it is that this process does not know, the database does: a token may have been seen where
        HTCondor keeps the ads of jobs that have ended.
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
                # there is no such run, which the call that follows will say; or all jobs run as one account
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
        """Seconds that a call may take: what is left but a reserve for answering, and ``most_s`` at most."""
        return max(0.05, min(most_s, self.end - time.monotonic() - reserve_s))


@dataclass(frozen=True, slots=True)
class Answer:
    """The reply and what it means, which the agent acts on and its log line shows."""

    reply: Reply
    outcome: Outcome
    slot: str | None = None
    job: str | None = None
    run_id: int | None = None
    #: more for the log line, and for nothing else
    details: Mapping[str, object] = field(default_factory=dict)
    #: seconds until a job that was told to end gets SIGKILL; None where it was not
    kill_in_s: float | None = None
    #: takes the offer back, for when the hook has gone before it could be given the reply
    undo: Callable[[], Awaitable[None]] | None = None

    def log_fields(self) -> dict[str, object]:
        """The fields of the answer's log line, in its order."""
        subject = {"slot": self.slot, "job": self.job, "run": self.run_id}
        known = {name: value for name, value in subject.items() if value is not None}
        return {**known, "outcome": self.outcome, **self.details}


@dataclass(frozen=True, slots=True)
class Subject:
    """What a request is about, as far as it is known: the common part of its possible answers."""

    slot: str
    run_id: int | None = None
    job: str | None = None

    def answer(self, outcome: Outcome, reply: Reply | None = None, **details: object) -> Answer:
        """An answer about this; without ``reply`` the hook prints nothing and succeeds."""
        return Answer(reply or Reply(), outcome, self.slot, self.job, self.run_id, details)
