"""The starters of this host that run jobs of ours: identified by pid and start time, watched for their end.

PREPARE_JOB names its starter's slot, but it runs as the job's user, who may name any. So a living starter
keeps its slot even if another starter names the same slot; that other starter is watched beside it, without a
slot.
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

#: seconds after a starter's end in which a fetch may come that still saw the slot busy
STALE_FETCH_S = 5.0
#: slots come and go: beyond this number, ended starters that no fetch will ask for are forgotten
MAX_STARTERS = 4096
#: a starter's process name
_NAME = "condor_starter"
#: most processes between a starter and our hook: a site's own program that runs the hook, and its helpers
_MOST_BETWEEN = 4


def starter_of(hook: Process) -> Process | None:
    """Return the starter that called a hook: its parent, or an ancestor if a site's program runs our hook.

    If none of these has a starter's name, return the parent; None if init has adopted the hook.
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
    """A watched starter and its slot."""

    process: Process
    session: HostSession
    slot: str
    pidfd: int | None = None
    gone: Signal = field(default_factory=Signal)
    gone_at: float = 0.0


class Starters:
    """The last starter of each slot; ``on_gone`` is called once for the end of each."""

    def __init__(self, on_gone: Callable[[Starter], None]) -> None:
        self._on_gone = on_gone
        self._starters: dict[tuple[HostSession, str], Starter] = {}
        #: starters without a slot
        self._beside: dict[Process, Starter] = {}

    def on_slot(self, session: HostSession, slot: str) -> Starter | None:
        """Return the last starter seen on a slot; it may be gone."""
        return self._starters.get((session, slot))

    def watch(self, process: Process, session: HostSession, slot: str) -> None:
        """Watch a starter; it gets the slot unless another starter lives there."""
        self.look_at(session, slot)
        before = self._starters.get((session, slot))
        if before is not None and before.process == process:
            return
        if len(self._starters) >= MAX_STARTERS:
            self._forget()
        starter = Starter(process, session, slot)
        if before is not None and not before.gone.is_set():
            self.watch_beside(starter)
            return
        self._starters[session, slot] = starter
        self._open(starter)

    def watch_beside(self, starter: Starter) -> None:
        """Watch a starter without a slot, only for its end."""
        if starter.process not in self._beside:
            self._beside[starter.process] = starter
            self._open(starter)

    def _open(self, starter: Starter) -> None:
        try:
            pidfd = os.pidfd_open(starter.process.pid)
        except ProcessLookupError:
            self._gone(starter)
            return
        except OSError:
            # an old kernel, or a sandbox: ``look`` polls it
            return
        starter.pidfd = pidfd
        asyncio.get_running_loop().add_reader(pidfd, self._gone, starter)
        if Process.find(starter.process.pid) != starter.process:
            # another process has the number already
            self._gone(starter)

    def look(self) -> None:
        """Poll the starters without a pidfd for their end."""
        for starter in [*self._starters.values(), *self._beside.values()]:
            if starter.pidfd is None and not starter.gone.is_set() and not starter.process.alive:
                self._gone(starter)

    def look_at(self, session: HostSession, slot: str) -> None:
        """Check now whether a slot's starter has ended: the event loop may not have seen its pidfd yet."""
        starter = self.on_slot(session, slot)
        if starter is not None and not starter.gone.is_set() and not starter.process.alive:
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
        if self._beside.get(starter.process) is starter:
            del self._beside[starter.process]
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
