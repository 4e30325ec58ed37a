"""The operations on a queue, with names and values that JSON can express.

A ``Session`` performs an operation over its own connection; a ``RemoteSession`` has an access point perform
it. Both find it in these two tables, so the same question has the same answer either way. An operation of
``STEPS`` has one result; an operation of ``STREAMS`` yields items.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from fetchwork.db.calls import administration, credentials, files
from fetchwork.queue import changing
from fetchwork.queue.ask import Memory, Steps, Stream
from fetchwork.queue.reading import ads as reading
from fetchwork.queue.reading import dags, prospects, query, summaries
from fetchwork.queue.reading.poolviews import (
    ACCOUNTING,
    CHECKPOINTS,
    CREDENTIALS,
    GROUPS,
    HOSTS,
    LIMITS,
    QUEUES,
    SUBMITTERS,
)
from fetchwork.queue.reading.selecting import FACTORIES
from fetchwork.queue.reading.views import HISTORY, JOBS, RUNS, SLOTS, Json, View

if TYPE_CHECKING:
    from fetchwork.classad.bindings import JobAction

#: one job or several, in JSON
Spec: TypeAlias = "str | int | list[str]"

#: the views that are read unchanged
VIEWS: Mapping[str, View] = {
    "history": HISTORY,
    "factories": FACTORIES,
    "runs": RUNS,
    "slots": SLOTS,
    "hosts": HOSTS,
    "queues": QUEUES,
    "submitters": SUBMITTERS,
    "accounting": ACCOUNTING,
    "limits": LIMITS,
    "groups": GROUPS,
    "checkpoints": CHECKPOINTS,
    "credentials": CREDENTIALS,
}


def jobs(
    memory: Memory,
    *,
    constraint: str = "true",
    projection: Sequence[str] = (),
    limit: int = -1,
    opts: int = 0,
    me: str | None = None,
) -> Stream[Json]:
    """The ads of jobs in the queue, or the answer that ``opts`` ask for."""
    return query.query(constraint, memory, projection=projection, limit=limit, opts=opts, me=me)


def job_tables(
    memory: Memory, *, constraint: str = "true", projection: Sequence[str], limit: int = -1
) -> Stream[Json]:
    """Some attributes of jobs in the queue, for many jobs at once.

    An item is a table of ``jobs`` ads: ``same`` has the attributes that all share, ``columns`` the values of
    each other attribute, with None for an ad that lacks it. If an attribute is more than a literal of a
    simple type, the item has ``ads`` instead, as ``jobs`` does.
    """
    return reading.tables(JOBS, constraint, memory, projection=projection, limit=limit)


def clusters(memory: Memory, *, constraint: str = "true", projection: Sequence[str]) -> Stream[Json]:
    """As ``job_tables``, of the first job of each cluster, with the states of all its jobs.

    ``clusters`` of an item has [[JobStatus, jobs], ...] and the largest ProcId for each ad; an item without
    it has every job.
    """
    return reading.clusters(constraint, memory, projection=projection)


def view(
    memory: Memory,
    *,
    name: str,
    constraint: str = "true",
    projection: Sequence[str] = (),
    limit: int = -1,
    since: Spec | None = None,
) -> Stream[Json]:
    """The ads of a view (``VIEWS``)."""
    if name not in VIEWS:
        raise ValueError(f"there is no view '{name}'; allowed: {', '.join(VIEWS)}")
    return reading.ads(VIEWS[name], constraint, memory, projection=projection, limit=limit, since=since)


def events(
    memory: Memory,
    *,
    after: str | None = None,
    job: Spec | None = None,
    log: str | None = None,
    stop_after: float | None = None,
) -> Stream[str]:
    """Events as lines (``JobEvent`` reads a line)."""
    from fetchwork.queue.events.reader import Reader

    return Reader(after=after, job=job, log=log).lines(stop_after)


def scheduler_jobs(memory: Memory, *, projection: Sequence[str] = ()) -> Stream[Json]:
    """The ads of the queued jobs of the scheduler universe, mostly DAGs."""
    return dags.dags(memory, projection)


def cursor(memory: Memory) -> Steps[str]:
    """The cursor of the present moment."""
    from fetchwork.queue.events.reader import Reader

    return Reader.now()


def logs(memory: Memory, *, paths: Sequence[str]) -> Steps[list[str]]:
    """The paths among ``paths`` that are the event log of a job."""
    from fetchwork.queue.events.reader import logs as known

    return sorted((yield from known(paths)))


def totals(memory: Memory, *, by: summaries.TotalsBy | None = None, empty: bool = False) -> Steps[list[Json]]:
    """Counts of all jobs; ``empty``: include groups that have no job in the queue any more."""
    if by not in (None, "owner", "autocluster", "queue"):
        raise ValueError(f"there are no totals by '{by}'; allowed: owner, autocluster, queue")
    return summaries.totals(by, empty=empty)


def demand(memory: Memory, *, queues: Sequence[str] | None = None) -> Steps[list[summaries.DemandLine]]:
    """The resources and requirements of idle jobs."""
    return summaries.demand(queues)


def left(memory: Memory) -> Steps[list[Json]]:
    """The numbers of ended jobs that leave_in_queue keeps in the queue, by owner."""
    return summaries.left()


def summary(memory: Memory, *, constraint: str = "true") -> Steps[Json]:
    """Counts of the jobs that a constraint selects."""
    return query.summary(constraint, memory)


def progress(memory: Memory, *, cluster: int, proc: int | None = None) -> Steps[Json]:
    """The states of a cluster's jobs, and the numbers of jobs that have left the queue, by their end."""
    return summaries.progress(cluster, proc)


def dag(memory: Memory, *, cluster: int, projection: Sequence[str] = ()) -> Steps[list[dags.DagView]]:
    """A DAG and the DAGs inside it."""
    return dags.tree(cluster, memory, projection)


def change(
    memory: Memory, *, action: str, spec: Spec, reason: str | None = None, subcode: int = 0
) -> Steps[Json]:
    """Act on jobs; the numbers selected, missing in the queue, and changed."""
    selection, number = yield from changing.changed(_action(action), spec, memory, reason, subcode)
    return {"jobs": selection.jobs, "missing": selection.missing, "changed": number}


def standing(memory: Memory, *, action: str, ids: list[str]) -> Steps[dict[str, str | None]]:
    """The certain outcomes for jobs before an action (``changing.Outcome``); None for jobs to try it on."""
    found = yield from changing.standing(action, ids)
    return {id: None if outcome is None else outcome.value for id, outcome in found.items()}


def change_jobs(
    memory: Memory, *, action: str, spec: Spec, reason: str | None = None, subcode: int = 0
) -> Steps[int]:
    """Act on jobs; the number of changed jobs."""
    return changing.changed_of(action, spec, memory, reason, subcode)


def output_clusters(memory: Memory) -> Steps[list[int]]:
    """The clusters with undelivered outputs."""
    found: list[int] = yield files.output_clusters()
    return found


def location(memory: Memory) -> Steps[Json]:
    """The database's name, host and port."""
    return summaries.location()


def kept_output(memory: Memory, *, cluster: int, proc: int, run_id: int | None = None) -> Steps[Json | None]:
    """The stored tail of a job's output, if there is one."""
    from fetchwork.queue.outputs import output

    kept = yield from output.kept_output(cluster, proc, run_id)
    return None if kept is None else dataclasses.asdict(kept)


def live_output(
    memory: Memory,
    *,
    cluster: int,
    proc: int,
    run_id: int | None = None,
    stdout_at: int | None = None,
    stderr_at: int | None = None,
) -> Steps[Json | None]:
    """New output of a running job."""
    from fetchwork.queue.outputs import output

    return output.live_output(cluster, proc, run_id, stdout_at, stderr_at)


def act(
    memory: Memory, *, action: str, spec: Spec, reason: str | None = None, subcode: int = 0
) -> Steps[Json]:
    """As ``change``, with the counts of ``Schedd.act``."""
    return changing.act(_action(action), spec, memory, reason, subcode)


def edit(memory: Memory, *, spec: Spec, changes: Json) -> Steps[int]:
    """Change attributes; the number of changed jobs."""
    return changing.edit(spec, changes, memory)


def reschedule(memory: Memory) -> Steps[None]:
    """Make waiting agents look for work now."""
    return changing.reschedule()


def set_submitter(memory: Memory, *, name: str, changes: Json) -> Steps[None]:
    """Set a submitter's prio_factor, usage, max_running, max_idle or max_autoclusters."""
    yield administration.set_submitter(name=name, changes=changes)


def set_group(memory: Memory, *, name: str, changes: Json) -> Steps[None]:
    """Make an accounting group with a quota, or change one."""
    yield administration.set_group(name=name, changes=changes)


def remove_group(memory: Memory, *, name: str) -> Steps[None]:
    """Remove an accounting group and those below it."""
    yield administration.remove_group(name=name)


def sealing_key(memory: Memory) -> Steps[Json | None]:
    """The key that credentials are sealed to; None if no administrator has published one."""
    key: credentials.SealingKey | None = yield credentials.sealing_key()
    if key is None:
        return None
    return {"key_id": key.key_id, "public_key": base64.b64encode(key.public_key).decode()}


def put_credential(
    memory: Memory,
    *,
    owner: str,
    name: str,
    key_id: str,
    sealed: str,
    permissions: str | None = None,
    resource: str | None = None,
    renewable: bool = False,
    expires_at: float | None = None,
) -> Steps[int]:
    """Store a sealed credential (``sealing``; base64), replacing one of the same name; its version."""
    version: int = yield credentials.put_credential(
        owner=owner,
        name=name,
        key_id=key_id,
        sealed=base64.b64decode(sealed),
        permissions=permissions,
        resource=resource,
        renewable=renewable,
        expires_at=None if expires_at is None else datetime.fromtimestamp(expires_at, UTC),
    )
    return version


def delete_credential(memory: Memory, *, owner: str, name: str) -> Steps[bool]:
    """Delete a credential; whether it existed."""
    deleted: bool = yield credentials.delete_credential(owner=owner, name=name)
    return deleted


def _action(name: str) -> JobAction:
    from fetchwork.classad.bindings import JobAction

    action = getattr(JobAction, name, None)
    if not isinstance(action, JobAction):
        raise ValueError(f"there is no action '{name}'; allowed: the names of JobAction")
    return action


STEPS: Mapping[str, Callable[..., Steps[Any]]] = {
    function.__name__: function
    for function in (
        *(
            cursor,
            logs,
            totals,
            demand,
            left,
            dag,
            summary,
            progress,
            location,
            kept_output,
            live_output,
            standing,
            output_clusters,
        ),
        prospects.prospects, prospects.first_idle, prospects.waiting, prospects.idle,
        prospects.slots_named, prospects.seen_by_slot,
        change, change_jobs, act, edit, reschedule, set_submitter, set_group, remove_group,
        sealing_key, put_credential, delete_credential,
    )
}  # fmt: skip
STREAMS: Mapping[str, Callable[..., Stream[Any]]] = {
    function.__name__: function
    for function in (jobs, job_tables, clusters, view, events, scheduler_jobs, prospects.known_slots)
}
