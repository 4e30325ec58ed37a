"""Jobs of chains in a pool, and their runs."""

from typing import Any

from fetchwork.process import Process
from tests.condor.pool_jobs import PoolJobs
from tests.support.waiting import PATIENCE_S

#: a truthy attribute that no job of a chain has
UNCHAINED = {"IwdFlushNFSCache": True}


class ChainJobs(PoolJobs):
    """Jobs of alice, unless an ad names another Owner."""

    def submit(self, script: str, count: int = 1, **asked: Any) -> list[str]:
        """Submit a cluster of shell scripts; return its jobs' ids."""
        ad = {"Cmd": "/bin/sh", "Arguments": f"-c '{script}'", "Owner": "alice", "Iwd": "/tmp", **asked}
        rows = self.database.query(
            "SELECT job_id FROM fetchwork.submit_many(%s::jsonb[], %s)", [["{}"] * count, ad]
        )
        return [row["job_id"] for row in rows]

    def of_chains(self, jobs: list[str]) -> list[dict[str, Any]]:
        """The runs of these jobs, each job's in the order of their starts."""
        return self.database.query(
            "SELECT *, coalesce(chain, runid) AS first FROM fetchwork.runs WHERE jobid = ANY (%s)"
            " ORDER BY clusterid, procid, started_at",
            [jobs],
        )

    def started(self, job: str) -> dict[str, Any]:
        """Wait until the job runs; return its run."""
        row = self.wait(
            lambda: self.one(
                "SELECT * FROM fetchwork.runs WHERE jobid = %s AND state = 'running' AND outcome IS NULL", job
            ),
            f"job {job} running",
        )
        return dict(row)

    def second(self, script: str, **asked: Any) -> tuple[str, dict[str, Any]]:
        """Start a job that follows another one in a chain; return its id and its run."""
        self.submit("sleep 2")
        (job,) = self.submit(script, **asked)
        run = self.started(job)
        assert run["chain"] is not None
        return job, run

    def end_of(self, run: dict[str, Any]) -> dict[str, Any]:
        """Wait for the end of a run, and return it."""
        ended = "SELECT * FROM fetchwork.runs WHERE runid = %s AND outcome IS NOT NULL"
        return dict(self.wait(lambda: self.one(ended, run["runid"]), "the end of the run"))

    def starter(self, run: dict[str, Any]) -> Process:
        """The starter of a run."""
        row = self.one("SELECT starter FROM fetchwork.run WHERE run_id = %s", run["runid"])
        assert row is not None
        starter = Process.of_key(row["starter"])
        assert starter is not None
        return starter

    def processes(self, run: dict[str, Any]) -> tuple[Process, Process]:
        """Wait for the first process of a run's job; return the runner and that process."""
        starter = self.starter(run)

        def both() -> tuple[Process, Process] | None:
            (runner,) = starter.children()
            job = next((each for each in runner.children() if each.command != runner.command), None)
            return (runner, job) if job is not None else None

        found: tuple[Process, Process] = self.wait(both, "the job's process", PATIENCE_S)
        return found
