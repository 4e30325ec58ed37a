"""The live runs of a host, as far as one process knows them."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from fetchwork.db.calls import hosts
from fetchwork.handlers.host.chains import Chain, is_leaving
from fetchwork.handlers.host.keywords import KeywordContext
from fetchwork.handlers.host.session import HostSession
from fetchwork.handlers.runad import RunKey
from fetchwork.process import Process

#: the name of a dynamic slot, "slot1_2@host"
_DYNAMIC = re.compile(r"([^@]*)_[0-9]+(@.*)?")

#: "unconfirmed": PREPARE_JOB got no answer; "end_asked": the database wants its end; "recalled": its starter
#: was told to end while it waited for the job's deferral time; "killed": fetchwork ends the job for ``cause``
RunState = Literal[
    "reserved", "accepted", "unconfirmed", "running", "end_asked", "recalled", "killed", "ended"
]
#: state -> the states that may follow; a message that leads elsewhere is late, repeated or forged
TRANSITIONS: Mapping[RunState, tuple[RunState, ...]] = {
    "reserved": ("accepted", "unconfirmed", "running", "killed", "ended"),
    "accepted": ("unconfirmed", "running", "killed", "ended"),
    "unconfirmed": ("running", "killed", "ended"),
    "running": ("end_asked", "recalled", "killed", "ended"),
    "end_asked": ("recalled", "killed", "ended"),
    "recalled": ("killed", "ended"),
    "killed": ("ended",),
    "ended": (),
}
_NOT_STARTED = ("reserved", "accepted", "unconfirmed")


@dataclass(slots=True, eq=False)
class LiveRun:
    """A run that this process has handled and, as far as it knows, has not ended."""

    run_id: int
    token: str
    context: KeywordContext
    slot: str
    job: str
    owner: str
    #: the owner's uid on this host, None if unknown
    owner_uid: int | None = None
    #: its submitter and the weight of its slot, None if unknown; and whether that slot is free again
    charged: tuple[str, float] | None = None
    has_freed_slot: bool = False
    state: RunState = "reserved"
    #: why PREPARE_JOB got no answer, or why fetchwork kills the job: its exit then says nothing about the job
    cause: str | None = None
    #: monotonic time at which this process first knew of it
    offered_at: float = field(default_factory=time.monotonic)
    #: monotonic time of REPLY_FETCH's accept, if this process got it
    accepted_at: float = float("-inf")
    has_policy: bool = False
    #: monotonic time at which it passed the fence, if this process saw that
    started_at: float | None = None
    starter: Process | None = None
    #: limit of the job's memory, None if unknown; and the most that was measured
    memory_mib: int | None = None
    memory_used_mib: float = 0.0
    #: the same of its scratch directory's files, in KiB
    disk_kib: int | None = None
    disk_used_kib: int = 0
    #: whether the kernel kills the job at a limit of its cgroup
    memory_capped: bool = False
    #: until the start: the ad of the slot that fetched the job, and the job's attributes that the queue keeps
    fetched_by: bytes = b""
    facts: Mapping[str, object] = field(default_factory=dict)
    #: the job's process
    job_process: Process | None = None
    #: the pid of that process by an update to an earlier agent, 0 without an update
    recorded_pid: int = 0
    #: the files that are being uploaded: the run is not over before; but the slot is free during "outputs"
    uploading: Literal["checkpoint", "outputs"] | None = None
    #: monotonic time at which its starter was first seen to have ended
    gone_at: float | None = None
    #: its starter calls no JOB_EXIT: the agent reports the job's end by the starter's log
    plain: bool = False
    #: its runner reports the job's end
    chain: Chain | None = None
    #: number of reports of its end in progress
    exiting: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def ended(self) -> bool:
        """Whether the run is over."""
        return self.state == "ended"

    @property
    def is_running(self) -> bool:
        """Whether it passed the fence and is not over."""
        return self.state not in _NOT_STARTED and not self.ended

    def become(self, state: RunState, cause: str | None = None) -> bool:
        """Change the state; False, without a change, if ``TRANSITIONS`` does not have this one."""
        if state not in TRANSITIONS[self.state]:
            return False
        self.state, self.cause = state, cause
        return True

    def free_slot(self) -> None:
        """Note that the slot of a run that started can have another job."""
        if self.charged is not None and self.started_at is not None and not self.has_freed_slot:
            self.context.session.shares.freed(*self.charged)
            self.has_freed_slot = True

    @contextlib.contextmanager
    def reporting(self) -> Iterator[None]:
        """Keep the watch of the starter from counting the run as lost while its end is being reported."""
        self.exiting += 1
        try:
            yield
        finally:
            self.exiting -= 1
            self.changed.set()

    @property
    def waits_for_starter(self) -> bool:
        """Whether its starter is to come: the startd has accepted it, or has no hook to say so."""
        untold = self.state == "reserved" and not self.context.is_told_replies
        return self.state in ("accepted", "unconfirmed") or untold

    @property
    def taken_at(self) -> float:
        """Monotonic time at which the startd accepted it, or of the offer if no hook reports the accept."""
        return self.accepted_at if self.state == "accepted" else max(self.offered_at, self.accepted_at)

    @classmethod
    def of_row(cls, row: hosts.HostRun, context: KeywordContext) -> LiveRun:
        """Return a run that only the database knows."""
        run = cls(
            run_id=row.run_id,
            token=str(row.token),
            context=context,
            slot=row.slot,
            job=f"{row.cluster_id}.{row.proc_id}",
            owner=row.owner,
            state=cast(RunState, row.state),
            has_policy=row.has_policy,
        )
        run.starter = Process.of_key(row.starter)
        run.recorded_pid = row.job_pid or 0
        if row.chain is not None:
            run.chain = Chain.begun_before(row.chain, row.slot)
        return run

    def starts_soon(self, grace_s: float) -> bool:
        """Whether its offer to a dynamic slot is so recent that another fetch of the slot proves nothing.

        For an ad that a dynamic slot fetched, HTCondor 25 may make another dynamic slot, and let the first
        slot ask again at once.
        """
        return (
            self.state in _NOT_STARTED
            and _DYNAMIC.fullmatch(self.slot) is not None
            and time.monotonic() < self.offered_at + grace_s
        )

    def __repr__(self) -> str:
        # without the token, which is secret
        return f"<run {self.run_id} of job {self.job}, {self.state} on {self.slot}>"


class Runs:
    """The live runs of this host that this process knows. The agent's subclass watches their starters."""

    def __init__(self) -> None:
        self._runs: dict[tuple[HostSession, int], LiveRun] = {}
        #: by slot: the chain that was begun there last
        self._chains: dict[tuple[HostSession, str], Chain] = {}

    def __iter__(self) -> Iterator[LiveRun]:
        return iter(list(self._runs.values()))

    def __len__(self) -> int:
        return len(self._runs)

    def owners(self) -> list[int | None]:
        """The owners' uids, one for each run."""
        return [run.owner_uid for run in self._runs.values()]

    def get(self, session: HostSession, run_id: int) -> LiveRun | None:
        """The live run with this id."""
        return self._runs.get((session, run_id))

    def on_slot(self, session: HostSession, slot: str) -> list[LiveRun]:
        """The live runs on a slot."""
        return [
            run
            for run in self._runs.values()
            if run.slot == slot and run.context.session is session and run.uploading != "outputs"
        ]

    def beside(self, session: HostSession, slot: str) -> list[LiveRun]:
        """The live runs on a dynamic slot's partitionable slot, and on all dynamic slots of that."""
        divided = _partitionable(slot)
        return [
            run
            for run in self._runs.values()
            if divided and divided in (run.slot, _partitionable(run.slot)) and run.context.session is session
        ]

    def chain(self, session: HostSession, slot: str) -> Chain | None:
        """The chain that was begun last on a slot; it may be over."""
        return self._chains.get((session, slot))

    def slot_asks(self, context: KeywordContext, slot: str, ad: bytes) -> bool:
        """Let a chain end whose slot is retiring, is preempted or drained, by the ad of its fetch.

        Return whether a chain goes on there.
        """
        chain = self.chain(context.session, slot)
        if chain is not None and is_leaving(ad):
            chain.leaving = True
            chain.finish()
        if chain is None or chain.over:
            return False
        return chain.turn.locked() or any(run.chain is chain for run in self.on_slot(context.session, slot))

    def chain_after(self, session: HostSession, key: RunKey) -> Chain | None:
        """The chain that has answered the end of this run last."""
        for (of, _), chain in self._chains.items():
            if of is session and chain.answered is not None and chain.answered[:2] == (key.run_id, key.token):
                return chain
        return None

    def offered(self, run: LiveRun) -> None:
        """Note that a job was claimed for a slot."""
        self._runs[run.context.session, run.run_id] = run
        if run.chain is not None:
            self._chains[run.context.session, run.slot] = run.chain

    def accepted(self, run: LiveRun) -> None:
        """Note that the startd accepted the run."""
        if run.become("accepted"):
            run.accepted_at = time.monotonic()
        run.changed.set()

    def taken(self, run: LiveRun) -> None:
        """Note that the startd accepted the run, if this need not be recorded before the start."""
        self.accepted(run)
        run.context.session.reports.accepted(run.run_id, run.token)

    def preparing(self, run: LiveRun, starter: Process | None, slot: str) -> None:
        """Note that a starter asks whether the run may start."""

    def started(self, run: LiveRun, starter: Process | None, slot: str) -> None:
        """Note that the run passed the fence."""
        run.become("running")
        run.started_at = time.monotonic()
        run.starter = starter
        if run.chain is not None and run.chain.slot != slot:
            # a partitionable slot has made a dynamic one for it
            self._chains.pop((run.context.session, run.chain.slot), None)
            self._chains[run.context.session, slot] = run.chain
            run.chain.slot = slot
        run.slot = slot
        run.fetched_by, run.facts = b"", {}
        run.changed.set()

    def reported(self, run: LiveRun, job_pid: int) -> None:
        """Note the pid of the job's process, which an update has named."""

    def ended(self, session: HostSession, run_id: int) -> None:
        """Forget a run that is over."""
        run = self._runs.pop((session, run_id), None)
        if run is not None:
            run.free_slot()
            run.become("ended")
            run.context.forget_starter_log(run.run_id, run.token)
            run.changed.set()


def _partitionable(slot: str) -> str | None:
    """The name of the slot that a dynamic slot was carved from; None if the slot is not dynamic."""
    found = _DYNAMIC.fullmatch(slot)
    return f"{found[1]}{found[2] or ''}" if found else None
