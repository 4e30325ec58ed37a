"""``Queue``: the queue as ``htcondor2.Schedd`` would show it.

HTCondor's bindings are imported where ads are made of them, for a command that asks how many jobs there are.
"""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from fetchwork.errors import FetchworkError
from fetchwork.queue import changing
from fetchwork.queue.constraints.constraint import text_of
from fetchwork.queue.reading import are_epochs
from fetchwork.queue.remote import CONNINFO, AnySession, opened
from fetchwork.queue.selecting import as_ids, as_spec, names_of

if TYPE_CHECKING:
    from datetime import datetime

    from fetchwork.classad.bindings import JobAction
    from fetchwork.classad.values import ClassAd
    from fetchwork.credentials.secret import Renewal
    from fetchwork.queue.contents import Progress
    from fetchwork.queue.events import JobEvent
    from fetchwork.queue.selecting import ConstraintSpec, JobSpec
    from fetchwork.queue.session import Session
    from fetchwork.queue.submission import Description, SubmitResult

Made = TypeVar("Made")


class Queue:
    """A queue in a database.

    ``conninfo`` is a libpq connection string; without one FETCHWORK_DSN counts, then libpq's own environment.
    It may also be the ad of a schedd that a ``Collector`` located. ``name`` is instead one of the databases
    that FETCHWORK_DATABASES lists; ``everywhere`` means all of them, to be read as one.
    """

    def __init__(
        self,
        conninfo: str | ClassAd | None = None,
        *,
        name: str | None = None,
        everywhere: bool = False,
    ) -> None:
        if conninfo is not None and not isinstance(conninfo, str):
            if conninfo.get("MyType") != "Scheduler":
                raise ValueError("the location ad is not that of a schedd")
            conninfo = conninfo.get(CONNINFO)
        self._session = opened(conninfo, name=name, everywhere=everywhere)
        self._conninfo = conninfo
        self._named = (name, everywhere)

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # programs written for Schedd close nothing
        with contextlib.suppress(Exception):
            self.close()

    def __reduce__(self) -> tuple[Callable[..., Queue], tuple[str | None, str | None, bool]]:
        return _anew, (self._conninfo, *self._named)

    def close(self) -> None:
        """Close the connection; a later call makes another."""
        self._session.close()

    # jobs

    def submit(
        self,
        description: Description,
        count: int = 0,
        spool: bool = False,
        itemdata: Iterable[str | Mapping[str, str]] | None = None,
        queue: str | None = None,
        *,
        owner: str | None = None,
        progress: Progress | None = None,
    ) -> SubmitResult:
        """Put jobs into the queue as one cluster: all of them, or none.

        ``description`` is a ``Submit`` object or the text of a submit description, or an ad, or a list of ads
        (``ClassAd`` objects, or dicts in HTCondor's JSON form). ``owner`` is the account on the execute hosts
        that they run as; a description has none of its own, and runs as the caller's account by default.
        ``queue`` are the arguments of a queue statement in place of the description's. Input files are stored
        first (sandbox/FILES.md); ``progress`` is told how many bytes of how many are sent.
        Raises SubmitError for what can't be honoured.
        """
        if spool:
            raise ValueError("spool: input files are stored in any case; say should_transfer_files = YES")
        return self._session.submit(
            description, count=count, itemdata=itemdata, owner=owner, queue=queue, progress=progress
        )

    def retrieve(self, job_spec: JobSpec | None = None, *, progress: Progress | None = None) -> int:
        """Bring what jobs left to where they were submitted, as ``Schedd.retrieve``; how many jobs were.

        ``job_spec`` is one of ``act``, jobs that have ended included; None: all whose outputs nobody has
        brought. Each job's files appear complete or not at all, as the calling account may write them. Raises
        TransferFailed for the first job whose files could not be brought; the others' were.
        """
        from fetchwork.queue.destinations import TransferFailed
        from fetchwork.queue.remote import ended_too

        brought = self._session.retrieve(ended_too(self._session, job_spec), progress=progress)
        for one in brought:
            if one["problem"] is not None:
                raise TransferFailed(f"job {one['job']}: {one['problem']}", one["errno"])
        return len(brought)

    @overload
    def query(
        self,
        constraint: ConstraintSpec = "true",
        projection: Sequence[str] = (),
        callback: None = None,
        limit: int = -1,
        opts: int = 0,
    ) -> list[ClassAd]: ...

    @overload
    def query(
        self,
        constraint: ConstraintSpec = "true",
        projection: Sequence[str] = (),
        *,
        callback: Callable[[ClassAd], Made | None],
        limit: int = -1,
        opts: int = 0,
    ) -> list[Made]: ...

    def query(
        self,
        constraint: ConstraintSpec = "true",
        projection: Sequence[str] = (),
        callback: Callable[[ClassAd], Made | None] | None = None,
        limit: int = -1,
        opts: int = 0,
    ) -> list[ClassAd] | list[Made]:
        """The ads of the jobs in the queue that a constraint selects, by cluster and process.

        With a callback, what it makes of each ad and is not None. ``opts`` as in HTCondor: an ad for each
        autocluster, for each combination of the projection's values, or one summary.
        """
        asked = _asked(constraint, projection, limit, opts)
        if callback is None:
            return self._list(_ad, "jobs", **asked)
        return self._list(lambda json: callback(_ad(json)), "jobs", **asked)

    def xquery(
        self,
        constraint: ConstraintSpec = "true",
        projection: Sequence[str] = (),
        limit: int = -1,
        opts: int = 0,
    ) -> Iterator[ClassAd]:
        """The same one by one, holding a page of them at a time."""
        return self._each(_ad, "jobs", **_asked(constraint, projection, limit, opts))

    def history(
        self,
        constraint: ConstraintSpec = None,
        projection: Sequence[str] = (),
        match: int = -1,
        since: JobSpec | None = None,
    ) -> list[ClassAd]:
        """The ads of jobs that have left the queue, the last first, up to the job that ``since`` means.

        ``match`` is the largest number of ads; with 0 or less it is unlimited.
        """
        return self._list(_ad, "view", **_view("history", constraint, projection, match, since))

    def xhistory(
        self,
        constraint: ConstraintSpec = None,
        projection: Sequence[str] = (),
        match: int = -1,
        since: JobSpec | None = None,
    ) -> Iterator[ClassAd]:
        """The same one by one, holding a page of them at a time."""
        return self._each(_ad, "view", **_view("history", constraint, projection, match, since))

    def jobEpochHistory(
        self,
        constraint: ConstraintSpec = None,
        projection: Sequence[str] = (),
        match: int = -1,
        since: JobSpec | None = None,
        ad_type: str | Sequence[str] | None = None,
    ) -> list[ClassAd]:
        """As ``runs``, under HTCondor's name: it calls the record of a run an epoch.

        ``ad_type`` may name types of records: none but epochs (EPOCH) are kept.
        """
        wanted = constraint if are_epochs(ad_type) else "false"
        return self._list(_ad, "view", **_view("runs", wanted, projection, match, since))

    def runs(
        self,
        constraint: ConstraintSpec = None,
        projection: Sequence[str] = (),
        match: int = -1,
        since: JobSpec | None = None,
    ) -> list[ClassAd]:
        """The ads of runs, the last first; live ones too, which have no Outcome yet."""
        return self._list(_ad, "view", **_view("runs", constraint, projection, match, since))

    def act(self, action: JobAction, job_spec: JobSpec, reason: str | None = None) -> ClassAd:
        """Hold, release, remove or vacate jobs; the answer counts them.

        ``job_spec`` is an id ('42.0', or '42' for a cluster), a list of ids, a cluster's number, or a
        constraint. An empty constraint is a ValueError: 'true' means all jobs.
        """
        name = changing.named(action, reason)
        return self._ask(_ad, "act", action=name, spec=as_spec(job_spec), reason=reason)

    def edit(self, job_spec: JobSpec, attr: str, value: object, flags: int = 0) -> int:
        """Change an attribute of jobs to an expression, or its text; returns how many were changed.

        ``flags`` are HTCondor's TransactionFlags, none of which means anything here.
        """
        changes = {attr: changing.value_of(value)}
        return self._ask(int, "edit", spec=as_spec(job_spec), changes=changes)

    def reschedule(self) -> None:
        """Make waiting agents look for work now; new jobs notify them anyway."""
        return self._ask(lambda _: None, "reschedule")

    # events

    def events(
        self,
        after: str | None = None,
        job: JobSpec | None = None,
        stop_after: float | None = None,
    ) -> Iterator[JobEvent]:
        """The events of jobs, in order, from ``after`` on.

        ``after`` is the ``cursor`` of an event, or 'now'; None: from the first that is kept. ``job`` is a
        job spec of ids; ``stop_after`` as in ``htcondor2.JobEventLog``: None waits for ever, 0 does not
        wait, and a number of seconds waits so long for the next event. Raises CursorExpired if ``after``
        lies before what is kept.
        """
        from fetchwork.queue.events import JobEvent
        from fetchwork.queue.reader import checked

        checked(after, job)
        spec = None if job is None else as_ids(job)
        return self._each(JobEvent, "events", after=after, job=spec, stop_after=stop_after)

    def cursor(self) -> str:
        """The cursor of this moment: ``events(after=...)`` of it yields what happens from now on."""
        return self._ask(str, "cursor")

    # the pool

    def slots(self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()) -> list[ClassAd]:
        """The ads of the slots that fetch jobs, as their agents last reported them, by machine and name."""
        return self._list(_ad, "view", **_view("slots", constraint, projection))

    def hosts(self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()) -> list[ClassAd]:
        """An ad for each execute host: its agent, whether that is alive, and whether the host fails jobs."""
        return self._list(_ad, "view", **_view("hosts", constraint, projection))

    def queues(self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()) -> list[ClassAd]:
        """An ad for each queue: its settings, and how many of its jobs are idle, running and held."""
        return self._list(_ad, "view", **_view("queues", constraint, projection))

    def submitters(self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()) -> list[ClassAd]:
        """An ad for each submitter, in the order in which they are served: usage, priority, limit."""
        return self._list(_ad, "view", **_view("submitters", constraint, projection))

    def limits(self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()) -> list[ClassAd]:
        """An ad for each concurrency limit: Name, Maximum, Used."""
        return self._list(_ad, "view", **_view("limits", constraint, projection))

    # credentials

    def credentials(self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()) -> list[ClassAd]:
        """An ad for each stored credential that the asker may know of, without what it is."""
        return self._list(_ad, "view", **_view("credentials", constraint, projection))

    def add_credential(
        self,
        service: str,
        content: bytes,
        *,
        handle: str = "",
        owner: str | None = None,
        renewal: Renewal | None = None,
        permissions: str | None = None,
        resource: str | None = None,
        expires_at: datetime | None = None,
    ) -> str:
        """Seal a token that jobs are to find (``use_oauth_services``) and store it; its name.

        ``renewal`` says how hosts get a new one from its issuer; ``content`` may be empty then. Raises
        CredentialError.
        """
        from fetchwork.queue import sealing

        return sealing.add(
            self._session,
            service,
            content,
            handle=handle,
            owner=owner,
            renewal=renewal,
            permissions=permissions,
            resource=resource,
            expires_at=expires_at,
        )

    def delete_credential(self, service: str, *, handle: str = "", owner: str | None = None) -> bool:
        """Delete a credential; False if there is none."""
        from fetchwork.credentials.secret import name_of
        from fetchwork.queue import sealing

        name, whose = name_of(service, handle), sealing.owner_of_asker(owner)
        return self._ask(bool, "delete_credential", owner=whose, name=name)

    # by these three ``AsyncQueue`` differs

    def _ask(self, make: Callable[[Any], Made], operation: str, /, **arguments: object) -> Made:
        """What is made of an operation's result."""
        return make(self._session.perform(operation, **arguments))

    def _each(
        self, make: Callable[[Any], Made | None], operation: str, /, **arguments: object
    ) -> Iterator[Made]:
        """What is made of an operation's items, one by one, without None."""
        items = self._session.items(operation, **arguments)
        return (made for item in items if (made := make(item)) is not None)

    def _list(self, make: Callable[[Any], Made | None], operation: str, /, **arguments: object) -> list[Made]:
        """The same, all at once."""
        return list(self._each(make, operation, **arguments))


def _ad(json: Mapping[str, object]) -> ClassAd:
    from fetchwork.classad.jsonform import from_json

    return from_json(json)


def _asked(constraint: ConstraintSpec, projection: Sequence[str], limit: int, opts: int) -> dict[str, object]:
    """The arguments of the operation ``jobs``."""
    return {
        "constraint": text_of(constraint),
        "projection": names_of(projection),
        "limit": limit,
        "opts": int(opts),
        "me": getpass.getuser() if opts else None,
    }


def _view(
    name: str,
    constraint: ConstraintSpec,
    projection: Sequence[str],
    match: int = -1,
    since: JobSpec | None = None,
) -> dict[str, object]:
    """The arguments of the operation ``view``."""
    return {
        "name": name,
        "constraint": text_of(constraint),
        "projection": names_of(projection),
        "limit": match if match > 0 else -1,
        "since": None if since is None else as_spec(since),
    }


def performer_of(queue: Queue) -> AnySession:
    """What performs a queue's operations, for rooms that ask for some by themselves."""
    return queue._session


def _anew(conninfo: str | None, name: str | None, everywhere: bool) -> Queue:
    return Queue(conninfo, name=name, everywhere=everywhere)


def session_of(queue: Queue) -> Session:
    """The session behind a queue, for rooms that drive steps of their own over its connection."""
    from fetchwork.queue.session import Session

    if not isinstance(queue._session, Session):
        raise FetchworkError("this reads the database by itself, and needs a connection string")
    return queue._session
