"""Which jobs a spec means where outputs are to be brought back: those that have ended, too."""

from __future__ import annotations

from fetchwork.queue.remote import AnySession
from fetchwork.queue.selecting import JobSpec, as_ids, constraint_of, ids_of

__all__ = ["ended_too"]


def ended_too(session: AnySession, spec: JobSpec | None) -> list[str] | None:
    """The ids of the jobs that a spec means, in the queue and in history; None for None, which means all.

    Raises ValueError for an empty constraint.
    """
    if spec is None:
        return None
    ids = ids_of(spec)
    if ids is not None:
        return as_ids(ids)
    chosen = {"constraint": constraint_of(spec), "projection": ["ClusterId", "ProcId"]}
    ads = [
        *session.items("jobs", **chosen),
        *session.items("view", name="history", limit=-1, since=None, **chosen),
    ]
    return [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in ads]
