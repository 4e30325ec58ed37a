"""``Queue``: the queue as ``htcondor2.Schedd`` would show it.

HTCondor's bindings are imported where ads are made of them, for a command that asks how many jobs there are.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fetchwork.db.database import Database
from fetchwork.queue import reading as steps
from fetchwork.queue.views import HISTORY, RUNS, Json

if TYPE_CHECKING:
    from fetchwork.classad.values import ClassAd
    from fetchwork.queue import submission
    from fetchwork.queue.events import JobEvent

Result = TypeVar("Result")


def default_conninfo(conninfo: str | None) -> str:
    """The connection string: the one given, else FETCHWORK_DSN, else what libpq finds (PGHOST, ...)."""
    return conninfo if conninfo is not None else os.environ.get("FETCHWORK_DSN", "")


class Queue:
    """A queue in a database.

    ``conninfo`` is a libpq connection string; without one FETCHWORK_DSN counts, then libpq's own environment.
    """

    def __init__(self, conninfo: str | None = None) -> None:
        self.database = Database(default_conninfo(conninfo))
        self.memory = steps.Memory()

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # programs written for Schedd close nothing
        with contextlib.suppress(Exception):
            self.close()

    def close(self) -> None:
        """Close the connection; a later call makes another."""
        self.database.close()

    def submit(
        self,
        description: Any,
        count: int = 0,
        spool: bool = False,
        itemdata: Iterable[str | Mapping[str, str]] | None = None,
        *,
        owner: str | None = None,
    ) -> submission.SubmitResult:
        """Put jobs into the queue as one cluster: all of them, or none.

        ``description`` is a ``Submit`` object or the text of a submit description, or an ad, or a list of ads
        (``ClassAd`` objects, or dicts in HTCondor's JSON form). ``owner`` is the account on the execute hosts
        that they run as; a description has none of its own, and runs as the caller's account by default.
        Raises SubmitError for what can't be honoured.
        """
        if spool:
            raise ValueError("spool: fetched work has no file transfer; jobs see the execute host's files")
        from fetchwork.queue import submission

        return submission.put(self.database, description, count=count, itemdata=itemdata, owner=owner)

    def query(
        self,
        constraint: Any = "true",
        projection: Sequence[str] = (),
        callback: Callable[[ClassAd], Any] | None = None,
        limit: int = -1,
        opts: int = 0,
    ) -> list[Any]:
        """The ads of the jobs in the queue that a constraint selects, by cluster and process.

        With a callback, what it makes of each ad and is not None. ``opts`` as in HTCondor: an ad for each
        autocluster, for each combination of the projection's values, or one summary.
        """
        ads = self.xquery(constraint, projection, limit, opts)
        if callback is None:
            return list(ads)
        return [made for ad in ads if (made := callback(ad)) is not None]

    def xquery(
        self,
        constraint: Any = "true",
        projection: Sequence[str] = (),
        limit: int = -1,
        opts: int = 0,
    ) -> Iterator[ClassAd]:
        """The same one by one, holding a page of them at a time."""
        found = steps.query(constraint, self.memory, projection=projection, limit=limit, opts=opts)
        return self._classads(found)

    def history(
        self,
        constraint: Any = None,
        projection: Sequence[str] = (),
        match: int = -1,
        since: Any = None,
    ) -> Iterator[ClassAd]:
        """The ads of jobs that have left the queue, the last first, up to the job that ``since`` names."""
        found = steps.ads(HISTORY, constraint, self.memory, projection=projection, limit=match, since=since)
        return self._classads(found)

    def jobEpochHistory(
        self,
        constraint: Any = None,
        projection: Sequence[str] = (),
        match: int = -1,
        since: Any = None,
    ) -> Iterator[ClassAd]:
        """The ads of runs (HTCondor: epochs), the last first; live ones too, which have no Outcome yet."""
        found = steps.ads(RUNS, constraint, self.memory, projection=projection, limit=match, since=since)
        return self._classads(found)

    epochs = jobEpochHistory

    def act(self, action: Any, job_spec: Any, reason: str | None = None) -> ClassAd:
        """Hold, release, remove or vacate jobs; the answer counts them.

        ``job_spec`` is an id ('42.0', or '42' for a cluster), a list of ids, a cluster's number, or a
        constraint.
        """
        from fetchwork.classad.jsonform import from_json

        return from_json(self.run(steps.act(action, job_spec, self.memory, reason)))

    def edit(self, job_spec: Any, attr: str, value: Any) -> int:
        """Change an attribute of jobs to an expression, or its text; returns how many were changed."""
        return self.run(steps.edit(job_spec, {attr: steps.value_of(value)}, self.memory))

    def reschedule(self) -> None:
        """Tell waiting agents to look for work now; they are told of new jobs anyway."""
        self.database.query("SELECT pg_notify('fetchwork_work', '')")

    def events(
        self,
        after: str | None = None,
        job: Any = None,
        stop_after: float | None = None,
    ) -> Iterator[JobEvent]:
        """What happened to jobs, in order, from ``after`` on.

        ``after`` is the ``cursor`` of an event, or 'now'; None: from the first that is kept. ``job`` is a
        job spec of ids; ``stop_after`` as in ``htcondor2.JobEventLog``: None waits for ever, 0 does not
        wait, and a number of seconds waits so long for the next event. Raises CursorExpired if ``after``
        lies before what is kept.
        """
        from fetchwork.queue.reader import Reader

        reader = Reader(after=after, job=job)
        return self.each(reader.events(stop_after))

    def cursor(self) -> str:
        """The cursor of this moment: ``events(after=...)`` of it yields what happens from now on."""
        from fetchwork.queue.reader import Reader

        return str(self.run(Reader.now()))

    def each(self, found: steps.Steps[Any]) -> Iterator[Any]:
        """Drive steps and yield what they find."""
        for page in self.pages(found):
            yield from page

    def _classads(self, found: steps.Steps[Any]) -> Iterator[ClassAd]:
        from fetchwork.classad.jsonform import from_json

        return (from_json(ad) for ad in self.each(found))

    def pages(self, found: steps.Steps[Any]) -> Iterator[Sequence[Any]]:
        """Drive steps and yield what they find as it comes, several at once."""
        reply: Any = None
        while True:
            try:
                step = found.send(reply)
            except StopIteration:
                return
            reply = None
            if isinstance(step, steps.Ask):
                reply = self.database.query(step.sql, step.params)
            elif isinstance(step, steps.Pause):
                time.sleep(step.seconds)
            else:
                yield step.items

    def run(self, found: steps.Steps[Result]) -> Result:
        """Drive steps to their result."""
        reply: Any = None
        while True:
            try:
                step = found.send(reply)
            except StopIteration as end:
                result: Result = end.value
                return result
            reply = self.database.query(step.sql, step.params) if isinstance(step, steps.Ask) else None

    def ads(self, constraint: Any = None, projection: Sequence[str] = ()) -> Iterator[Json]:
        """As ``xquery``, in HTCondor's JSON form."""
        return self.each(steps.query(constraint, self.memory, projection=projection))


__all__ = ["Queue", "default_conninfo"]
