"""Keeps what a host's beats say about its runs: which must end, stop or go on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from fetchwork.db.calls.hosts import RunOrder
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.handlers.host.session import HostSession

_Key = tuple[HostSession, int]


class RunOrders:
    """The orders of the last beat of each session."""

    def __init__(self) -> None:
        self._to_end: set[_Key] = set()
        self._suspensions: dict[_Key, str] = {}
        self._heard: set[HostSession] = set()
        #: set when there are orders
        self.came = asyncio.Event()

    def take(self, session: HostSession, orders: Iterable[RunOrder]) -> None:
        """Note all orders about a session's runs; earlier ones are over."""
        self._heard.add(session)
        self._to_end = {key for key in self._to_end if key[0] is not session}
        self._suspensions = {key: wish for key, wish in self._suspensions.items() if key[0] is not session}
        for order in orders:
            key = (session, order.run_id)
            if order.action in ("suspend", "continue"):
                self._suspensions[key] = order.action
            else:
                self._to_end.add(key)
            self.came.set()

    def is_to_end(self, run: LiveRun) -> bool:
        """Whether the database wants a run to end; true only once for each request."""
        key = (run.context.session, run.run_id)
        wanted = key in self._to_end
        self._to_end.discard(key)
        return wanted

    def has_heard(self, session: HostSession) -> bool:
        """Whether a beat of a session has told the orders."""
        return session in self._heard

    def suspension(self, run: LiveRun) -> str | None:
        """Whether the database wants a run's job to "suspend" or to "continue"; None: neither."""
        return self._suspensions.get((run.context.session, run.run_id))

    def continues(self, run: LiveRun) -> None:
        """Note that a run's job goes on, as the database wants; the next update tells it."""
        self._suspensions.pop((run.context.session, run.run_id), None)
