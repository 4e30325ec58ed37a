"""The jobs of a test in a pool that many tests share, and their rows."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from fetchwork.db.database import Database
from fetchwork.pool import PersonalPool
from tests.support.by_name import scalar
from tests.support.waiting import PATIENCE_S

#: failing starts are counted in seconds, and the host must not become a black hole
QUICK_RETRIES = {"max_not_started": 2, "retry_delay": 0.1, "max_retry_delay": 0.5, "black_hole_runs": 1000}


class PoolJobs:
    """The jobs of one test in a pool."""

    def __init__(self, pool: PersonalPool, database: Database) -> None:
        self.pool = pool
        self.database = database

    def one(self, sql: str, *params: Any) -> dict[str, Any] | None:
        rows = self.database.query(sql, params)
        return rows[0] if rows else None

    def status(self, job: str) -> int:
        row = self.one(
            "SELECT jobstatus FROM fetchwork.jobs WHERE jobid = %s"
            " UNION ALL SELECT jobstatus FROM fetchwork.history WHERE jobid = %s",
            job,
            job,
        )
        assert row is not None, f"job {job} is nowhere"
        return int(row["jobstatus"])

    def wait(self, what: Callable[[], Any], describe: str, timeout_s: float = PATIENCE_S) -> Any:
        """Wait until ``what`` is true; a failure shows its last value."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            found = what()
            if found:
                return found
            time.sleep(0.05)
        shown = self.database.query("SELECT jobid, jobstatus, lastreason, holdreason FROM fetchwork.jobs")
        runs = self.database.query(
            "SELECT jobid, remotehost, state, outcome, claimed_at, accepted_at FROM fetchwork.runs"
            " WHERE jobid = ANY (%s)",
            [[row["jobid"] for row in shown]],
        )
        slots = self.database.query(
            "SELECT name, state, activity, last_fetch_at, last_answer FROM fetchwork.slots"
        )
        pytest.fail(f"{describe}: not within {timeout_s} s; the queue: {shown}; runs: {runs}; slots: {slots}")

    def completed(self, job: str) -> dict[str, Any]:
        row = self.wait(
            lambda: self.one("SELECT * FROM fetchwork.history WHERE jobid = %s AND jobstatus = 4", job),
            f"job {job} Completed",
        )
        return dict(row)

    def held(self, job: str) -> dict[str, Any]:
        row = self.wait(
            lambda: self.one("SELECT * FROM fetchwork.jobs WHERE jobid = %s AND jobstatus = 5", job),
            f"job {job} Held",
        )
        return dict(row)

    def running(self, job: str) -> dict[str, Any]:
        """Wait until the job runs and an update has reported its pid."""
        row = self.wait(
            lambda: self.one(
                "SELECT * FROM fetchwork.runs WHERE jobid = %s AND state = 'running' AND jobpid IS NOT NULL"
                " AND outcome IS NULL",
                job,
            ),
            f"job {job} Running",
        )
        return dict(row)

    def runs(self, job: str) -> list[dict[str, Any]]:
        return self.database.query("SELECT * FROM fetchwork.runs WHERE jobid = %s ORDER BY runid", [job])


Kind = TypeVar("Kind", bound=PoolJobs)


@contextmanager
def jobs_in(
    pool: PersonalPool, kind: Callable[[PersonalPool, Database], Kind], **retries: float
) -> Iterator[Kind]:
    """The jobs of one test; those that are left are removed at its end."""
    with Database(pool.conninfo) as database:
        for name, value in (QUICK_RETRIES | retries).items():
            scalar(database, "set_setting", name=name, value=value)
        yield kind(pool, database)
        # except the job that waits for its later credential, which the last test of files inspects
        database.query(
            "SELECT fetchwork.remove(array_agg(jobid)) FROM fetchwork.jobs"
            " WHERE NOT ad ? 'OAuthServicesNeeded' HAVING count(*) > 0"
        )
