"""Which jobs a spec means where outputs are to be brought back: those that have ended, too."""

from __future__ import annotations

from fetchwork.queue.remote import AnySession
from fetchwork.queue.selecting import JobSpec, as_ids, constraint_of, ids_of

__all__ = ["ended_too"]

#: clusters of one question
AT_ONCE = 100


def ended_too(session: AnySession, spec: JobSpec | None) -> list[str] | None:
    """The ids of the jobs that a spec means, in the queue and in history; None for None, which means all.

    Of those that a constraint selects, the ones in clusters with outputs that nobody has brought, for it may
    select all of history. Raises ValueError for an empty constraint.
    """
    if spec is None:
        return None
    ids = ids_of(spec)
    if ids is not None:
        return as_ids(ids)
    constraint = constraint_of(spec)
    # where there are none, a constraint that is no expression is an error all the same
    clusters: list[int] = session.perform("output_clusters") or [0]
    found: list[str] = []
    for begin in range(0, len(clusters), AT_ONCE):
        some = " || ".join(f"ClusterId == {cluster}" for cluster in clusters[begin : begin + AT_ONCE])
        chosen = {"constraint": f"({constraint}) && ({some})", "projection": ["ClusterId", "ProcId"]}
        ads = [
            *session.items("jobs", **chosen),
            *session.items("view", name="history", limit=-1, since=None, **chosen),
        ]
        found += [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in ads]
    return found
