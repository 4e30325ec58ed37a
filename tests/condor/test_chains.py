"""Chains of short jobs on real slots: one starter runs many jobs, and each is a job like any other."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fetchwork import traceparent
from fetchwork.pool import PersonalPool
from tests.condor.chain_jobs import ChainJobs
from tests.condor.compiled_hooks import compile_hooks, hook_directory
from tests.condor.file_jobs import agent_of
from tests.condor.pool_jobs import jobs_in
from tests.support.by_name import scalar

HOST = {"keyword": {"FETCHWORK": {"chain_s": 600}}, "slots": {"update_interval_s": 5}}


@pytest.fixture(scope="module")
def pool(make_pool: Callable[..., PersonalPool]) -> PersonalPool:
    pool = make_pool(slots=2, host=HOST)
    compile_hooks(hook_directory(pool))
    return pool


@pytest.fixture
def jobs(pool: PersonalPool) -> Iterator[ChainJobs]:
    with jobs_in(pool, ChainJobs) as jobs:
        yield jobs


def test_few_starters_run_many_short_jobs(jobs: ChainJobs) -> None:
    ids = jobs.submit("exit 3", 200)
    ended = [jobs.completed(job) for job in ids]
    assert {row["exitcode"] for row in ended} == {3}
    runs = jobs.of_chains(ids)
    assert len(runs) == 200
    assert Counter(run["outcome"] for run in runs) == {"completed": 200}
    starters = {run["first"] for run in runs}
    assert 1 <= len(starters) < 10
    events = jobs.database.query(
        "SELECT eventtypenumber AS type, count(*) AS n FROM fetchwork.events WHERE clusterid = %s GROUP BY 1",
        [int(ids[0].split(".")[0])],
    )
    assert {event["type"]: event["n"] for event in events if event["type"] != 6} == {0: 200, 1: 200, 5: 200}


def test_each_job_has_its_own_environment_and_an_empty_directory(jobs: ChainJobs) -> None:
    """The first job leaves a file, a process and a variable; the second one finds none of them."""
    script = (
        "env; pwd; ls -A $_CONDOR_SCRATCH_DIR; ls -A $_CONDOR_SCRATCH_DIR/..; grep SigIgn /proc/self/status;"
        " grep -i ^procid $_CONDOR_SCRATCH_DIR/.job.ad; ps -o sid= -p $$ | grep -w $$;"
        " touch $_CONDOR_SCRATCH_DIR/left $_CONDOR_SCRATCH_DIR/../beside; (setsid sleep 271 &)"
    )
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    ids = [
        jobs.submit(script, Out=f"/tmp/seen.{n}", Environment=f"OWN={n} OF_{n}=1", TraceParent=parent)[0]
        for n in range(3)
    ]
    for job in ids:
        jobs.completed(job)
    # two slots have three jobs
    runs = jobs.of_chains(ids)
    chains = [run["first"] for run in runs]
    last = max(n for n in range(3) if chains[n] in chains[:n])
    before = chains.index(chains[last])
    first, second = ((jobs.pool.directory / f"tmp/seen.{n}").read_text().splitlines() for n in (before, last))
    own = [
        {f"OWN={n}", f"OF_{n}=1", f"TRACEPARENT={traceparent.of_run(parent, ids[n], runs[n]['runid'])}"}
        for n in range(3)
    ]
    assert own[before] <= set(first)
    assert own[last] <= set(second)
    assert not {f"OF_{before}=1", "left", "beside"} & set(second)
    for seen in (first, second):
        assert {"/tmp", ".job.ad", ".machine.ad", "ProcId = 0"} <= set(seen)
        (ignored,) = (line.split()[1] for line in seen if line.startswith("SigIgn:"))
        # the C library keeps signals 32 and 33 for itself
        assert int(ignored, 16) & ~(3 << 31) == 0
        assert seen[-1].strip().isdigit(), "a session of its own"
        assert not any("FETCHWORK" in line for line in seen)
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if _reads(path) == b"sleep\x00271\x00"]


def _reads(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("act", ["remove", "hold", "vacate"])
def test_an_act_on_the_running_job_reaches_it_alone(jobs: ChainJobs, act: str) -> None:
    ids = jobs.submit("sleep 1", 2) + jobs.submit("exec sleep 600") + jobs.submit("sleep 1", 4)
    run = jobs.started(ids[2])
    time.sleep(0.5)
    scalar(jobs.database, act, jobs=[ids[2]], reason="test")
    jobs.end_of(run)
    if act == "vacate":
        jobs.started(ids[2])
        scalar(jobs.database, "remove", jobs=[ids[2]], reason="test")
    for job in ids[3:]:
        jobs.completed(job)
    if act == "hold":
        assert jobs.status(ids[2]) == 5
        scalar(jobs.database, "remove", jobs=[ids[2]], reason="test")
    # the next job runs below the same starter
    chains = {run["jobid"]: run["first"] for run in jobs.of_chains([*ids[2:], *ids[:1]])}
    assert chains[ids[2]] in {chains[job] for job in ids[3:]}


def test_a_suspended_job_goes_on_and_so_does_its_chain(jobs: ChainJobs) -> None:
    (beside,) = jobs.submit("exec sleep 600")
    jobs.started(beside)
    ids = jobs.submit("sleep 1") + jobs.submit("sleep 10; exit 7") + jobs.submit("sleep 1", 2)
    jobs.started(ids[1])
    assert scalar(jobs.database, "suspend", jobs=[ids[1]]) == 1
    jobs.wait(lambda: jobs.status(ids[1]) == 7, "the job suspended")
    time.sleep(2)
    assert [jobs.status(job) for job in ids[1:]] == [7, 1, 1]
    scalar(jobs.database, "continue", jobs=[ids[1]])
    assert jobs.completed(ids[1])["exitcode"] == 7
    for job in ids[2:]:
        jobs.completed(job)
    runs = jobs.of_chains(ids)
    assert (len(runs), len({run["first"] for run in runs})) == (4, 1)
    scalar(jobs.database, "remove", jobs=[beside], reason="test")


def test_a_killed_runner_loses_its_run_and_the_job_runs_again(jobs: ChainJobs) -> None:
    (job,) = jobs.submit("sleep 4; exit 7")
    run = jobs.started(job)
    time.sleep(1)
    row = jobs.one("SELECT starter FROM fetchwork.run WHERE run_id = %s", run["runid"])
    assert row is not None
    starter = int(row["starter"].split(":")[0])
    (runner,) = Path(f"/proc/{starter}/task/{starter}/children").read_text().split()
    assert b"runner" in Path(f"/proc/{runner}/cmdline").read_bytes()
    os.kill(int(runner), signal.SIGKILL)
    jobs.end_of(run)
    assert jobs.completed(job)["exitcode"] == 7
    assert [run["outcome"] for run in jobs.of_chains([job])] == ["lost", "completed"]


def test_a_job_that_cannot_start_is_held_and_the_chain_goes_on(jobs: ChainJobs) -> None:
    good = jobs.submit("true", 3)
    bad = jobs.submit("true", Out="/nonexistent/out") + jobs.submit("true", Cmd="/nonexistent/program")
    good += jobs.submit("true", 3)
    for job in good:
        jobs.completed(job)
    assert [jobs.held(job)["holdreasoncode"] for job in bad] == [7, 6]


def test_condor_vacate_evicts_the_job_that_runs_and_ends_the_chain(jobs: ChainJobs) -> None:
    (job,) = jobs.submit("exec sleep 600")
    run = jobs.started(job)
    time.sleep(1)
    vacated = jobs.pool.run_command(["condor_vacate"])
    assert vacated.returncode == 0, vacated.stderr
    ended = jobs.end_of(run)
    assert ended["outcome"] == "evicted"
    again = jobs.started(job)
    assert again["chain"] is None
    scalar(jobs.database, "remove", jobs=[job], reason="test")


def test_condor_vacate_fast_loses_the_run_at_once_and_the_job_runs_again(jobs: ChainJobs) -> None:
    """It kills the job, and then the runner, which must not tell this as the job's own end."""
    (job,) = jobs.submit("exec sleep 600")
    run = jobs.started(job)
    time.sleep(1)
    vacated = jobs.pool.run_command(["condor_vacate", "-fast"])
    assert vacated.returncode == 0, vacated.stderr
    assert jobs.end_of(run)["outcome"] == "lost"
    jobs.started(job)
    scalar(jobs.database, "remove", jobs=[job], reason="test")


@pytest.mark.parametrize("acts", [False, True], ids=["ends", "is held"])
def test_a_chain_outlives_its_agent(jobs: ChainJobs, acts: bool) -> None:
    """The job goes on and ends as it does, or gets the signal of an act; then the chain is over."""
    marker = f"/tmp/go-on-{time.time_ns()}"
    script = f"until test -e {marker}; do sleep 0.1; done; exit 3"
    (job,) = jobs.submit(script)
    run = jobs.started(job)
    time.sleep(1)
    before = agent_of(jobs.pool)
    os.kill(before, signal.SIGKILL)
    jobs.wait(lambda: agent_of(jobs.pool) != before, "the next agent")
    if acts:
        scalar(jobs.database, "hold", jobs=[job], reason="test")
    else:
        assert jobs.pool.run_command(["touch", marker]).returncode == 0
    ended = jobs.end_of(run)
    if acts:
        assert (ended["outcome"], jobs.status(job)) == ("held", 5)
        scalar(jobs.database, "remove", jobs=[job], reason="test")
    else:
        assert (ended["outcome"], jobs.completed(job)["exitcode"]) == ("completed", 3)


def test_a_drained_slot_ends_its_chain_and_loses_no_job(jobs: ChainJobs) -> None:
    ids = jobs.submit("sleep 0.5", 40)
    jobs.started(ids[0])
    drained = jobs.pool.run_command(["condor_drain", "-graceful", jobs.pool.host_name])
    assert drained.returncode == 0, drained.stderr

    def states() -> set[str]:
        asked = ["condor_status", "-direct", jobs.pool.host_name, "-af", "State"]
        return set(jobs.pool.run_command(asked).stdout.split())

    jobs.wait(lambda: states() == {"Drained"}, "all slots Drained")
    asked = "SELECT jobid FROM fetchwork.jobs WHERE jobid = ANY (%s)"
    left = [row["jobid"] for row in jobs.database.query(asked, [ids])]
    assert left != []
    finished = [run for run in jobs.of_chains(ids) if run["outcome"] is not None]
    assert {run["outcome"] for run in finished} <= {"completed", "evicted"}
    completed = [run for run in finished if run["outcome"] == "completed"]
    assert len(completed) + len(left) == 40
    # the last test of this pool, which stays drained
    scalar(jobs.database, "remove", jobs=left, reason="test")
