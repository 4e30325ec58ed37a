"""What one agent does for the whole pool: the leader, and who takes over from it.

Each agent asks now and then whether the leader still keeps the queue in order, the less often the more
agents there are, so that all of them together ask about every other second. The first one that finds it
silent leads.
"""

from __future__ import annotations

import random
import time

from fetchwork.handlers import maintenance
from fetchwork.handlers.session import HostSession

#: a leader that was silent for so long leads no more
LEAD_S = 5.0
#: each agent asks at this interval for each agent that there is, within these bounds
ASK_EACH_S = 2.0
SHORTEST_ASK_S = 3.0
LONGEST_ASK_S = 60.0


class Leader:
    """The lead in one database."""

    def __init__(self, session: HostSession) -> None:
        self.leads = False
        self._session = session
        self._ask_at = 0.0

    async def keep_in_order(self) -> None:
        """Keep the queue in order as the leader; else ask whether there is one, if that is due."""
        now = time.monotonic()
        if self._session.greeting is None or (not self.leads and now < self._ask_at):
            return
        self.leads = await maintenance.lead(self._session, LEAD_S)
        pause_s = min(LONGEST_ASK_S, max(SHORTEST_ASK_S, ASK_EACH_S * self._session.demand.agents))
        self._ask_at = now + random.uniform(0.7, 1.3) * pause_s  # noqa: S311

    async def free_notifications(self) -> None:
        """See to it that notifications can be sent, as the leader."""
        if self.leads and self._session.greeting is not None:
            await maintenance.free_notifications(self._session)

    async def do_tasks(self) -> None:
        """Do what is due for all, as the leader."""
        if self.leads and self._session.greeting is not None:
            await maintenance.do_leader_tasks(self._session)
