"""The starters of this host that run jobs of ours: known by pid and start time, watched for their end.

PREPARE_JOB says which slot a starter is on, and it runs as the job's user, who may say anything. So a starter
that is alive keeps its slot, whoever names that slot: another one is watched beside it, for itself.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fetchwork.agent.signals import Signal
from fetchwork.handlers.host.session import HostSession
from fetchwork.process import Process

#: a fetch that saw the slot busy may come this long after the end of its starter
STALE_FETCH_S = 5.0
#: slots come and go: beyond so many, starters that no fetch will ask for are forgotten
MAX_STARTERS = 4096
#: what the kernel calls a starter
_NAME = "condor_starter"
#: a site's own program that runs our hook, and what that runs it by
_MOST_BETWEEN = 4


def starter_of(hook: Process) -> Process | None:
    """The starter that called a hook: its parent, or above that where a site's program has run ours.

    Where none of these is called as a starter is, the parent. None where init has adopted the hook.
    """
    parent = hook.parent
    return None if parent is None else _nearest_starter(parent)


@functools.lru_cache(maxsize=64)
def _nearest_starter(parent: Process) -> Process:
    above: Process | None = parent
    for _ in range(_MOST_BETWEEN + 1):
        if above is None:
            break
        if above.name == _NAME:
            return above
        above = above.parent
    return parent


@dataclass(slots=True, eq=False)
class Starter:
    """A starter that is watched, and the slot it is on."""

    identity: str
    session: HostSession
    slot: str
    pidfd: int | None = None
    gone: Signal = field(default_factory=Signal)
    gone_at: float = 0.0


class Starters:
    """The last starter of each slot; ``on_gone`` hears of the end of each, once."""

    def __init__(self, on_gone: Callable[[Starter], None]) -> None:
        self._on_gone = on_gone
        self._starters: dict[tuple[HostSession, str], Starter] = {}
        #: those that have no slot, by identity
        self._beside: dict[str, Starter] = {}

    def on_slot(self, session: HostSession, slot: str) -> Starter | None:
        """The last one that was seen on a slot; it may be gone."""
        return self._starters.get((session, slot))

    def watch(self, identity: str, session: HostSession, slot: str) -> None:
        """Watch a starter, which has the slot unless another one that is on it lives."""
        self.look_at(session, slot)
        before = self._starters.get((session, slot))
        if before is not None and before.identity == identity:
            return
        if len(self._starters) >= MAX_STARTERS:
            self._forget()
        starter = Starter(identity, session, slot)
        if before is not None and not before.gone.is_set():
            self.watch_beside(starter)
            return
        self._starters[session, slot] = starter
        self._open(starter)

    def watch_beside(self, starter: Starter) -> None:
        """Watch a starter for its end alone."""
        if starter.identity not in self._beside:
            self._beside[starter.identity] = starter
            self._open(starter)

    def _open(self, starter: Starter) -> None:
        identity = starter.identity
        process = Process.of_key(identity)
        if process is None:
            self._gone(starter)
            return
        try:
            pidfd = os.pidfd_open(process.pid)
        except ProcessLookupError:
            self._gone(starter)
            return
        except OSError:
            # an old kernel, or a sandbox: ``look`` does it
            return
        starter.pidfd = pidfd
        asyncio.get_running_loop().add_reader(pidfd, self._gone, starter)
        if Process.find(process.pid) != process:
            # the number is another process's already
            self._gone(starter)

    def look(self) -> None:
        """Look for the end of those without a pidfd."""
        for starter in [*self._starters.values(), *self._beside.values()]:
            if starter.pidfd is None and not starter.gone.is_set() and not _is_alive(starter.identity):
                self._gone(starter)

    def look_at(self, session: HostSession, slot: str) -> None:
        """Look for the end of a slot's starter now: its pidfd may not have been heard yet."""
        starter = self.on_slot(session, slot)
        if starter is not None and not starter.gone.is_set() and not _is_alive(starter.identity):
            self._gone(starter)

    def close(self) -> None:
        """Stop watching."""
        for starter in [*self._starters.values(), *self._beside.values()]:
            self._close(starter)

    def _gone(self, starter: Starter) -> None:
        if starter.gone.is_set():
            return
        starter.gone_at = time.monotonic()
        starter.gone.set()
        self._close(starter)
        if self._beside.get(starter.identity) is starter:
            del self._beside[starter.identity]
        self._on_gone(starter)

    def _forget(self) -> None:
        for key, starter in list(self._starters.items()):
            if starter.gone.is_set() and time.monotonic() - starter.gone_at > STALE_FETCH_S:
                del self._starters[key]

    @staticmethod
    def _close(starter: Starter) -> None:
        if starter.pidfd is not None:
            asyncio.get_running_loop().remove_reader(starter.pidfd)
            os.close(starter.pidfd)
            starter.pidfd = None


def _is_alive(key: str) -> bool:
    process = Process.of_key(key)
    return process is not None and process.alive
