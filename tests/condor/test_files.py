"""Files travel with jobs, on real slots: what comes into the sandbox, what leaves it, and what is held why.

The cases and expectations are those of HTCondor's own tests of file transfer, written anew for jobs that are
fetched.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fetchwork.db.database import Database
from fetchwork.pool import PersonalPool
from tests.by_name import scalar
from tests.sandboxes import kept_files, submit_with_files
from tests.waiting import until


class FileJobs:
    """Jobs with sandboxes in a pool that the tests of this file share."""

    def __init__(self, pool: PersonalPool, database: Database) -> None:
        self.pool = pool
        self.database = database

    def submit(self, script: str, inputs: dict[str, bytes | str | None] | None = None, **ad: Any) -> str:
        return submit_with_files(self.pool.conninfo, inputs or {}, script=f"#!/bin/sh\n{script}\n", **ad)

    def row(self, sql: str, *params: Any) -> dict[str, Any] | None:
        rows = self.database.query(sql, params)
        return rows[0] if rows else None

    def completed(self, job: str) -> dict[str, Any]:
        return self._until(job, "SELECT * FROM fetchwork.history WHERE jobid = %s AND jobstatus = 4")

    def held(self, job: str) -> dict[str, Any]:
        return self._until(job, "SELECT * FROM fetchwork.jobs WHERE jobid = %s AND jobstatus = 5")

    def _until(self, job: str, sql: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = []

        def there() -> bool:
            found[:] = self.database.query(sql, [job])
            return bool(found)

        try:
            until(there, f"job {job}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {self.about(job)}") from None
        return found[0]

    def about(self, job: str) -> object:
        return (
            self.database.query(
                "SELECT jobstatus, holdreason, lastreason FROM fetchwork.jobs WHERE jobid = %s", [job]
            ),
            self.database.query("SELECT jobstatus FROM fetchwork.history WHERE jobid = %s", [job]),
            self.database.query("SELECT state, outcome, reason FROM fetchwork.runs WHERE jobid = %s", [job]),
        )

    def outputs(self, job: str) -> dict[str, bytes | str | None]:
        return {name: value for name, (_, value) in kept_files(self.pool.conninfo, job).items()}


@pytest.fixture(scope="session")
def file_pool(suite: str, make_pool: Callable[..., PersonalPool]) -> PersonalPool:
    """A host that shares nothing."""
    return make_pool(config="STARTER_UPDATE_INTERVAL = 2\n", host={"files": {"shared": []}})


@pytest.fixture
def jobs(file_pool: PersonalPool) -> Iterator[FileJobs]:
    with Database(file_pool.conninfo) as database:
        quick = {"max_not_started": 2, "retry_delay": 0.1, "max_retry_delay": 0.5, "black_hole_runs": 1000}
        for name, value in quick.items():
            scalar(database, "set_setting", name=name, value=value)
        yield FileJobs(file_pool, database)
        database.query("SELECT fetchwork.remove(array_agg(jobid)) FROM fetchwork.jobs HAVING count(*) > 0")


def test_inputs_come_and_what_is_new_leaves_with_the_output_and_errors(jobs: FileJobs) -> None:
    job = jobs.submit(
        "cat data.txt; echo oops >&2; tr a-z A-Z < data.txt > new.txt; mkdir d; echo x > d/y",
        {"data.txt": b"some text\n"},
    )
    done = jobs.completed(job)
    assert done["exitcode"] == 0
    assert jobs.outputs(job) == {
        "_condor_stdout": b"some text\n",
        "_condor_stderr": b"oops\n",
        "new.txt": b"SOME TEXT\n",
    }
