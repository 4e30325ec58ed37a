"""``Queue``: the queue with the interface of ``htcondor2.Schedd``.

HTCondor's bindings are imported only to make ads: a command that only counts jobs does not load them.
"""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from fetchwork.queue import changing
from fetchwork.queue.constraints.constraint import text_of
from fetchwork.queue.reading.ads import are_epochs
from fetchwork.queue.reading.selecting import as_ids, as_spec, names_of
from fetchwork.queue.remote import CONNINFO, AnySession, opened

if TYPE_CHECKING:
    from datetime import datetime

    from fetchwork.classad.bindings import JobAction
    from fetchwork.classad.values import ClassAd
    from fetchwork.credentials.secret import Renewal
    from fetchwork.queue.events.jobevents import JobEvent
    from fetchwork.queue.reading.selecting import ConstraintSpec, JobSpec
    from fetchwork.queue.submitting.contents import Progress
    from fetchwork.queue.submitting.submission import Description, SubmitResult

Made = TypeVar("Made")


class Queue:
    """A queue in a database.

    ``conninfo`` is a libpq connection string, by default FETCHWORK_DSN, else libpq's own environment. It may
    also be the ad of a schedd that a ``Collector`` located. ``name`` is instead one of the databases that
    FETCHWORK_DATABASES lists; ``everywhere`` reads all of them as one.
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
        # programs written for Schedd do not close it
        with contextlib.suppress(Exception):
            self.close()

    def __reduce__(self) -> tuple[Callable[..., Queue], tuple[str | None, str | None, bool]]:
        return _anew, (self._conninfo, *self._named)

    def close(self) -> None:
        """Close the connection; a later call makes a new one."""
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
        key: str | None = None,
    ) -> SubmitResult:
        """Put jobs into the queue as one cluster: all of them, or none.

        ``description`` is a ``Submit`` object or the text of a submit description, or an ad, or a list of ads
        (``ClassAd`` objects, or dicts in HTCondor's JSON form). ``owner`` is the account on the execute hosts
        that the jobs run as, by default the caller's; a description can't name one. ``queue`` are the
        arguments of a queue statement in place of the description's. Input files are uploaded first
        (sandbox/FILES.md); ``progress`` is called with the bytes sent and the total. ``key`` is the caller's
        own name for this submission: repeated with the same key, it submits nothing and returns the first
        one's cluster. Raises SubmitError for requests that can't be honoured.
        """
        if spool:
            raise ValueError("spool: input files are stored in any case; say should_transfer_files = YES")
        return self._session.submit(
            description,
            count=count,
            itemdata=itemdata,
            owner=owner,
            queue=queue,
            progress=progress,
            key=key,
        )

    def retrieve(self, job_spec: JobSpec | None = None, *, progress: Progress | None = None) -> int:
        """Deliver the outputs of jobs to their submit directories, as ``Schedd.retrieve``; the job count.

        ``job_spec`` is that of ``act``, and includes ended jobs; None: all jobs with undelivered outputs.
        Each job's files appear complete or not at all, with the calling account's rights. Raises
        TransferFailed for the first job whose files could not be delivered; the others' were.
        """
        from fetchwork.queue.outputs.destinations import TransferFailed
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

        With a callback, its results that are not None. ``opts`` as in HTCondor: an ad for each autocluster,
        an ad for each combination of the projection's values, or one summary.
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
        """As ``query``, one by one, with one page in memory at a time."""
        return self._each(_ad, "jobs", **_asked(constraint, projection, limit, opts))

    def history(
        self,
        constraint: ConstraintSpec = None,
        projection: Sequence[str] = (),
        match: int = -1,
        since: JobSpec | None = None,
    ) -> list[ClassAd]:
        """The ads of jobs that have left the queue, the last first, up to the job that ``since`` selects.

        ``match`` is the largest number of ads; 0 or less means no limit.
        """
        return self._list(_ad, "view", **_view("history", constraint, projection, match, since))

    def xhistory(
        self,
        constraint: ConstraintSpec = None,
        projection: Sequence[str] = (),
        match: int = -1,
        since: JobSpec | None = None,
    ) -> Iterator[ClassAd]:
        """As ``history``, one by one, with one page in memory at a time."""
        return self._each(_ad, "view", **_view("history", constraint, projection, match, since))

    def jobEpochHistory(
        self,
        constraint: ConstraintSpec = None,
        projection: Sequence[str] = (),
        match: int = -1,
        since: JobSpec | None = None,
        ad_type: str | Sequence[str] | None = None,
    ) -> list[ClassAd]:
        """As ``runs``, with HTCondor's name: HTCondor calls the record of a run an epoch.

        ``ad_type`` may name types of records; the queue keeps only epochs (EPOCH).
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
        """The ads of runs, the last first; live runs are included, without an Outcome."""
        return self._list(_ad, "view", **_view("runs", constraint, projection, match, since))

    def act(
        self, action: JobAction, job_spec: JobSpec, reason: str | None = None, subcode: int = 0
    ) -> ClassAd:
        """Act on jobs, as a JobAction says; the answer counts them.

        ``job_spec`` is an id ('42.0', or '42' for a cluster), a list of ids, a cluster's number, or a
        constraint. An empty constraint is a ValueError: 'true' means all jobs. ``subcode`` is a hold's.
        """
        name = changing.named(action, reason)
        return self._ask(_ad, "act", action=name, spec=as_spec(job_spec), reason=reason, subcode=subcode)

    def edit(self, job_spec: JobSpec, attr: str, value: object, flags: int = 0) -> int:
        """Change an attribute of jobs to an expression, or its text; returns the number of changed jobs.

        ``flags`` are HTCondor's TransactionFlags, which have no effect here.
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

        ``after`` is the ``cursor`` of an event, or 'now'; None: from the first stored event. ``job`` is a job
        spec of ids. ``stop_after`` as in ``htcondor2.JobEventLog``: None waits for ever, 0 does not wait, and
        a number of seconds waits that long for the next event. Raises CursorExpired if events after ``after``
        have expired.
        """
        from fetchwork.queue.events.jobevents import JobEvent
        from fetchwork.queue.events.reader import checked

        checked(after, job)
        spec = None if job is None else as_ids(job)
        return self._each(JobEvent, "events", after=after, job=spec, stop_after=stop_after)

    def cursor(self) -> str:
        """The cursor of the present moment: ``events(after=...)`` with it yields later events."""
        return self._ask(str, "cursor")

    # the pool

    def slots(self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()) -> list[ClassAd]:
        """The ads of the slots that fetch jobs, as their agents last reported them, by machine and name."""
        return self._list(_ad, "view", **_view("slots", constraint, projection))

    def hosts(self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()) -> list[ClassAd]:
        """An ad for each execute host: its agent, whether the agent is alive, and whether jobs fail there."""
        return self._list(_ad, "view", **_view("hosts", constraint, projection))

    def queues(self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()) -> list[ClassAd]:
        """An ad for each queue: its settings, and the numbers of its idle, running and held jobs."""
        return self._list(_ad, "view", **_view("queues", constraint, projection))

    def submitters(self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()) -> list[ClassAd]:
        """An ad for each submitter, in the order of service: usage, priority, limit."""
        return self._list(_ad, "view", **_view("submitters", constraint, projection))

    def set_factor(self, submitter: str, factor: float) -> None:
        """Set a submitter's priority factor: twice the factor is half the share. For administrators."""
        changes = {"prio_factor": factor}
        return self._ask(lambda _: None, "set_submitter", name=submitter, changes=changes)

    def limits(self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()) -> list[ClassAd]:
        """An ad for each concurrency limit (Maximum, Used) and limit on starts (MaxStarts, StartsSeconds).

        Scope tells what Name names: 'limit' (a concurrency limit), 'queue', 'owner', 'group'. Started is the
        number of starts in the last StartsSeconds.
        """
        return self._list(_ad, "view", **_view("limits", constraint, projection))

    def groups(self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()) -> list[ClassAd]:
        """An ad for each accounting group with a quota, and for the submitters without one ("<none>").

        ConfigQuota or DynamicQuota, MaxIdle and MaxAutoclusters are as set; SubtreeQuota is the quota now,
        EffectiveQuota the part for its own submitters, who have WeightedInUse and ask for Requested.
        """
        return self._list(_ad, "view", **_view("groups", constraint, projection))

    def set_group(self, /, group: str, **changes: float | bool | list[str] | None) -> None:
        """Make an accounting group with a quota, or change one: ``quota``, ``max_idle``, and so on.

        For administrators and managers of a group above it; see SQL's ``set_group``.
        """
        return self._ask(lambda _: None, "set_group", name=group, changes=changes)

    def remove_group(self, group: str) -> None:
        """Remove an accounting group, with the groups below it."""
        return self._ask(lambda _: None, "remove_group", name=group)

    # credentials

    def credentials(self, constraint: ConstraintSpec = None, projection: Sequence[str] = ()) -> list[ClassAd]:
        """An ad for each stored credential that the asker may see, without its secret."""
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
        """Seal a token for jobs that ask for it (``use_oauth_services``), and store it; its name.

        ``renewal`` says how hosts get a new token from the issuer; then ``content`` may be empty. Raises
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
        """Delete a credential; False if it does not exist."""
        from fetchwork.credentials.secret import name_of
        from fetchwork.queue import sealing

        name, whose = name_of(service, handle), sealing.owner_of_asker(owner)
        return self._ask(bool, "delete_credential", owner=whose, name=name)

    # ``AsyncQueue`` replaces these three

    def _ask(self, make: Callable[[Any], Made], operation: str, /, **arguments: object) -> Made:
        """The result of an operation, converted by ``make``."""
        return make(self._session.perform(operation, **arguments))

    def _each(
        self, make: Callable[[Any], Made | None], operation: str, /, **arguments: object
    ) -> Iterator[Made]:
        """The items of an operation, one by one, converted by ``make``, without None."""
        items = self._session.items(operation, **arguments)
        return (made for item in items if (made := make(item)) is not None)

    def _list(self, make: Callable[[Any], Made | None], operation: str, /, **arguments: object) -> list[Made]:
        """As ``_each``, as a list."""
        return list(self._each(make, operation, **arguments))


def _ad(json: Mapping[str, object]) -> ClassAd:
    from fetchwork.classad.jsonform import from_json

    return from_json(json)


def _asked(constraint: ConstraintSpec, projection: Sequence[str], limit: int, opts: int) -> dict[str, object]:
    """The arguments of the operation ``jobs``."""
    return {
        "constraint": text_of(constraint),
        "projection": names_of(projection),
        "limit": int(limit),
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
        "limit": int(match) if int(match) > 0 else -1,
        "since": None if since is None else as_spec(since),
    }


def performer_of(queue: Queue) -> AnySession:
    """The session that performs a queue's operations, for rooms that call some themselves."""
    return queue._session


def _anew(conninfo: str | None, name: str | None, everywhere: bool) -> Queue:
    return Queue(conninfo, name=name, everywhere=everywhere)
