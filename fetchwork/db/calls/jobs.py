"""Calls by which people submit and change jobs.

The types of a caller's arguments are checked here: for a wrong type PostgreSQL would report that there is no
such function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fetchwork.db.calls.call import Call, JsonObject, Record, done, given, jsonb, one_of, value_of


@dataclass(frozen=True, slots=True)
class Submission(Record):
    """The id of the cluster of a submission, made or about to be made."""

    cluster_id: int
    is_made: bool
    #: the setting max_jobs_per_submission
    most_jobs: int


def reserve_cluster() -> Call[int]:
    """The id of a new cluster, for several calls of ``submit_ads`` in one transaction."""
    return value_of("reserve_cluster")


def submit_ads(
    *,
    common: JsonObject | None,
    procs: Sequence[JsonObject],
    cluster: int | None = None,
    key: str | None = None,
) -> Call[int]:
    """Submit jobs as one cluster; without ``common``, add jobs to that cluster. Returns the cluster's id.

    If an earlier submission of the first job's Owner has this ``key``, submit nothing; return its cluster.
    """
    return value_of("submit_ads", {**given(locals()), "procs": jsonb(list(procs))})


def note_submission(*, owner: str, key: str, cluster: int) -> Call[None]:
    """Record the key of a submission, by which it can be found; JobStateConflict if the key is used."""
    return done("note_submission", given(locals()))


def submitted_as(*, owner: str, key: str) -> Call[int | None]:
    """The cluster that was submitted under a key, or None."""
    return value_of("submitted_as", given(locals()))


def begin_submission(*, owner: str, key: str) -> Call[Submission]:
    """The cluster that was submitted under a key, or the id of a new one."""
    return one_of(Submission, "begin_submission", given(locals()))


def submit_noted(
    *, owner: str, key: str, common: JsonObject, procs: Sequence[JsonObject], cluster: int
) -> Call[int]:
    """``note_submission`` and ``submit_ads`` in one transaction; its time, in seconds since 1970."""
    return value_of("submit_noted", {**given(locals()), "procs": jsonb(list(procs))})


def hold(
    *, jobs: Sequence[str], reason: str | None = None, subcode: int = 0, gone_ok: bool = False
) -> Call[int]:
    """Hold jobs, given as "42.0" or "42" for a cluster; returns the number of jobs held.

    With ``gone_ok``, here and below, jobs that are not in the queue are skipped.
    """
    return value_of("hold", {**_about(jobs, reason, gone_ok), "subcode": subcode})


def release(*, jobs: Sequence[str], reason: str | None = None, gone_ok: bool = False) -> Call[int]:
    """Release held jobs; returns the number of jobs released."""
    return value_of("release", _about(jobs, reason, gone_ok))


def remove(*, jobs: Sequence[str], reason: str | None = None, gone_ok: bool = False) -> Call[int]:
    """Remove jobs; returns the number of jobs removed."""
    return value_of("remove", _about(jobs, reason, gone_ok))


def remove_now(*, jobs: Sequence[str], reason: str | None = None, gone_ok: bool = False) -> Call[int]:
    """Let removed jobs leave the queue before their processes have ended; returns the number that left."""
    return value_of("remove_now", _about(jobs, reason, gone_ok))


def vacate(*, jobs: Sequence[str], reason: str | None = None, gone_ok: bool = False) -> Call[int]:
    """End the runs of jobs, which then wait again; returns the number of runs asked to end."""
    return value_of("vacate", _about(jobs, reason, gone_ok))


def suspend(*, jobs: Sequence[str], reason: str | None = None, gone_ok: bool = False) -> Call[int]:
    """Stop running jobs; returns the number of jobs that their hosts are asked to stop."""
    return value_of("suspend", _about(jobs, reason, gone_ok))


def resume(*, jobs: Sequence[str], reason: str | None = None, gone_ok: bool = False) -> Call[int]:
    """Let suspended jobs go on; returns the number of those that their hosts are asked to let go on."""
    return value_of("continue", _about(jobs, reason, gone_ok))


def edit(*, jobs: Sequence[str], changes: JsonObject, gone_ok: bool = False) -> Call[int]:
    """Change attributes of jobs; returns the number of jobs changed."""
    return value_of("edit", given(locals()))


def _about(jobs: Sequence[str], reason: str | None, gone_ok: bool) -> dict[str, object]:
    if not isinstance(reason, str | None):
        raise TypeError(f"reason is of type {type(reason).__name__}; allowed: str, None")
    return {"jobs": list(jobs), "reason": reason, "gone_ok": gone_ok}
