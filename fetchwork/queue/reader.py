"""The event stream: what happened to jobs, in order, for readers that remember where they are.

Theory of operation
-------------------
An event is written in the transaction of the change that it tells. Its place is (transaction id, event id).
Event ids alone would not do: they are given out before the commit, so a reader that goes on behind the last
one it saw would step over the events of a slower transaction. A reader therefore reads only events of
transactions below the oldest one still open (``pg_snapshot_xmin``). What lies below can't get company any
more, so a cursor, once passed, is passed for good, on any machine and after any restart. A cursor is the
place of an event, which is on disk before anyone sees it: a crash may forget later transactions, and give
their ids out again (sql/functions/reading/event_window.sql).

A reader that waits asks again every 10 to 50 ms instead of listening to notifications, which would not come
through a PgBouncer in transaction mode. What costs: one index probe.

The price of the order is that a transaction left open, in any database of that PostgreSQL cluster, holds back
all events written after it began, for as long as it is open. No event is lost by that.
"""

from __future__ import annotations

import re
import time
from typing import Any

from fetchwork.queue.events import Cursor, CursorExpired, JobEvent
from fetchwork.queue.reading import Ask, Found, Pause, Steps

# events in one answer: at 100 000 a second a page is a fraction of the time between two questions
PAGE = 5000
SHORTEST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.05


class Reader:
    """One reader of the stream: knows how far it has come, and asks for what follows.

    ``job`` restricts it to jobs given by id ('42.0', '42', 42, or a list of those), ``log`` to the jobs whose
    UserLog is that path.
    """

    def __init__(self, *, after: str | None = None, job: Any = None, log: str | None = None) -> None:
        self.position: Cursor | None = None
        self._from_now = after == "now"
        if after is not None and not self._from_now:
            self.position = Cursor.parse(after)
        self._filter, self._params = _filter(job, log)

    @staticmethod
    def now() -> Steps[str]:
        """The cursor of this moment: the newest event that can't get company before it any more."""
        (row,) = yield Ask(
            "SELECT kept_xid::text, kept_id, until_xid::text, until_id FROM fetchwork.event_window('0', 0)"
        )
        return str(
            max(Cursor(int(row["kept_xid"]), row["kept_id"]), Cursor(int(row["until_xid"]), row["until_id"]))
        )

    def events(self, stop_after: float | None) -> Steps[None]:
        """Yield events as they come; ends as ``stop_after`` says, and can be called again to go on."""
        deadline = None if stop_after is None else time.monotonic() + stop_after
        pause = SHORTEST_PAUSE_S
        while True:
            events, more = yield from self._page()
            if events:
                yield Found(events)
                pause = SHORTEST_PAUSE_S
            if more:
                continue
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            yield Pause(pause if left is None else min(pause, left))
            pause = min(LONGEST_PAUSE_S, pause * 1.2)

    def _page(self) -> Steps[tuple[list[JobEvent], bool]]:
        if self._from_now:
            self.position = Cursor.parse((yield from self.now()))
            self._from_now = False
        start = self.position or Cursor(0, 0)
        # those of single jobs are few, and looked up by job
        most = PAGE if self._filter == "true" else None
        # How far it goes and the events are of one snapshot. The events come as one text, a line each: as
        # rows they would cost the driver several times what they cost here.
        (answer,) = yield Ask(
            "SELECT w.kept_xid::text, w.kept_id, w.until_xid::text, w.until_id, w.more, ("  # noqa: S608
            " SELECT string_agg(concat_ws(E'\\t', e.xid, e.eventid, e.eventtypenumber, e.clusterid, e.procid,"
            " coalesce(e.runid, -1), extract(epoch FROM e.event_at), e.info), E'\\n' ORDER BY e.xid,"
            " e.eventid)"
            " FROM fetchwork.events AS e"
            " WHERE (e.xid, e.eventid) > (%s::xid8, %s) AND (e.xid, e.eventid) <= (w.until_xid, w.until_id)"
            f" AND {self._filter}) AS lines"
            " FROM fetchwork.event_window(%s::xid8, %s, %s::integer) AS w",
            [str(start.xid), start.event_id, *self._params, str(start.xid), start.event_id, most],
        )
        kept = Cursor(int(answer["kept_xid"]), answer["kept_id"])
        if self.position is not None and self.position < kept:
            raise CursorExpired(
                f"events behind cursor '{self.position}' are not kept any more: those up to '{kept}' were"
                f" dropped; allowed: read the jobs' state anew and go on after '{kept}'"
            )
        # whatever lies below has been seen or is of other jobs; but never step back
        self.position = max(start, Cursor(int(answer["until_xid"]), answer["until_id"]))
        # jsonb as text holds neither tab nor line break
        lines = answer["lines"].split("\n") if answer["lines"] is not None else []
        return [JobEvent(line) for line in lines], answer["more"]


def _filter(job: Any, log: str | None) -> tuple[str, list[Any]]:
    if log is not None:
        condition = (
            "clusterid IN (SELECT fetchwork.log_clusters(%s)) AND fetchwork.is_log_of(%s, clusterid, procid)"
        )
        return condition, [log, log]
    if job is None:
        return "true", []
    clusters: list[int] = []
    jobs: list[tuple[int, int]] = []
    for item in job if isinstance(job, list | tuple | set | frozenset) else [job]:
        found = re.fullmatch(r"(\d{1,9})(?:\.(\d{1,9}))?", str(item).strip())
        if found is None:
            raise ValueError(f"{item!r} is not a job; allowed: '42.0', or '42' for a whole cluster")
        if found[2] is None:
            clusters.append(int(found[1]))
        else:
            jobs.append((int(found[1]), int(found[2])))
    if not jobs:
        return "clusterid = ANY(%s)", [clusters]
    # the first condition, alone, can be looked up
    return (
        "clusterid = ANY(%s) AND (clusterid = ANY(%s) OR (clusterid, procid) IN"
        " (SELECT c, p FROM unnest(%s::integer[], %s::integer[]) AS named (c, p)))",
        [[*clusters, *(c for c, _ in jobs)], clusters, [c for c, _ in jobs], [p for _, p in jobs]],
    )
