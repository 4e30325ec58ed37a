"""A pilot with a STARTER_JOB_HOOK_KEYWORD and a PREPARE_JOB of its own: fetched jobs have both hooks."""

import re
from collections.abc import Callable
from pathlib import Path

from fetchwork import config
from fetchwork.deploy.check import Finding, check_condor
from fetchwork.deploy.condorconfig import CondorConfig
from fetchwork.pool import PersonalPool
from tests.condor.compiled_hooks import hook_directory
from tests.condor.pool_jobs import PoolJobs, jobs_in
from tests.support.by_name import scalar

EXAMPLE = Path(__file__).parents[2] / "config-examples/pilot-with-a-hook"
CONFIG = """
STARTER_JOB_HOOK_KEYWORD = PILOT
PILOT_HOOK_PREPARE_JOB = $(LOCAL_DIR)/pilot/prepare_job
include ifexist : $(LOCAL_DIR)/pilot/99-both-hooks.conf
"""
#: it leaves a file in the job's scratch directory, and changes the job
PREPARE = """#!/bin/sh
case "$(cat)" in *RefusedByThePilot*) exit 34 ;; esac
echo of-the-pilot > left
echo 'Arguments = "-c '"'cat \\$_CONDOR_SCRATCH_DIR/left > OUTPUT'"'"'
"""


def write(path: Path, text: str, mode: int = 0o755) -> None:
    path.write_text(text)
    path.chmod(mode)


def test_fetched_jobs_have_the_pilots_hook_and_ours(make_pool: Callable[..., PersonalPool]) -> None:
    pool = make_pool(slots=1, config=CONFIG)
    directory = pool.condor.directory / "pilot"
    directory.mkdir(mode=0o755)
    output = pool.directory / "tmp/output"
    write(directory / "prepare_job", PREPARE.replace("OUTPUT", "/tmp/output"))
    command = (*pool.machine.inside(None), "env", f"CONDOR_CONFIG={pool.condor.config_file}")
    asked = CondorConfig((*command, "condor_config_val"))

    def hook_findings() -> list[Finding]:
        found = check_condor(config.load(pool.host_file), asked)
        return [one for one in found if "HOOK" in one.where]

    # a job whose runs end without a report is tried until the example is there
    with jobs_in(pool, PoolJobs, max_not_started=1000, retry_delay=1, max_retry_delay=1) as jobs:

        def submit(**more: object) -> str:
            return str(scalar(jobs.database, "submit", cmd="/bin/sh", owner="alice", iwd="/tmp", **more))

        # as the pilot has it: its hook runs alone, and the job ends without a report
        (finding,) = hook_findings()
        assert "is 'PILOT': fetched jobs have its hooks, and fetchwork's PREPARE_JOB" in finding.wrong
        job = submit()
        jobs.wait(
            lambda: jobs.one("SELECT 1 AS lost FROM fetchwork.runs WHERE outcome = 'could_not_start'"),
            "a lost run",
        )
        assert output.read_text() == "of-the-pilot\n"
        # so that no run writes the file meanwhile
        scalar(jobs.database, "hold", jobs=[job])
        live = "SELECT 1 AS live FROM fetchwork.runs WHERE ended_at IS NULL"
        jobs.wait(lambda: jobs.one(live) is None, "the end of its run")
        output.unlink()

        # with the example
        for name, mode in (("prepare_both", 0o755), ("99-both-hooks.conf", 0o644)):
            text = (EXAMPLE / name).read_text()
            text = text.replace("/srv/pilot/hooks/FETCHWORK", str(hook_directory(pool)))
            write(directory / name, re.sub(r"/srv/pilot(?=/prepare)", str(directory), text), mode)
        assert hook_findings() == []
        scalar(jobs.database, "release", jobs=[job])
        jobs.completed(job)
        assert output.read_text() == "of-the-pilot\n"
        assert jobs.runs(job)[-1]["outcome"] == "completed"
        refused = submit(arguments="RefusedByThePilot")
        assert "PREPARE_JOB (prepare_both) failed" in jobs.held(refused)["holdreason"]
