"""Submits jobs from Python: descriptions and ads in any form, in calls of limited size."""

from __future__ import annotations

import contextlib
import functools
import getpass
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, cast

from fetchwork.classad import bindings
from fetchwork.classad.jsonform import from_json, to_json
from fetchwork.classad.values import ClassAd
from fetchwork.codes import JobStatus
from fetchwork.db.calls import files as file_calls
from fetchwork.db.calls import jobs as job_calls
from fetchwork.errors import NotFound, SubmitError
from fetchwork.queue.reading.views import Json
from fetchwork.queue.submitting import contents as stored
from fetchwork.queue.submitting import descriptions, inputs, jobads
from fetchwork.queue.submitting.jobads import PLAN

if TYPE_CHECKING:
    from fetchwork.classad.bindings import Submit
    from fetchwork.db.database import Database
    from fetchwork.queue.submitting.contents import Progress

#: an ad of HTCondor's bindings, or one in HTCondor's JSON form
Ad: TypeAlias = ClassAd | Json
#: a submit description or its text, an ad, or several
Description: TypeAlias = "Submit | str | Ad | Sequence[Ad]"

# limits of one call of submit_ads, which the server parses as one value
MAX_JOBS = 5000
MAX_BYTES = 4 * 1024 * 1024
# so many jobs of a description are made before the database is asked how many there may be
_FEW = 1000
# a content may be deleted just before a submission refers to it
_TRIES = 3


class SubmitResult:
    """The cluster that a submission made, with the methods of ``htcondor2.SubmitResult``."""

    def __init__(self, cluster: int, count: int, common: Json) -> None:
        self._cluster = cluster
        self._count = count
        self._common = {name: value for name, value in common.items() if name != PLAN}
        #: problems with the jobs' event logs; ``access_point``: the access point that writes them, if any
        self.problems: list[str] = []
        self.access_point: str | None = common.get("FetchWorkAccessPoint")
        self.late = PLAN in common

    def cluster(self) -> int:
        """The cluster's id."""
        return self._cluster

    def clusterad(self) -> ClassAd:
        """The attributes that all its jobs share."""
        return from_json(self._common)

    def first_proc(self) -> int:
        """The first job's ProcId."""
        return 0

    def num_procs(self) -> int:
        """The number of jobs."""
        return self._count

    def __int__(self) -> int:
        return self._cluster

    def __str__(self) -> str:
        return f"Submitted {self._count} jobs into cluster {self._cluster},0 :\n{self.clusterad()}"

    def __repr__(self) -> str:
        return f"SubmitResult(cluster={self._cluster}, first_proc=0, num_procs={self._count})"


def put(
    database: Database,
    description: Description,
    *,
    count: int = 0,
    itemdata: Iterable[str | Mapping[str, str]] | None = None,
    owner: str | None = None,
    extra: Mapping[str, object] | None = None,
    queue: str | None = None,
    progress: Progress | None = None,
    key: str | None = None,
    reads_files: bool = True,
    environment: Mapping[str, str] = os.environ,
) -> SubmitResult:
    """Put a description or ads into the queue as one cluster: all of the jobs, or none.

    ``key`` names the submission of one Owner's jobs: a repeated key submits nothing, and returns the first
    submission's result, without its ad. If the first is still under way, it is waited for.

    ``extra`` are attributes that every job gets. The files that the jobs need are uploaded first;
    ``progress`` is called with the bytes sent and the total. Without ``reads_files``, jobs that need files of
    this machine are refused. ``environment``: as of ``prepared``.
    """
    try:
        with database.transaction():
            cluster = database.run(job_calls.reserve_cluster())
            jobs = prepared(
                description,
                cluster=cluster,
                count=count,
                itemdata=itemdata,
                owner=owner,
                extra=extra,
                queue=queue,
                most_jobs=functools.partial(_most_jobs, database),
                environment=environment,
            )
            if key is not None:
                # the jobs are iterated twice
                jobs = replace(jobs, own=list(jobs.own))
            try:
                needs = inputs.needed(jobs, inputs.shared_directories(), reads=reads_files)
            except SubmitError:
                # the files may have gone since the first submission
                _raise_if_known(database, jobs, key)
                raise
            if not needs.files:
                return _put(database, cluster, needs, {}, key)
            _raise_if_known(database, needs.jobs, key)
        return _put_with_files(database, cluster, needs, progress, key)
    except _Known as known:
        return known.result


class _Known(Exception):
    """Rolls back a submission whose key an earlier one has."""

    def __init__(self, cluster: int, count: int) -> None:
        self.result = SubmitResult(cluster, count, {})


def _raise_if_known(database: Database, jobs: jobads.Jobs, key: str | None) -> None:
    """Raise _Known if an earlier submission has this key."""
    if key is not None:
        known = database.run(job_calls.submitted_as(owner=_owner_of(jobs), key=key))
        if known is not None:
            raise _Known(known, jobs.number(sum(1 for _ in jobs.own)))


def _put_with_files(
    database: Database, cluster: int, needs: inputs.Needed, progress: Progress | None, key: str | None
) -> SubmitResult:
    """Upload the files that jobs need, and put the jobs into the queue as a cluster that is reserved."""
    # uploading must not happen in the transaction of the rest
    contents = stored.measured(needs.paths())
    for left in reversed(range(_TRIES)):
        stored.send(
            database, _owner_of(needs.jobs), contents, stored.largest(needs, contents), progress=progress
        )
        try:
            with database.transaction():
                return _put(database, cluster, needs, contents, key)
        except NotFound:
            # the last job with a content has just ended, and the content was deleted with it
            if not left:
                raise
    raise AssertionError


def _put(
    database: Database,
    cluster: int,
    needs: inputs.Needed,
    contents: Mapping[str, stored.Content],
    key: str | None = None,
) -> SubmitResult:
    """Put jobs and the list of their files into the queue, in the caller's transaction."""
    jobs = needs.jobs
    (now,) = database.query("SELECT extract(epoch FROM now())::bigint AS at")
    number = 0
    parts = chunks(jobs.own)
    for chunk in parts:
        # the first call creates the cluster
        common, first_key = (jobs.common, key) if number == 0 else (None, None)
        put = job_calls.submit_ads(common=common, procs=chunk, cluster=cluster, key=first_key)
        made = database.run(put)
        number += len(chunk)
        if made != cluster:
            raise _Known(made, jobs.number(number + sum(map(len, parts))))
    if not number:
        raise SubmitError("nothing to submit: no jobs; allowed: one or more")
    for files in stored.described(needs, contents):
        database.run(file_calls.add_job_files(cluster=cluster, files=files))
    if (own := needs.key) is not None:
        database.run(
            file_calls.add_job_key(
                cluster=cluster,
                access_key_id=own.access_key_id,
                secret=own.secret,
                session_token=own.session_token,
            )
        )
    state = JobStatus.HELD if jobs.common.get("JobStatus") == JobStatus.HELD else JobStatus.IDLE
    of_queue = {
        "ClusterId": cluster,
        "QDate": now["at"],
        "JobStatus": int(state),
        "EnteredCurrentStatus": now["at"],
        "TotalSubmitProcs": jobs.number(number),
        "MyType": "Job",
    }
    return SubmitResult(cluster, jobs.number(number), jobs.common | of_queue)


def _owner_of(jobs: jobads.Jobs) -> str:
    """The owner of the jobs' files; raises SubmitError if a cluster's jobs have several owners."""
    owners = {str(ad.get("Owner")) for ad in ({**jobs.common, **own} for own in jobs.own)}
    if len(owners) > 1:
        raise SubmitError("jobs with files have several owners; allowed: one owner for each submission")
    return owners.pop() if owners else ""


class _Unwanted(Exception):
    """Rolls back a trial submission."""


def check(
    database: Database,
    description: Description,
    *,
    owner: str | None = None,
    extra: Mapping[str, object] | None = None,
) -> None:
    """Raise the errors that ``put`` would raise, and put nothing into the queue."""
    with contextlib.suppress(_Unwanted), database.transaction():
        cluster = database.run(job_calls.reserve_cluster())
        jobs = prepared(
            description,
            cluster=cluster,
            owner=owner,
            extra=extra,
            most_jobs=functools.partial(_most_jobs, database),
        )
        needs = inputs.needed(jobs, inputs.shared_directories())
        contents = stored.measured(needs.paths())
        stored.check_room(database, _owner_of(needs.jobs), contents, stored.largest(needs, contents))
        _put(database, cluster, inputs.Needed(needs.jobs, [], {}), {})
        raise _Unwanted


def prepared(
    description: Description,
    *,
    cluster: int,
    count: int = 0,
    itemdata: Iterable[str | Mapping[str, str]] | None = None,
    owner: str | None = None,
    extra: Mapping[str, object] | None = None,
    queue: str | None = None,
    most_jobs: Callable[[], int] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> jobads.Jobs:
    """The jobs of a description (a ``Submit`` object, or its text) or of ads, ready for submission.

    ``most_jobs`` returns the number of jobs that a cluster may have; it is called only for many jobs. Jobs
    without a TraceParent get that of the submitter's ``environment``, unless it is malformed.
    """
    given: Json = dict(extra or {})
    if owner is not None:
        given["Owner"] = owner
    if is_ad(description):
        description = [description]
    if isinstance(description, list | tuple):
        # the given attributes replace an ad's own, in any spelling
        names = {name.lower() for name in given}
        ads = [as_json(ad) for ad in description]
        if given:
            ads = [{k: v for k, v in ad.items() if k.lower() not in names} | given for ad in ads]
        if not ads:
            raise SubmitError("nothing to submit: no jobs; allowed: one or more")
        return jobads.traced(jobads.from_ads(ads), environment)
    if isinstance(description, str) and (count or itemdata is not None or queue is not None):
        description = bindings.Submit(description)
    if not isinstance(description, str):
        description = description_text(cast("Submit", description), count, itemdata, queue)
    jobs = descriptions.from_description(description, cluster_id=cluster, owner=owner or getpass.getuser())
    names = {name.lower() for name in given}
    if jobs.late is not None:
        return jobads.traced(jobads.Jobs({**jobs.common, **given}, jobs.own), environment)
    own = ({k: v for k, v in part.items() if k.lower() not in names} for part in jobs.own)
    bounded = own if most_jobs is None else _bounded(own, most_jobs)
    return jobads.traced(jobads.Jobs({**jobs.common, **given}, bounded), environment)


def _bounded(own: Iterable[Json], most_jobs: Callable[[], int]) -> Iterator[Json]:
    """The jobs' own parts; raises SubmitError behind the last that a cluster may have.

    The database refuses more too, but only after a description of millions was expanded in memory.
    """
    most = _FEW
    for number, part in enumerate(own):
        if number == most and number >= (most := most_jobs()):
            raise SubmitError(
                f"Number of submitted jobs would exceed MAX_JOBS_PER_SUBMISSION: more than {most} jobs in one"
                f" cluster; allowed: {most} (setting max_jobs_per_submission)"
            )
        yield part


def _most_jobs(database: Database) -> int:
    (row,) = database.query("SELECT value FROM fetchwork.settings WHERE name = 'max_jobs_per_submission'")
    return int(row["value"])


def sendable(
    description: Description,
    count: int = 0,
    itemdata: Iterable[str | Mapping[str, str]] | None = None,
    queue: str | None = None,
) -> Json:
    """A description and its arguments as JSON, for ``prepared`` in another process."""
    items = None if itemdata is None else list(itemdata)
    if isinstance(description, str):
        return {"description": description, "count": count, "itemdata": items, "queue": queue}
    if is_ad(description):
        description = [description]
    if isinstance(description, list | tuple):
        ads = [as_json(ad) for ad in description]
        return {"description": ads, "count": 0, "itemdata": None, "queue": None}
    text = description_text(cast("Submit", description), count, items, queue)
    return {"description": text, "count": 0, "itemdata": None, "queue": None}


def is_ad(what: object) -> TypeGuard[Ad]:
    """Whether it is an ad and not a description; both are mappings."""
    return isinstance(what, ClassAd) or type(what) is dict


def as_json(ad: Ad) -> Json:
    """An ad in JSON form, from a ClassAd or from a dict that is in JSON form already."""
    return to_json(ad) if isinstance(ad, ClassAd) else dict(ad)


def description_text(
    description: Submit,
    count: int = 0,
    itemdata: Iterable[str | Mapping[str, str]] | None = None,
    queue: str | None = None,
) -> str:
    """The text of a ``Submit`` object of HTCondor's bindings, with its queue statement.

    ``count`` replaces the statement's own count, ``itemdata`` the rest of it; ``queue`` replaces the whole
    statement.
    """
    lines = [f"{name} = {description[name]}" for name in description.keys()]  # noqa: SIM118 - v1 has no __iter__
    if itemdata is not None:
        return "\n".join([*lines, *_with_items(count, itemdata)])
    arguments = (description.getQArgs() if queue is None else queue).strip()
    lines.append(f"queue {_with_count(arguments, count) if count else arguments}")
    if queue is None and arguments.endswith("("):
        # the items were in the text; the object returns all of them, and the slice is applied to them
        separator = "," if re.search(r"\bfrom\s+table\b", arguments, re.I) else "\x1f"
        lines += [_item(item, None, separator) for item in description.itemdata() or ()]
        lines.append(")")
    return "\n".join(lines)


#: the words before the items of a queue statement
_ITEMS = re.compile(r"(?:^|\s)(?:in|from|matching)\b", re.I)
#: a count before the names of variables: a number, a macro, an expression in parentheses
_COUNT = re.compile(r"(?:\d\S*|\$\S+|\(.*?\))(?:\s+|$)")


def _with_count(arguments: str, count: int) -> str:
    """The arguments of a queue statement with another count: jobs for each item, or in total."""
    if not _ITEMS.search(arguments):
        return str(count)
    return f"{count} {_COUNT.sub('', arguments, count=1) if _COUNT.match(arguments) else arguments}"


def _with_items(count: int, itemdata: Iterable[str | Mapping[str, str]]) -> Iterator[str]:
    names: list[str] | None = None
    for item in itemdata:
        if names is None:
            names = ["item"] if isinstance(item, str) else list(item)
            yield f"queue {count or ''} {','.join(names)} from ("
        yield _item(item, names)
    if names is None:
        raise ValueError("itemdata is empty: no jobs")
    yield ")"


def _item(item: str | Mapping[str, str], names: Sequence[str] | None, separator: str = "\x1f") -> str:
    """An item as a line; a unit separator separates its values, which may contain commas and blanks."""
    values = item
    if not isinstance(values, str):
        values = separator.join(str(values.get(name, "")).strip() for name in names or values)
    if "\n" in values or "\0" in values:
        raise ValueError("an item may not hold a line break or a NUL")
    return values


def chunks(own: Iterable[Json]) -> Iterator[list[Json]]:
    """Split the jobs' own parts into lists of limited length and size."""
    chunk: list[Json] = []
    size = 0
    for batch in jobads.batches(own):
        # without the brackets and the separators
        length = len(json.dumps(batch)) - 2 * len(batch)
        if len(chunk) + len(batch) <= MAX_JOBS and size + length <= MAX_BYTES:
            chunk += batch
            size += length
            continue
        for part in batch:
            length = len(json.dumps(part)) if part else 2
            if chunk and (len(chunk) >= MAX_JOBS or size + length > MAX_BYTES):
                yield chunk
                chunk, size = [], 0
            chunk.append(part)
            size += length
    if chunk:
        yield chunk
