"""The starters of this host that run jobs of ours: known by pid and start time, watched for their end."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fetchwork.handlers.session import HostSession
from fetchwork.process import Process

#: a fetch that saw the slot busy may come this long after the end of its starter
STALE_FETCH_S = 5.0
#: slots come and go: beyond so many, starters that no fetch will ask for are forgotten
MAX_STARTERS = 4096


@dataclass(slots=True, eq=False)
class Starter:
    """A starter that is watched, and the slot it is on."""

    identity: str
    session: HostSession
    slot: str
    pidfd: int | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    gone_at: float = 0.0


class Starters:
    """The last starter of each slot; ``on_gone`` hears of the end of each, once."""

    def __init__(self, on_gone: Callable[[Starter], None]) -> None:
        self._on_gone = on_gone
        self._starters: dict[tuple[HostSession, str], Starter] = {}

    def on_slot(self, session: HostSession, slot: str) -> Starter | None:
        """The last one that was seen on a slot; it may be gone."""
        return self._starters.get((session, slot))

    def watch(self, identity: str, session: HostSession, slot: str) -> None:
        """Watch a starter; the one before it on the slot is over."""
        before = self._starters.get((session, slot))
        if before is not None:
            if before.identity == identity:
                return
            self._gone(before)
        if len(self._starters) >= MAX_STARTERS:
            self._forget()
        starter = Starter(identity, session, slot)
        self._starters[session, slot] = starter
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
        for starter in list(self._starters.values()):
            if starter.pidfd is None and not starter.gone.is_set() and not _is_alive(starter.identity):
                self._gone(starter)

    def close(self) -> None:
        """Stop watching."""
        for starter in self._starters.values():
            self._close(starter)

    def _gone(self, starter: Starter) -> None:
        if starter.gone.is_set():
            return
        starter.gone_at = time.monotonic()
        starter.gone.set()
        self._close(starter)
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
