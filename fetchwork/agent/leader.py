"""The leader: the agent that works for the whole pool, and its succession.

Each agent asks now and then whether the leader still keeps the queue in order. With more agents each one asks
less often, so that all together ask about every other second. The first agent that finds the leader silent
leads.
"""

from __future__ import annotations

import logging
import random
import time

from fetchwork import leadertasks
from fetchwork.db.calls import maintenance
from fetchwork.handlers.host.session import HostSession
from fetchwork.log import event

log = logging.getLogger(__name__)

#: seconds of silence after which a leader has lost the lead
LEAD_S = 5.0
#: an agent asks at an interval of the first figure times the number of agents, within the two bounds
ASK_EACH_S = 2.0
SHORTEST_ASK_S = 3.0
LONGEST_ASK_S = 60.0
#: the leader keeps the queue in order at this interval
MAINTAIN_QUEUE_S = 1.5
# intervals of the leader tasks, each of which one process does for all
PREEMPT_S = 10.0
NOTIFICATIONS_S = 5.0
MAINTAIN_TABLES_S = 3600.0
CALL_S = 10.0
MAINTAIN_TABLES_CALL_S = 300.0


class Leader:
    """The lead in one database."""

    def __init__(self, session: HostSession) -> None:
        self.leads = False
        #: the leader may not do the tasks that show all jobs (``leadertasks``), and this agent may
        self.helps = False
        self._session = session
        self._ask_at = 0.0

    async def keep_in_order(self) -> None:
        """Keep the queue in order as the leader; otherwise ask for a living leader if that is due."""
        now = time.monotonic()
        if self._session.greeting is None or (not self.leads and now < self._ask_at):
            return
        self.leads, self.helps = await _lead(self._session)
        pause_s = min(LONGEST_ASK_S, max(SHORTEST_ASK_S, ASK_EACH_S * self._session.demand.agents))
        self._ask_at = now + random.uniform(0.7, 1.3) * pause_s  # noqa: S311

    async def free_notifications(self) -> None:
        """As the leader, keep PostgreSQL's queue of notifications from filling up."""
        if self.leads and self._session.greeting is not None:
            await _free_notifications(self._session)

    async def do_tasks(self) -> None:
        """As the leader, do the tasks that are due; in place of one that may not: ``leadertasks``."""
        if self._session.greeting is None:
            return
        if self.leads:
            await _do_leader_tasks(self._session)
        elif self.helps:
            self.helps = False
            await leadertasks.do_due(self._session.database, self._session.matchmaker)


async def _lead(session: HostSession) -> tuple[bool, bool]:
    """Give up silent runs, wake jobs whose wait is over, add up counts.

    Returns whether this agent leads, and if not, whether tasks rest that it may do.
    """
    # not repeated: the log would miss the work of the first call, and the next round comes soon
    done = await session.database.run(
        maintenance.lead(agent_id=session.agent_id, lead_s=LEAD_S), timeout_s=CALL_S, again=False
    )
    if done.leads:
        level = logging.INFO if done.reaped else logging.DEBUG
        event(log, level, "maintain_queue", reaped=done.reaped, woken=done.woken, folded=done.folded)
    return done.leads, done.rests


async def _free_notifications(session: HostSession) -> None:
    """If PostgreSQL's queue of notifications is more than half full, end the slowest listener and log it."""
    if await session.database.run(maintenance.sends_notifications(), timeout_s=CALL_S):
        return
    pid = await session.database.slowest_listener()
    ended = pid is not None and await session.database.run(
        maintenance.end_notification_reader(pid=pid), timeout_s=CALL_S
    )
    problem = "PostgreSQL's queue of notifications is more than half full"
    event(log, logging.WARNING, "notification_queue", problem=problem, pid=pid, ended=ended)


async def _do_leader_tasks(session: HostSession) -> None:
    """Run each leader task that is due and that no other process has taken."""
    if await leadertasks.take(session.database, "preempt", PREEMPT_S):
        ended = await session.database.run(maintenance.preempt(), timeout_s=CALL_S)
        if ended:
            event(log, logging.INFO, "preempt", runs=ended)
    await leadertasks.do_due(session.database, session.matchmaker)
    if await leadertasks.take(session.database, "maintain", MAINTAIN_TABLES_S):
        # this may take minutes, so it has its own connection and no request waits for it
        async with session.database.another() as database:
            await database.run(maintenance.maintain_tables(), timeout_s=MAINTAIN_TABLES_CALL_S)
