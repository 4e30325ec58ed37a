"""The statement that reads a page of the event stream.

The end of the readable stream and the events up to it must come from one snapshot. So this is one statement
that contains the SQL functions, not a call of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fetchwork.db.calls.call import Record

__all__ = ["EventPage", "Statement", "all_events", "of_jobs", "of_log", "page"]


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL and its parameters: a condition or a whole statement."""

    sql: str
    params: Sequence[object] = ()


@dataclass(frozen=True, slots=True)
class EventPage(Record):
    """Events after a cursor, and the readable window; see ``reading.EventWindow``."""

    kept_batch: int
    kept_id: int
    until_batch: int
    until_id: int
    more: bool
    ahead: bool
    #: a line for each event, its columns separated by tabs
    lines: str | None


def all_events() -> Statement:
    """The condition for the events of all jobs."""
    return Statement("true")


def of_log(path: str) -> Statement:
    """The condition for the events of the jobs whose UserLog is ``path``."""
    return Statement(
        """
        clusterid IN (SELECT fetchwork.log_clusters(%s))
        AND fetchwork.is_log_of(%s, clusterid, procid)
        """,
        [path, path],
    )


def known_logs(paths: Sequence[str]) -> Statement:
    """The statement for the paths among ``paths`` that are the UserLog of a job: ``path``."""
    return Statement(
        """
        SELECT named.path
        FROM unnest(%s::text[]) AS named (path)
        WHERE EXISTS (SELECT FROM fetchwork.log_clusters(named.path))
        """,
        [list(paths)],
    )


def of_jobs(clusters: Sequence[int], jobs: Sequence[tuple[int, int]]) -> Statement:
    """The condition for the events of whole clusters, and of single jobs."""
    if not jobs:
        return Statement("clusterid = ANY(%s)", [list(clusters)])
    job_clusters, procs = [cluster for cluster, _ in jobs], [proc for _, proc in jobs]
    # the first condition alone can use an index
    return Statement(
        """
        clusterid = ANY(%s)
        AND (
            clusterid = ANY(%s)
            OR (clusterid, procid) IN (SELECT c, p FROM unnest(%s::integer[], %s::integer[]) AS named (c, p))
        )
        """,
        [[*clusters, *job_clusters], list(clusters), job_clusters, procs],
    )


def page(condition: Statement, *, after_batch: int, after_id: int, most: int | None) -> Statement:
    """The statement for an ``EventPage`` of the events that fulfil a condition.

    The events come as one text: as rows they would cost the driver several times as much.

    Events of some jobs from the beginning are found by job. If asked by position, PostgreSQL would
    read the whole stream's index, because it estimates a third of the real cost.
    """
    position = [after_batch, after_id]
    by_job = after_batch == 0 and condition != all_events()
    # NOT keeps the planner from using the index of positions
    between = (
        "NOT (e.batch, e.eventid) > (w.until_batch, w.until_id)"
        if by_job
        else "(e.batch, e.eventid) > (%s, %s) AND (e.batch, e.eventid) <= (w.until_batch, w.until_id)"
    )
    return Statement(
        f"""
        SELECT w.kept_batch, w.kept_id, w.until_batch, w.until_id, w.more, w.ahead, (
            SELECT string_agg(
                concat_ws(
                    E'\\t', e.batch, e.eventid, e.eventtypenumber, e.clusterid, e.procid,
                    coalesce(e.runid, -1), extract(epoch FROM e.event_at), e.info
                ),
                E'\\n'
                ORDER BY e.batch, e.eventid
            )
            FROM fetchwork.events AS e
            WHERE e.batch IS NOT NULL
                AND {between}
                AND {condition.sql}
        ) AS lines
        FROM fetchwork.event_window(%s, %s, %s::integer) AS w
        """,  # noqa: S608 - one of the conditions above
        [*(() if by_job else position), *condition.params, *position, most],
    )
