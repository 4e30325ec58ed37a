"""What can be asked of a queue, by names and values that are JSON.

A ``Session`` performs an operation over its own connection, a ``RemoteSession`` has an access point perform
it; both find it in these two tables, so that the same question has the same answer on either way. An
operation of ``STEPS`` has one result, one of ``STREAMS`` yields items.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from fetchwork.db.calls import credentials, files
from fetchwork.queue import changing, dags, prospects, query, reading, summaries
from fetchwork.queue.ask import Memory, Steps, Stream
from fetchwork.queue.views import (
    CHECKPOINTS,
    CREDENTIALS,
    HISTORY,
    HOSTS,
    JOBS,
    LIMITS,
    QUEUES,
    RUNS,
    SLOTS,
    SUBMITTERS,
    Json,
    View,
)

if TYPE_CHECKING:
    from fetchwork.classad.bindings import JobAction

#: of one job or several, as JSON has it
Spec: TypeAlias = "str | int | list[str]"

#: the views that are read as they are
VIEWS: Mapping[str, View] = {
    "history": HISTORY,
    "runs": RUNS,
    "slots": SLOTS,
    "hosts": HOSTS,
    "queues": QUEUES,
    "submitters": SUBMITTERS,
    "limits": LIMITS,
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
    """The ads of jobs in the queue, or what the options make of them."""
    return query.query(constraint, memory, projection=projection, limit=limit, opts=opts, me=me)


def job_tables(
    memory: Memory, *, constraint: str = "true", projection: Sequence[str], limit: int = -1
) -> Stream[Json]:
    """Some attributes of jobs in the queue, of many jobs at once.

    An item is a table, of ``jobs`` ads: ``same`` has the attributes that they share, ``columns`` the values
    of each other one, None where an ad does not have it. Where an attribute is more than a literal of a
    simple type, an item has ``ads``, as ``jobs`` does.
    """
    return reading.tables(JOBS, constraint, memory, projection=projection, limit=limit)


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
    """Events as lines (``JobEvent`` reads one)."""
    from fetchwork.queue.reader import Reader

    return Reader(after=after, job=job, log=log).lines(stop_after)


def scheduler_jobs(memory: Memory, *, projection: Sequence[str] = ()) -> Stream[Json]:
    """The ads of the jobs of the scheduler universe in the queue, DAGs above all."""
    return dags.dags(memory, projection)


def cursor(memory: Memory) -> Steps[str]:
    """The cursor of this moment."""
    from fetchwork.queue.reader import Reader

    return Reader.now()


def logs(memory: Memory, *, paths: Sequence[str]) -> Steps[list[str]]:
    """Those of some paths that are the event log of a job."""
    from fetchwork.queue.reader import logs as known

    return sorted((yield from known(paths)))


def totals(memory: Memory, *, by: summaries.TotalsBy | None = None, empty: bool = False) -> Steps[list[Json]]:
    """Counts of all jobs; ``empty``: of those as well that have no job in the queue any more."""
    if by not in (None, "owner", "autocluster", "queue"):
        raise ValueError(f"there are no totals by '{by}'; allowed: owner, autocluster, queue")
    return summaries.totals(by, empty=empty)


def demand(memory: Memory, *, queues: Sequence[str] | None = None) -> Steps[list[summaries.DemandLine]]:
    """The resources and requirements that idle jobs ask for."""
    return summaries.demand(queues)


def left(memory: Memory) -> Steps[list[Json]]:
    """How many jobs of each owner have ended, and are in the queue because their leave_in_queue says so."""
    return summaries.left()


def batches(memory: Memory, *, constraint: str = "true") -> Steps[list[summaries.Batch]]:
    """The lines of condor_q."""
    return summaries.batches(constraint, memory)


def summary(memory: Memory, *, constraint: str = "true") -> Steps[Json]:
    """Counts of the jobs that a constraint selects."""
    return query.summary(constraint, memory)


def progress(memory: Memory, *, cluster: int, proc: int | None = None) -> Steps[Json]:
    """Where the jobs of a cluster are, and how many have left the queue, by how they ended."""
    return summaries.progress(cluster, proc)


def dag(memory: Memory, *, cluster: int, projection: Sequence[str] = ()) -> Steps[list[dags.DagView]]:
    """A DAG and those in it."""
    return dags.tree(cluster, memory, projection)


def change(memory: Memory, *, action: str, spec: Spec, reason: str | None = None) -> Steps[Json]:
    """Hold, release, remove or vacate jobs: how many were meant, were not in the queue, were changed."""
    selection, number = yield from changing.changed(_action(action), spec, memory, reason)
    return {"jobs": selection.jobs, "missing": selection.missing, "changed": number}


def standing(memory: Memory, *, action: str, ids: list[str]) -> Steps[dict[str, str | None]]:
    """What can be said of jobs before an action (``changing.Outcome``); None of those to try it on."""
    found = yield from changing.standing(action, ids)
    return {id: None if outcome is None else outcome.value for id, outcome in found.items()}


def change_jobs(memory: Memory, *, action: str, spec: Spec, reason: str | None = None) -> Steps[int]:
    """Hold, release, remove or vacate jobs: how many were changed."""
    return changing.changed_of(action, spec, memory, reason)


def output_clusters(memory: Memory) -> Steps[list[int]]:
    """The clusters with outputs that nobody has brought back."""
    found: list[int] = yield files.output_clusters()
    return found


def location(memory: Memory) -> Steps[Json]:
    """Which database it is."""
    return summaries.location()


def kept_output(memory: Memory, *, cluster: int, proc: int, run_id: int | None = None) -> Steps[Json | None]:
    """The end of a job's output, where one is kept."""
    from fetchwork.queue import output

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
    """What a running job has written since."""
    from fetchwork.queue import output

    return output.live_output(cluster, proc, run_id, stdout_at, stderr_at)


def act(memory: Memory, *, action: str, spec: Spec, reason: str | None = None) -> Steps[Json]:
    """The same, with the counts of ``Schedd.act``."""
    return changing.act(_action(action), spec, memory, reason)


def edit(memory: Memory, *, spec: Spec, changes: Json) -> Steps[int]:
    """Change attributes; the number of jobs changed."""
    return changing.edit(spec, changes, memory)


def reschedule(memory: Memory) -> Steps[None]:
    """Make waiting agents look for work."""
    return changing.reschedule()


def sealing_key(memory: Memory) -> Steps[Json | None]:
    """The key that credentials are sealed to; None where no administrator has published one."""
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
    """Store a credential that was sealed (``sealing``; base64) over one of the same name; its version."""
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
    """Delete a credential; whether there was one."""
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
            batches,
            summary,
            progress,
            location,
            kept_output,
            live_output,
            standing,
            output_clusters,
        ),
        *(prospects.prospects, prospects.first_idle, prospects.waiting, prospects.idle),
        *(prospects.slots_named, prospects.seen_by_slot),
        *(change, change_jobs, act, edit, reschedule),
        *(sealing_key, put_credential, delete_credential),
    )
}
STREAMS: Mapping[str, Callable[..., Stream[Any]]] = {
    function.__name__: function
    for function in (jobs, job_tables, view, events, scheduler_jobs, prospects.known_slots)
}
