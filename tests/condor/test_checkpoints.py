"""Jobs that save checkpoints, on real slots: each is saved before the job goes on, and the next run has it.

The cases of HTCondor's own tests of self-checkpointing (its test_unspecified_checkpoint, test_checkpoint_*),
written anew for jobs that are fetched, and cases that they lack: the death of each process on the way.
"""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchwork.db.database import Database
from fetchwork.pool import PersonalPool
from tests.condor.checkpoint_jobs import SAVES, Waiting, lines
from tests.condor.conftest import QUICK
from tests.condor.file_jobs import FileJobs, agent_of
from tests.condor.pool_jobs import jobs_in
from tests.support.by_name import scalar
from tests.support.sandboxes import STORE_PLUGIN, kept_files
from tests.support.waiting import until

#: counts its executions in "state"; does $1 of them before it ends, saving after each but the last
COUNT = """\
n=$(cat state 2>/dev/null || echo 0)
n=$((n + 1))
echo "execution $n"
echo $n > state
[ $n -lt 4 ] && exit 85
echo done > result
exit 3"""


class CheckpointJobs(FileJobs):
    """Jobs that save checkpoints."""

    def saved(self, job: str) -> dict[str, bytes | str | None]:
        """The files that the queue has for the job's next run."""
        return {
            name: value for name, (_, value) in kept_files(self.pool.conninfo, job, direction="spool").items()
        }

    def attributes(self, job: str) -> dict[str, Any]:
        """The job's attributes, live or ended."""
        row = self.one(
            "SELECT facts FROM fetchwork.jobs WHERE jobid = %s"
            " UNION ALL SELECT facts FROM fetchwork.history WHERE jobid = %s",
            job,
            job,
        )
        assert row is not None
        return dict(row["facts"])


@pytest.fixture(scope="module")
def checkpoint_pool(suite: str, make_pool: Callable[..., PersonalPool]) -> PersonalPool:
    """A host that shares nothing."""
    return make_pool(config=QUICK, host={"files": {"shared": []}})


@pytest.fixture
def jobs(checkpoint_pool: PersonalPool) -> Iterator[CheckpointJobs]:
    with jobs_in(checkpoint_pool, CheckpointJobs) as jobs:
        yield jobs


def test_each_checkpoint_is_saved_and_the_job_goes_on_where_it_was(jobs: CheckpointJobs) -> None:
    job = jobs.submit(COUNT, {"input": b"i"}, **SAVES)
    done = jobs.completed(job)
    assert done["exitcode"] == 3
    outputs = jobs.outputs(job)
    assert lines(outputs) == [f"execution {n}" for n in (1, 2, 3, 4)]
    assert (outputs["state"], outputs["result"]) == (b"4\n", b"done\n")
    assert set(outputs) == {"_condor_stdout", "_condor_stderr", "state", "result"}
    # 0, 1, 2
    assert jobs.attributes(job)["CheckpointNumber"] == 2
    assert jobs.one("SELECT count(*) FROM fetchwork.runs WHERE jobid = %s", job) == {"count": 1}
    until(lambda: not jobs.saved(job), "what was saved to go with the job")


def test_what_was_saved_is_there_while_the_job_goes_on_and_nothing_of_htcondor_s(
    jobs: CheckpointJobs,
) -> None:
    waiting = Waiting(jobs, "unspecified")
    assert jobs.saved(waiting.job) == {
        "state": b"1\n",
        "other": b"x\n",
        "_condor_stdout": b"first\n",
        "_condor_stderr": b"",
    }
    listed = jobs.one("SELECT * FROM fetchwork.checkpoints WHERE jobid = %s", waiting.job)
    assert listed is not None
    assert (listed["checkpointnumber"], listed["files"], listed["bytes"]) == (0, 4, 10)
    assert jobs.attributes(waiting.job)["CheckpointNumber"] == 0
    waiting.end()


def test_the_next_run_starts_from_the_last_checkpoint_and_not_from_what_came_after(
    jobs: CheckpointJobs,
) -> None:
    waiting = Waiting(
        jobs, "vacated", meanwhile="echo 2 > state; echo later", TransferCheckpoint="state", Environment="A=1"
    )
    assert set(jobs.saved(waiting.job)) == {"state", "_condor_stdout", "_condor_stderr"}
    waiting.vacate()
    assert waiting.end() == ["first", "again with 1", "later"]
    assert jobs.one("SELECT count(*) FROM fetchwork.runs WHERE jobid = %s", waiting.job) == {"count": 2}


def test_a_job_that_saves_when_it_is_told_to_end_has_that_in_its_next_run(jobs: CheckpointJobs) -> None:
    waiting = Waiting(jobs, "soft", meanwhile='trap "echo 7 > state; exit 85" TERM')
    waiting.vacate()
    assert waiting.end() == ["first", "again with 1", "again with 7"]
    assert jobs.attributes(waiting.job)["CheckpointNumber"] == 1


def test_files_of_two_evictions_are_all_there_in_the_third_run(jobs: CheckpointJobs) -> None:
    directory = jobs.pool.directory / "tmp"
    mark = directory / "evicted.mark"
    job = jobs.submit(
        f"ls; if [ ! -f one ]; then echo 1 > one; elif [ ! -f two ]; then echo 2 > two; else exit 0; fi\n"
        f"echo > {mark}; sleep 600",
        WhenToTransferOutput="ON_EXIT_OR_EVICT",
    )
    for _ in range(2):
        until(mark.exists, "the job to run")
        mark.unlink()
        scalar(jobs.database, "vacate", jobs=[job])
    jobs.completed(job)
    outputs = jobs.outputs(job)
    assert (outputs["one"], outputs["two"]) == (b"1\n", b"2\n")


def test_a_checkpoint_that_lacks_a_file_holds_the_job_as_htcondor_does(jobs: CheckpointJobs) -> None:
    held = jobs.held(jobs.submit("echo x > there; exit 85", TransferCheckpoint="there, not-there", **SAVES))
    assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (36, -1)
    assert held["holdreason"].startswith("Failed to checkpoint: reading from file")


@pytest.mark.parametrize("listed", ["s", "tree"])
def test_a_checkpoint_with_a_link_to_a_directory_holds_the_job(jobs: CheckpointJobs, listed: str) -> None:
    script = "mkdir -p d tree; echo a > d/a; ln -s d s; ln -s ../d tree/s; exit 85"
    held = jobs.held(jobs.submit(script, TransferCheckpoint=listed, **SAVES))
    assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (36, -1)
    assert "Transfer of symlinks to directories is not supported" in held["holdreason"]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_is_saved_with_its_relative_path_goes_over_the_inputs(
    jobs: CheckpointJobs, elsewhere: bool
) -> None:
    inputs: dict[str, bytes | str | None] = {"d/": None, "d/in": b"input\n", "d/kept": b"kept\n"}
    ad: dict[str, Any] = {"TransferCheckpoint": "state, d/in", "PreserveRelativePaths": True}
    if elsewhere:
        inputs["plugin"] = STORE_PLUGIN.encode()
        ad["TransferPlugins"] = "store=plugin"
        ad["CheckpointDestination"] = f"store://{jobs.pool.directory}/tmp/store.relative"
    waiting = Waiting(jobs, f"relative.{elsewhere}", "cat d/in d/kept; echo later > d/in", inputs, **ad)
    assert {"state", "d/in"} <= jobs.saved(waiting.job).keys()
    waiting.vacate()
    assert waiting.end() == ["first", "again with 1", "deep", "kept"]


def test_a_checkpoint_that_there_is_no_room_for_holds_the_job_and_the_one_before_stays(
    jobs: CheckpointJobs,
) -> None:
    scalar(jobs.database, "set_setting", name="max_job_file_bytes", value=100_000)
    try:
        job = jobs.submit(
            "if [ ! -f a ]; then echo 1 > a; exit 85; fi; head -c 200000 /dev/zero > b; exit 85", **SAVES
        )
        held = jobs.held(job)
        assert held["holdreasoncode"] == 36
        assert "max_job_file_bytes" in held["holdreason"]
        assert set(jobs.saved(job)) == {"a", "_condor_stdout", "_condor_stderr"}
    finally:
        scalar(jobs.database, "set_setting", name="max_job_file_bytes", value=68719476736)


@pytest.mark.parametrize("by_signal", [False, True])
def test_the_job_sees_nothing_of_what_saves(jobs: CheckpointJobs, by_signal: bool) -> None:
    show = (
        "env | grep -v -e _CONDOR_ -e TMP -e TEMP -e CACHEDIR -e PWD= -e STARTER_PID | sort;"
        " ulimit -a; umask;"
        ' echo "$0 $@" | sed s,.*/,,; grep -e SigIgn -e SigBlk /proc/self/status'
    )
    given: dict[str, Any] = {"Environment": "A='x y' LANG=C", "Arguments": "one 'two three'"}
    # a content of its own, as another test's job may delete a shared one at any moment
    plain = jobs.submit(f"({show}) > shown # {by_signal}", **given)
    how: dict[str, Any] = (
        {"WantFTOnCheckpoint": True, "SuccessCheckpointExitBySignal": True, "SuccessCheckpointExitSignal": 10}
        if by_signal
        else SAVES
    )
    end = "kill -USR1 $$; sleep 60" if by_signal else "exit 85"
    saving = jobs.submit(f"if [ ! -f one ]; then ({show}) > one; {end}; fi; ({show}) > shown", **given, **how)
    jobs.completed(plain)
    jobs.completed(saving)
    shown = jobs.outputs(saving)
    assert shown["shown"] == shown["one"] == jobs.outputs(plain)["shown"]


# ---- at a checkpoint_destination


class Stored(Waiting):
    """Such a job whose checkpoints go to a directory, by a plugin of its own."""

    def __init__(self, jobs: CheckpointJobs, name: str, meanwhile: str = ":") -> None:
        store = jobs.pool.directory / f"tmp/store.{name}"
        super().__init__(
            jobs,
            name,
            meanwhile,
            {"plugin": STORE_PLUGIN.encode(), "other": b"input"},
            TransferCheckpoint="state, d",
            TransferPlugins="store=plugin",
            CheckpointDestination=f"store://{store}",
        )
        row = jobs.one(
            "SELECT fetchwork.global_job_id(clusterid, procid, q_at) AS id"
            " FROM fetchwork.jobs WHERE jobid = %s",
            self.job,
        )
        assert row is not None
        self.directory = store / str(row["id"]).replace("#", "_")


def test_a_checkpoint_is_at_its_destination_as_htcondor_has_it_and_comes_from_there(
    jobs: CheckpointJobs, tmp_path: Path
) -> None:
    waiting = Stored(jobs, "whole", meanwhile="echo 2 > state; echo later")
    first = waiting.directory / "0000"
    found = {str(path.relative_to(first)): path.read_bytes() for path in first.rglob("*") if path.is_file()}
    assert found == {"state": b"1\n", "d/in": b"deep\n", "_condor_stdout": b"first\n", "_condor_stderr": b""}
    saved = jobs.saved(waiting.job)
    assert saved.keys() - found.keys() == {"_condor_checkpoint_MANIFEST.0000"}
    # HTCondor's own tool finds them whole
    manifest = saved["_condor_checkpoint_MANIFEST.0000"]
    assert isinstance(manifest, bytes)
    for function in ("validateManifestFile", "validateFilesListedIn"):
        checked = jobs.pool.run_command(
            [
                *(
                    "sh",
                    "-c",
                    'cd "$1" && cat > "$2" && condor_manifest "$3" "$2"; code=$?; rm "$2"; exit $code',
                ),
                "sh", str(first), "_condor_checkpoint_MANIFEST.0000", function,
            ],
            input=manifest.decode(),
        )  # fmt: skip
        assert checked.returncode == 0, checked
    waiting.vacate()
    assert waiting.end() == ["first", "again with 1", "later"]
    outputs = jobs.outputs(waiting.job)
    assert not [name for name in outputs if "MANIFEST" in name or "incoming" in name]
    cluster = int(waiting.job.partition(".")[0])
    left = (
        "SELECT base FROM fetchwork.stored_checkpoint AS s"
        " WHERE cluster_id = %s AND NOT fetchwork.is_stored_for_use(s)"
    )
    until(lambda: jobs.database.query(left, [cluster]), "what is there to be listed as left")


def test_an_output_destination_does_not_take_the_checkpoints(jobs: CheckpointJobs) -> None:
    store = jobs.pool.directory / "tmp/store.both"
    waiting = Waiting(
        jobs,
        "both",
        inputs={"plugin": STORE_PLUGIN.encode()},
        TransferCheckpoint="state",
        TransferPlugins="store=plugin",
        CheckpointDestination=f"store://{store}",
        TransferOutput="other",
        OutputDestination=f"store://{store}/outputs",
    )
    (there,) = store.iterdir()
    assert {str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()} == {
        "0000/state", "0000/_condor_stdout", "0000/_condor_stderr"
    }  # fmt: skip
    waiting.end()
    assert (store / "outputs/other").read_bytes() == b"x\n"
    assert lines(jobs.outputs(waiting.job)) == ["first", "again with 1"]


def test_a_checkpoint_that_can_not_be_sent_to_its_destination_holds_the_job(jobs: CheckpointJobs) -> None:
    missing = jobs.pool.directory / "tmp/store.missing"
    # a file in the place of a directory that has to be made
    missing.touch()
    job = jobs.submit(
        "echo 1 > state; exit 85",
        {"plugin": STORE_PLUGIN.encode()},
        TransferCheckpoint="state",
        TransferPlugins="store=plugin",
        CheckpointDestination=f"store://{missing}",
        **SAVES,
    )
    held = jobs.held(job)
    assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (36, -1)
    assert held["holdreason"].startswith("Failed to checkpoint: ")


def test_a_checkpoint_that_is_not_what_was_saved_is_not_used(jobs: CheckpointJobs) -> None:
    waiting = Stored(jobs, "changed")
    (waiting.directory / "0000/state").write_text("666\n")
    os.kill(starter_of(jobs, waiting.job), signal.SIGKILL)
    waiting.until_running()
    assert waiting.end() == ["first", "again with 1"]
    assert (waiting.directory / "0001/state").read_text() == "1\n"
    assert jobs.attributes(waiting.job)["CheckpointNumber"] == 1


# ---- what breaks


def starter_of(jobs: CheckpointJobs, job: str) -> int:
    row = jobs.one(
        "SELECT r.starter FROM fetchwork.run AS r"
        " WHERE fetchwork.job_id(r.cluster_id, r.proc_id) = %s AND r.state = 'running'",
        job,
    )
    assert row is not None
    return int(str(row["starter"]).partition(":")[0])


def test_a_starter_that_is_killed_costs_no_more_than_what_came_after_the_checkpoint(
    jobs: CheckpointJobs,
) -> None:
    waiting = Waiting(jobs, "killed", meanwhile="echo 2 > state")
    os.kill(starter_of(jobs, waiting.job), signal.SIGKILL)
    waiting.until_running()
    assert waiting.end() == ["first", "again with 1"]


def savers(jobs: CheckpointJobs) -> list[int]:
    """The processes that are saving a checkpoint."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            said = path.read_bytes()
        except OSError:
            continue
        if b"/checkpointed\0" in said and str(jobs.pool.directory).encode() in said:
            found.append(int(path.parent.name))
    return found


def test_a_checkpoint_waits_for_an_agent_that_is_killed_meanwhile(jobs: CheckpointJobs) -> None:
    pool = jobs.pool
    go, mark = pool.directory / "tmp/agent.go", pool.directory / "tmp/agent.mark"
    for path in (go, mark):
        path.unlink(missing_ok=True)
    job = jobs.submit(
        f"[ -f state ] && exec cat state\n"
        f"echo > {mark}; until [ -f {go} ]; do sleep 0.05; done; echo 1 > state; exit 85",
        **SAVES,
    )
    until(mark.exists, "the job to run")
    jobs.database.close()
    pool.postgres.stop("immediate")
    try:
        go.touch()
        until(lambda: savers(jobs), "the checkpoint to be saved")
        until(lambda: list((pool.directory / "run/spool.outputs").glob("*/manifest")), "it to be parked")
        os.kill(agent_of(pool), signal.SIGKILL)
        # the job does not go on before the database has the checkpoint
        assert savers(jobs)
    finally:
        pool.postgres.start()
    with Database(pool.conninfo) as database:
        again = CheckpointJobs(pool, database)
        again.completed(job)
        assert lines(again.outputs(job)) == ["1"]
        assert again.attributes(job)["CheckpointNumber"] == 0
        assert again.one("SELECT count(*) FROM fetchwork.runs WHERE jobid = %s", job) == {"count": 1}


def test_a_checkpoint_that_is_killed_half_way_is_saved_at_the_eviction_or_not_at_all(
    jobs: CheckpointJobs,
) -> None:
    waiting_mark = jobs.pool.directory / "tmp/half.mark"
    waiting_mark.unlink(missing_ok=True)
    agent = agent_of(jobs.pool)
    job = jobs.submit(
        'n=$(cat state 2>/dev/null || echo 0); echo "with $n"; [ $n = 2 ] && exit 0\n'
        f"echo $((n + 1)) > state; [ $n = 1 ] && until [ -f {waiting_mark} ]; do sleep 0.05; done; exit 85",
        **SAVES,
    )
    until(lambda: jobs.saved(job) and not savers(jobs), "the first checkpoint")
    os.kill(agent, signal.SIGSTOP)
    try:
        waiting_mark.touch()
        until(lambda: savers(jobs), "the second checkpoint to be saved")
        (saver,) = savers(jobs)
        os.kill(starter_of(jobs, job), signal.SIGKILL)
        until(lambda: not Path(f"/proc/{saver}").exists(), "it to be killed")
    finally:
        os.kill(agent, signal.SIGCONT)
    jobs.completed(job)
    # the first or the second as a whole, and no mixture
    shown = lines(jobs.outputs(job))
    assert shown in (["with 0", "with 1", "with 2"], ["with 0", "with 1", "with 1", "with 2"]) or shown == [
        "with 0",
        "with 1",
    ]
