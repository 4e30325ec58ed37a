"""Jobs with sandboxes, in a pool whose host shares no files."""

from typing import Any

from fetchwork.agent.client import status
from fetchwork.errors import FetchworkError
from fetchwork.pool import PersonalPool
from tests.condor.pool_jobs import PoolJobs
from tests.support.sandboxes import (
    kept_files,
    submit_with_files,
)
from tests.support.waiting import until


class FileJobs(PoolJobs):
    """Jobs with sandboxes in a pool that the tests of this file share."""

    def submit(self, script: str, inputs: dict[str, bytes | str | None] | None = None, **ad: Any) -> str:
        return submit_with_files(self.pool.conninfo, inputs or {}, script=f"#!/bin/sh\n{script}\n", **ad)

    def run(
        self, script: str, inputs: dict[str, bytes | str | None] | None = None, **ad: Any
    ) -> dict[str, bytes | str | None]:
        """The outputs of a job that has completed."""
        job = self.submit(script, inputs, **ad)
        self.completed(job)
        return self.outputs(job)

    def outputs(self, job: str) -> dict[str, bytes | str | None]:
        return {name: value for name, (_, value) in kept_files(self.pool.conninfo, job).items()}


def agent_of(pool: PersonalPool) -> int:
    """The pid of the agent, once an agent answers."""
    found: list[int] = []

    def answers() -> bool:
        try:
            found[:] = [int(status(pool.directory / "run/agent.sock")["pid"])]
        except FetchworkError:
            return False
        return True

    until(answers, "the agent")
    return found[0]
