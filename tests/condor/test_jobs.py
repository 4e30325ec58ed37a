"""The life of a job on real slots, with few and with all hooks: the database's records in the end."""

import itertools
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fetchwork import traceparent
from fetchwork.agent.client import status
from fetchwork.classad.ads import parse_old
from fetchwork.classad.jsonform import to_json
from fetchwork.codes import JobStatus
from fetchwork.errors import AgentUnavailable, SubmitError
from fetchwork.pool import PersonalPool
from fetchwork.process import Process
from tests.condor.pool_jobs import PoolJobs, jobs_in
from tests.condor.watching import Tail, on_page
from tests.support.by_name import scalar
from tests.support.there import there
from tests.support.waiting import PATIENCE_S

_names = itertools.count(1)


class Jobs(PoolJobs):
    """Jobs of alice."""

    def submit(self, cmd: str = "/bin/sh", **asked: Any) -> str:
        asked.setdefault("owner", "alice")
        asked.setdefault("iwd", "/tmp")
        return str(scalar(self.database, "submit", cmd=cmd, **asked))

    @property
    def agent_has_rights(self) -> bool:
        """Whether the agent may signal jobs: it has a privileged part, or is the jobs' own account."""
        told = status(self.pool.directory / "run/agent.sock", PATIENCE_S)["rights"]
        return told == "root part" or os.geteuid() != 0


@pytest.fixture
def jobs(pool: PersonalPool) -> Iterator[Jobs]:
    with jobs_in(pool, Jobs) as jobs:
        yield jobs


# ---- ends


@pytest.mark.newest
def test_exit_code_is_on_record_with_the_slot_and_the_time_it_took(jobs: Jobs) -> None:
    job = jobs.submit(arguments="-c 'sleep 1; exit 3'")
    done = jobs.completed(job)
    assert (done["exitbysignal"], done["exitcode"], done["exitsignal"]) == (False, 3, None)
    assert done["lastremotehost"].startswith("slot")
    assert done["remotewallclocktime"] > 0.9
    [run] = jobs.runs(job)
    assert (run["outcome"], run["exitcode"]) == ("completed", 3)


def test_death_by_signal_is_on_record(jobs: Jobs) -> None:
    done = jobs.completed(jobs.submit(arguments="-c 'kill -SEGV $$'"))
    assert (done["exitbysignal"], done["exitcode"], done["exitsignal"]) == (True, None, 11)


def test_events_tell_the_whole_life(jobs: Jobs) -> None:
    job = jobs.submit("/bin/true")
    jobs.completed(job)
    cluster, proc = job.split(".")
    events = jobs.database.query(
        "SELECT eventtypenumber AS type FROM fetchwork.events"
        " WHERE clusterid = %s AND procid = %s ORDER BY eventid",
        [int(cluster), int(proc)],
    )
    # whether IMAGE_SIZE (6) comes depends on the moment of the update
    assert [event["type"] for event in events if event["type"] != 6] == [0, 1, 5]


def test_accepted_run_is_on_record_as_accepted_before_it_started(jobs: Jobs) -> None:
    job = jobs.submit("/bin/sleep", arguments="1")
    jobs.completed(job)
    [run] = jobs.runs(job)
    # REPLY_FETCH and PREPARE_JOB are not ordered; the fence also counts as an accept
    assert run["claimed_at"] <= run["accepted_at"] <= run["ended_at"]
    assert run["claimed_at"] <= run["started_at"] <= run["ended_at"]


# ---- from outside


@pytest.mark.newest
def test_vacated_job_is_idle_again_and_completes_in_a_second_run(jobs: Jobs) -> None:
    marker = f"/tmp/vacated-{next(_names)}-{time.time_ns()}"
    job = jobs.submit(arguments=f"-c 'test -e {marker} && exit 0; touch {marker}; sleep 300'")
    jobs.running(job)
    # without a name, because the pool has no collector to look it up: all slots of the host
    vacated = jobs.pool.run_command(["condor_vacate", "-fast"])
    assert vacated.returncode == 0, vacated.stderr
    done = jobs.completed(job)
    assert (done["exitcode"], done["numjobstarts"], done["numevicted"]) == (0, 2, 1)
    assert [run["outcome"] for run in jobs.runs(job)] == ["evicted", "completed"]


def test_removed_running_job_is_removed_when_its_process_is_gone(jobs: Jobs) -> None:
    job = jobs.submit("/bin/sleep", arguments="300")
    run = jobs.running(job)
    assert scalar(jobs.database, "remove", jobs=[job]) == 1
    assert jobs.status(job) == 3
    jobs.wait(lambda: jobs.runs(job)[0]["outcome"], f"the run of {job} ended")
    assert jobs.runs(job)[0]["outcome"] == "removed"
    assert jobs.one("SELECT jobid FROM fetchwork.jobs WHERE jobid = %s", job) is None
    assert jobs.status(job) == 3
    assert jobs.pool.run_command(["kill", "-0", str(run["jobpid"])]).returncode != 0


def test_held_running_job_ends_and_runs_again_after_release(jobs: Jobs) -> None:
    marker = f"/tmp/held-{next(_names)}-{time.time_ns()}"
    job = jobs.submit(arguments=f"-c 'test -e {marker} && exit 0; touch {marker}; exec sleep 300'")
    jobs.running(job)
    scalar(jobs.database, "hold", jobs=[job], reason="wait")
    assert (jobs.status(job), jobs.held(job)["holdreason"]) == (5, "wait")
    jobs.wait(lambda: jobs.runs(job)[0]["outcome"] == "held", f"the run of {job} ended")
    scalar(jobs.database, "release", jobs=[job])
    jobs.completed(job)
    assert [run["outcome"] for run in jobs.runs(job)] == ["held", "completed"]


@pytest.mark.newest
def test_job_has_the_span_of_its_run_in_its_environment(jobs: Jobs) -> None:
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    given: list[tuple[dict[str, str], str]] = [
        ({}, "of its run\n"),
        ({"Environment": "A='1 2' TRACEPARENT=old"}, "of its run\n1 2\n"),
        ({"Env": "A=1 2;B=3"}, "of its run\n1 2\n"),
        # only a starter evaluates it
        ({"Environment": '/Expr(strcat("A=", "1"))/'}, "1\n"),
    ]
    script = "-c 'printenv TRACEPARENT; printenv A; exit 0'"
    outs = [f"/tmp/trace-{next(_names)}" for _ in given]
    ids = [
        jobs.submit(arguments=script, output=out, ad={**ad, "TraceParent": parent})
        for out, (ad, _) in zip(outs, given, strict=True)
    ]
    for job, out, (_, seen) in zip(ids, outs, given, strict=True):
        jobs.completed(job)
        (run,) = jobs.runs(job)
        span = traceparent.of_run(parent, job, run["runid"])
        assert jobs.pool.run_command(["cat", out]).stdout.replace(span, "of its run") == seen


def test_job_runs_in_its_remote_initialdir_with_its_files_relative_to_its_own(jobs: Jobs) -> None:
    job = jobs.submit(
        arguments="-c 'pwd; printenv _CONDOR_JOB_IWD'",
        ad={"RemoteIwd": "/usr/share", "Out": f"iwd-{next(_names)}"},
    )
    done = jobs.completed(job)
    assert done["exitcode"] == 0
    out = there(jobs.one("SELECT ad ->> 'Out' AS out FROM fetchwork.history WHERE jobid = %s", job))
    assert jobs.pool.run_command(["cat", f"/tmp/{out['out']}"]).stdout == "/usr/share\n/usr/share\n"


def test_removed_job_leaves_at_once_with_forcex_and_its_process_soon(jobs: Jobs) -> None:
    job = jobs.submit(arguments="-c 'trap : TERM; while :; do sleep 0.05; done'")
    run = jobs.running(job)
    scalar(jobs.database, "remove", jobs=[job])
    assert jobs.one("SELECT jobid FROM fetchwork.jobs WHERE jobid = %s", job) is not None
    assert scalar(jobs.database, "remove_now", jobs=[job]) == 1
    assert jobs.one("SELECT jobid FROM fetchwork.jobs WHERE jobid = %s", job) is None
    alive = ["kill", "-0", str(run["jobpid"])]
    jobs.wait(lambda: jobs.pool.run_command(alive).returncode != 0, f"the process of {job} gone")


def test_agent_whose_root_part_was_killed_is_started_again_with_one_and_loses_no_job(jobs: Jobs) -> None:
    socket = jobs.pool.directory / "run/agent.sock"
    if status(socket, PATIENCE_S)["rights"] != "root part":
        pytest.skip("no agent that has a part that keeps root")
    marker = f"/tmp/go-on-{next(_names)}-{time.time_ns()}"
    job = jobs.submit(arguments=f"-c 'while test ! -e {marker}; do sleep 0.1; done; exit 3'")
    jobs.running(job)
    before = status(socket, PATIENCE_S)["pid"]
    agent = there(Process.find(before))
    assert agent.owner != 0
    [part] = [child for child in agent.children() if child.owner == 0]
    part.signal(signal.SIGKILL)
    jobs.wait(lambda: not agent.alive, "the agent's end")

    def another() -> bool:
        try:
            told = status(socket)
        except AgentUnavailable:
            return False
        return told["pid"] != before and told["rights"] == "root part"

    jobs.wait(another, "the next agent")
    assert jobs.pool.run_command(["touch", marker]).returncode == 0
    done = jobs.completed(job)
    assert (done["exitcode"], done["numjobstarts"]) == (3, 1)


def test_output_of_a_running_job_is_followed_by_command_and_page(jobs: Jobs, tmp_path: Path) -> None:
    if not jobs.agent_has_rights:
        pytest.skip("no agent that may read what jobs write")
    name = f"/tmp/followed-{next(_names)}-{time.time_ns()}"
    words = f"echo begun; echo why >&2; until test -e {name}.end; do sleep 0.1; done; echo over"
    files = {"Out": f"{name}.out", "Err": f"{name}.err"}
    job = jobs.submit(arguments=f"-c '{words}'", ad=json.dumps(files))
    jobs.running(job)
    # the agent is another account, and only the job's account can read the files
    private = [f"{name}.out", f"{name}.err"]
    assert jobs.pool.run_command(["chmod", "600", *private]).returncode == 0
    tail = Tail(jobs.pool, job, tmp_path)
    try:
        jobs.wait(lambda: tail.said == ("begun\n", "why\n"), f"what job {job} has written until now")
        text, told = on_page(jobs.pool, job)
        assert "begun\n</pre>" in text
        assert told["problem"] is None
        assert [piece[0::2] for piece in told["pieces"]] == [[1, "begun\n"], [2, "why\n"]]
        assert jobs.pool.run_command(["touch", f"{name}.end"]).returncode == 0
        assert tail.process.wait(PATIENCE_S) == 0
        # its last output, too
        assert tail.said == ("begun\nover\n", "why\n")
    finally:
        tail.end()
    jobs.completed(job)


# writes the name of each signal that it gets, and goes on
TELLING = (
    '-c \'for name in TERM USR1 USR2 HUP; do trap "echo $name >>{file}" $name; done;'
    " echo ready >>{file}; while :; do sleep 0.05; done'"
)


@pytest.mark.parametrize(("asked", "heard"), [("vacate", "USR1"), ("remove", "USR2"), ("hold", "HUP")])
def test_job_gets_the_signal_that_it_asked_for_and_is_killed_when_its_time_is_over(
    jobs: Jobs, asked: str, heard: str
) -> None:
    file = jobs.pool.directory / "tmp" / f"heard-{next(_names)}-{time.time_ns()}"
    signals = {"KillSig": "SIGUSR1", "RemoveKillSig": "SIGUSR2", "HoldKillSig": "SIGHUP"}
    job = jobs.submit(
        arguments=TELLING.format(file=f"/tmp/{file.name}"), ad=json.dumps({**signals, "JobMaxVacateTime": 3})
    )
    run = jobs.running(job)
    jobs.wait(file.exists, f"job {job} at its traps")
    scalar(jobs.database, asked, jobs=[job])
    jobs.wait(lambda: jobs.runs(job)[0]["outcome"], f"the run of {job} ended")
    assert file.read_text().split()[:2] == ["ready", heard]
    assert jobs.pool.run_command(["kill", "-0", str(run["jobpid"])]).returncode != 0
    if asked != "remove":
        scalar(jobs.database, "remove", jobs=[job])
    if jobs.agent_has_rights:
        # once, though the agent polls several times; the job may have begun again in the meantime
        assert file.read_text().split().count(heard) == 1


# writes a line ten times a second
COUNTING = "-c 'until [ -e {file}.stop ]; do echo line >>{file}; sleep 0.1; done; exit 3'"


@pytest.mark.newest
def test_a_suspended_job_stands_still_and_goes_on(jobs: Jobs) -> None:
    file = jobs.pool.directory / "tmp" / f"lines-{next(_names)}-{time.time_ns()}"
    job = jobs.submit(arguments=COUNTING.format(file=f"/tmp/{file.name}"))
    jobs.running(job)
    jobs.wait(file.exists, f"job {job} at work")
    if not jobs.agent_has_rights:
        with pytest.raises(SubmitError, match="may not signal jobs"):
            scalar(jobs.database, "suspend", jobs=[job])
        return
    assert scalar(jobs.database, "suspend", jobs=[job]) == 1
    jobs.wait(lambda: jobs.status(job) == JobStatus.SUSPENDED, f"job {job} suspended")
    lines = file.read_text()
    time.sleep(1)
    assert file.read_text() == lines
    assert scalar(jobs.database, "continue", jobs=[job]) == 1
    jobs.wait(lambda: file.read_text() != lines, f"job {job} at work again")
    file.with_name(f"{file.name}.stop").touch()
    assert jobs.completed(job)["exitcode"] == 3
    told = "SELECT eventtypenumber AS type FROM fetchwork.events WHERE clusterid = %s ORDER BY eventid"
    events = [event["type"] for event in jobs.database.query(told, [int(job.split(".")[0])])]
    assert [event for event in events if event != 6] == [0, 1, 10, 11, 5]


def test_a_suspended_job_heeds_the_vacate_of_its_startd(jobs: Jobs) -> None:
    if not jobs.agent_has_rights:
        pytest.skip("no job is suspended here")
    job = jobs.submit("/bin/sleep", arguments="600")
    jobs.running(job)
    scalar(jobs.database, "suspend", jobs=[job])
    jobs.wait(lambda: jobs.status(job) == JobStatus.SUSPENDED, f"job {job} suspended")
    assert jobs.pool.run_command(["condor_vacate"]).returncode == 0
    # long before its time to vacate is over, which is 10 minutes
    jobs.wait(lambda: jobs.runs(job)[0]["outcome"], f"the run of {job} ended")
    assert jobs.runs(job)[0]["outcome"] == "evicted"
    scalar(jobs.database, "remove", jobs=[job])


def test_job_removed_between_claim_and_prepare_job_never_starts(jobs: Jobs) -> None:
    marker = f"/tmp/never-{next(_names)}-{time.time_ns()}"
    scalar(jobs.database, "set_queue", name="default", changes={"paused": True})
    try:
        job = jobs.submit(arguments=f"-c 'touch {marker}'")
        cluster, proc = (int(word) for word in job.split("."))
        with psycopg.connect(jobs.pool.conninfo) as other:
            # a claim does not touch the job's row, but the fence does: it has to wait here
            other.execute(
                "SELECT FROM fetchwork.job WHERE cluster_id = %s AND proc_id = %s FOR UPDATE", [cluster, proc]
            )
            scalar(jobs.database, "set_queue", name="default", changes={"paused": False})
            jobs.wait(lambda: jobs.runs(job), f"a claim of {job}")
            other.execute("SELECT fetchwork.remove(ARRAY[%s])", [job])
    finally:
        scalar(jobs.database, "set_queue", name="default", changes={"paused": False})
    jobs.wait(lambda: jobs.runs(job)[0]["outcome"], f"the run of {job} ended")
    # jobs submitted later on the same slots show that the slots went on
    for later in [jobs.submit("/bin/true") for _ in range(5)]:
        jobs.completed(later)
    [run] = jobs.runs(job)
    assert (run["outcome"], run["started_at"]) == ("withdrawn", None)
    assert jobs.status(job) == 3
    assert jobs.pool.run_command(["test", "-e", marker]).returncode == 1


# ---- jobs that cannot start

# each held as a schedd's job is: test_start_faults.py compares them
BAD_JOBS = {
    "Cmd": ({"cmd": "/no/such/program"}, "Failed to execute '/no/such/program'", 6, 2),
    "Iwd": (
        {"cmd": "/bin/true", "iwd": "/no/such"},
        "Cannot access initial working directory /no/such",
        14,
        2,
    ),
    "Out": ({"cmd": "/bin/true", "output": "/tmp"}, "Failed to open '/tmp' as standard output", 7, 21),
}


@pytest.mark.newest
def test_jobs_that_cannot_start_are_held_with_the_cause_and_the_slots_go_on(jobs: Jobs) -> None:
    made = {bad: jobs.submit(**asked) for bad, (asked, _, _, _) in BAD_JOBS.items()}
    for bad, (_, cause, code, subcode) in BAD_JOBS.items():
        held = jobs.held(made[bad])
        assert cause in held["holdreason"], bad
        assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (code, subcode), bad
        assert [run["outcome"] for run in jobs.runs(made[bad])] == ["could_not_start"], bad
    for later in [jobs.submit("/bin/true") for _ in range(5)]:
        jobs.completed(later)


def test_job_whose_owner_has_no_account_is_held_in_the_end(jobs: Jobs) -> None:
    job = jobs.submit("/bin/true", owner="nosuchaccount")
    held = jobs.held(job)
    assert "could not start 2 times" in held["holdreason"]
    assert "there is no account nosuchaccount" in held["holdreason"]
    assert held["holdreasoncode"] == 23
    assert [run["outcome"] for run in jobs.runs(job)] == ["could_not_start"] * 2


def test_wrong_universe_which_htcondor_answers_with_silence_is_held(jobs: Jobs) -> None:
    scalar(jobs.database, "set_queue", name="default", changes={"paused": True})
    try:
        job = jobs.submit("/bin/true")
        # submit refuses it; only a bug, or a manual change of the tables, could cause it
        jobs.database.query(
            "UPDATE fetchwork.job SET ad = ad || '{\"JobUniverse\": 9}' WHERE cluster_id = %s",
            [int(job.split(".")[0])],
        )
    finally:
        scalar(jobs.database, "set_queue", name="default", changes={"paused": False})
    held = jobs.held(job)
    assert "no starter reported: see StarterLog" in held["holdreason"]
    for later in [jobs.submit("/bin/true") for _ in range(5)]:
        jobs.completed(later)


# ---- the starter's instructions


def test_job_outlives_the_lease_that_its_ad_asks_for(jobs: Jobs) -> None:
    """On 23.9.6 a fetched job is killed when its claim's lease runs out; its ad sets that (seen with 6 s)."""
    job = jobs.submit("/bin/sleep", arguments="9", ad={"JobLeaseDuration": 4})
    done = jobs.completed(job)
    assert (done["exitcode"], done["numjobstarts"]) == (0, 1)


VALUES = {
    "Quotes": "say \"it\" 'twice' \\ back",
    "Newline": "one\ntwo\r\nthree\tend",
    "Looks": 'x"\nOwner = "root',
    "Unicode": "ü ß 日本 🎉",
    "Controls": "\x01\x1b[31m\x7f",
    "Big": 9223372036854775807,
    "Small": -0.125,
    "List": [1, "two", [3.5, None], {"deep": "a\nb"}],
    "Nested": {"a": 1, "b": {"c": "/Expr(a + 1)/"}},
    "Undef": None,
    "Failed": "/Expr(error)/",
    "Expression": "/Expr(TARGET.Memory * 2 > 5 && isUndefined(Foo))/",
    "Truth": True,
    "mIxEd_cAsE": "kept",
}


@pytest.mark.newest
def test_every_value_comes_back_from_a_real_starter_as_it_was_submitted(jobs: Jobs) -> None:
    path = f"/tmp/ad-{next(_names)}-{time.time_ns()}"
    job = jobs.submit(arguments=f"-c 'cp $_CONDOR_JOB_AD {path}'", ad=VALUES)
    assert jobs.completed(job)["exitcode"] == 0
    seen = parse_old(jobs.pool.run_command(["cat", path]).stdout)
    back = to_json(seen)
    assert {name: back.get(name) for name in VALUES} == VALUES
    assert back["Owner"] == "alice"


def test_ad_of_the_largest_size_that_submit_takes_runs_whole(jobs: Jobs) -> None:
    path = f"/tmp/ad-{next(_names)}-{time.time_ns()}"

    def submitted(size: int) -> str | None:
        try:
            return jobs.submit(
                arguments=f"-c 'cp $_CONDOR_JOB_AD {path}'", ad={"Padding": "x" * size, "Zz": 1}
            )
        except Exception as refused:
            assert "too large" in str(refused)
            return None

    size = next(size for size in range(65536, 0, -64) if (job := submitted(size)))
    assert job
    assert jobs.completed(job)["exitcode"] == 0
    seen = to_json(parse_old(jobs.pool.run_command(["cat", path]).stdout))
    assert (len(seen["Padding"]), seen["Zz"]) == (size, 1)
