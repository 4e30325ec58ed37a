"""The event stream: the events of jobs, in order, for readers that remember their position.

Theory of operation
-------------------
An event is written in the transaction of the change that it reports, under the lock of the job's row, with a
number. Numbers alone can't be positions: they are assigned before the commit, so a reader that continues
after the last number it saw would skip the events of a slower transaction. So committed events are put into
the stream, batch by batch (sql/functions/maintenance/sequence_events.sql), and an event's position is (batch,
number). A batch is complete and on disk before a reader sees it. No event is ever added before a cursor, so a
cursor that was passed is passed for good, on any machine and after any restart. A transaction that stays open
delays its own events only.

The leading agent and each access point put events into the stream, many times a second while there are any. A
reader whose role permits it (an administrator's, an agent's) does so itself before it reads, and needs no
agent. Other roles can't: the function's lock lasts to the end of a transaction, and they might leave theirs
open. On a standby, which no client can write to, a reader follows the events that the primary has put there.

A reader that waits asks again every 10 to 50 ms. It does not listen to notifications, which do not pass a
PgBouncer in transaction mode. If there was nothing new, it next asks only for the end of the stream: one
index probe, by a plan that the server keeps. The page's statement would be planned each time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from fetchwork.db import eventpages
from fetchwork.db.calls import maintenance, reading
from fetchwork.queue.ask import Ask, Found, Pause, Steps, Stream, mapped
from fetchwork.queue.events.jobevents import Cursor, CursorExpired, JobEvent
from fetchwork.queue.reading.selecting import JobSpec, id_of

# events in one answer: at 100 000 a second, reading a page takes a fraction of the pause between questions
PAGE = 5000
# events that a reader remembers: an asynchronous standby that takes over may have the last ones without their
# places in the stream, and gives them others
REMEMBERED = 20_000
SHORTEST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.05


class Reader:
    """A reader of the stream: knows its position, and asks for the events after it.

    ``job`` restricts it to jobs given by id ('42.0', '42', 42, or a list of those), ``log`` to the jobs whose
    UserLog is that path.
    """

    def __init__(
        self, *, after: str | None = None, job: JobSpec | None = None, log: str | None = None
    ) -> None:
        self.position: Cursor | None = None
        self._from_now = after == "now"
        self._sequencing = _Sequencing()
        #: the last ids, oldest first
        self._seen: dict[int, None] = {}
        #: the last question found no new event of any job
        self._idle = False
        if after is not None and not self._from_now:
            self.position = Cursor.parse(after)
        self._condition = _condition(job, log)

    @staticmethod
    def now() -> Steps[str]:
        """The cursor of the present moment: the newest event of the stream."""
        yield from _Sequencing().put()
        window: reading.EventWindow = yield reading.event_window(after_batch=0, after_id=0)
        return str(
            max(Cursor(window.kept_batch, window.kept_id), Cursor(window.until_batch, window.until_id))
        )

    @staticmethod
    def oldest() -> Steps[str]:
        """The cursor before the oldest event that is kept."""
        window: reading.EventWindow = yield reading.event_window(after_batch=0, after_id=0)
        return str(Cursor(window.kept_batch, window.kept_id))

    def events(self, stop_after: float | None) -> Stream[JobEvent]:
        """Yield events as they come; ends by ``stop_after``, and can be called again to continue."""
        yield from mapped(self.lines(stop_after), JobEvent)

    def lines(self, stop_after: float | None) -> Stream[str]:
        """As ``events``, but yield the lines that ``JobEvent`` reads."""
        deadline = None if stop_after is None else time.monotonic() + stop_after
        pause = SHORTEST_PAUSE_S
        while True:
            lines, more = yield from self._page()
            if lines:
                yield Found(lines)
                pause = SHORTEST_PAUSE_S
            if more:
                continue
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            yield Pause(pause if left is None else min(pause, left))
            pause = min(LONGEST_PAUSE_S, pause * 1.2)

    def found(self) -> Steps[list[str]]:
        """Return the lines that are there now, of one page at most."""
        stream = self.lines(0)
        answer: object = None
        while True:
            try:
                step = stream.send(answer)
            except StopIteration:
                return []
            if isinstance(step, Found):
                return list(step.items)
            answer = yield step

    def _page(self) -> Steps[tuple[list[str], bool]]:
        if self._from_now:
            self.position = Cursor.parse((yield from self.now()))
            self._from_now = False
        else:
            yield from self._sequencing.put()
        start = self.position or Cursor(0, 0)
        if self._idle and not (yield from self._moved(start)):
            return [], False
        # events of single jobs are few, and are found by job
        whole = self._condition == eventpages.all_events()
        most = PAGE if whole else None
        statement = eventpages.page(
            self._condition, after_batch=start.batch, after_id=start.event_id, most=most
        )
        (row,) = yield Ask(statement.sql, statement.params, often=whole)
        page = eventpages.EventPage.from_row(row)
        kept = Cursor(page.kept_batch, page.kept_id)
        if self.position is not None and self.position < kept:
            raise CursorExpired(
                f"events behind cursor '{self.position}' are not kept any more: those up to '{kept}' were"
                f" dropped; read the jobs' state anew and go on after '{kept}'"
            )
        if page.ahead:
            raise CursorExpired(
                f"cursor '{start}' lies behind the last event of this database, which was restored from"
                " before it or is another; read the jobs' state anew and go on after 'now'"
            )
        # events before this position were seen or are other jobs'; but never step back
        self.position = max(start, Cursor(page.until_batch, page.until_id))
        self._idle = self.position == start
        # jsonb as text contains neither a tab nor a line break
        return self._new(page.lines.split("\n") if page.lines is not None else []), page.more

    def _new(self, lines: Sequence[str]) -> list[str]:
        """The lines of events that this reader has not seen yet."""
        new = []
        for line in lines:
            event_id = int(line.split("\t", 2)[1])
            if event_id not in self._seen:
                self._seen[event_id] = None
                new.append(line)
        while len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return new

    @staticmethod
    def _moved(start: Cursor) -> Steps[bool]:
        """Whether there are events after a cursor, or events there were dropped."""
        far: reading.EventWindow = yield reading.event_window(
            after_batch=start.batch, after_id=start.event_id
        )
        end = max(Cursor(far.until_batch, far.until_id), Cursor(far.kept_batch, far.kept_id))
        return far.ahead or start < end


class _Sequencing:
    """Puts new events into the stream if the reader's role may, and if its server is writable."""

    def __init__(self) -> None:
        self._may: bool | None = None
        self._since: str | None = None

    def put(self) -> Steps[None]:
        """Put events committed since the last call into the stream."""
        if self._may is None:
            self._may = yield reading.may_sequence_events()
        if self._may:
            done: maintenance.Sequenced = yield maintenance.sequence_events(since=self._since)
            self._since = done.until


def checked(after: str | None, job: JobSpec | None) -> None:
    """Raise ValueError for an invalid cursor or job."""
    Reader(after=after, job=job)


def _condition(job: JobSpec | None, log: str | None) -> eventpages.Statement:
    """The condition for the events of some jobs."""
    if log is not None:
        return eventpages.of_log(log)
    if job is None:
        return eventpages.all_events()
    clusters: list[int] = []
    jobs: list[tuple[int, int]] = []
    for item in job if isinstance(job, list | tuple | set | frozenset) else [job]:
        cluster, proc = id_of(str(item))
        if proc is None:
            clusters.append(cluster)
        else:
            jobs.append((cluster, proc))
    return eventpages.of_jobs(clusters, jobs)


def logs(paths: Sequence[str]) -> Steps[set[str]]:
    """The paths among ``paths`` that are the UserLog of a current or past job."""
    statement = eventpages.known_logs(paths)
    rows = yield Ask(statement.sql, statement.params)
    return {row["path"] for row in rows}
