"""The commands show and change jobs as documented, in the manner of HTCondor's tools, and as JSON."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg.types.json import Jsonb

from fetchwork.cli import face
from fetchwork.db import schema
from fetchwork.queue.reading.views import JOBS
from tests.queue.conftest import Run
from tests.support.direct_queue import DirectQueue


@pytest.fixture
def sleep_sub(tmp_path: Path) -> str:
    path = tmp_path / "sleep.sub"
    path.write_text("executable = /bin/sleep\narguments = $(Process)\nqueue 3\n")
    return str(path)


def test_submit_tells_the_cluster(fetchwork: Run, sleep_sub: str) -> None:
    assert fetchwork("submit", sleep_sub, "--owner", "alice").out == "3 job(s) submitted to cluster 1.\n"
    told = fetchwork(
        "submit", sleep_sub, "--owner", "bob", "--batch-name", "night", "-a", "priority = 4", "--json"
    )
    assert json.loads(told.out) == {"ClusterId": 2, "jobs": 3}
    (first, *_) = json.loads(fetchwork("q", "2", "--json").out)
    assert (first["Owner"], first["JobBatchName"], first["JobPrio"], first["Args"]) == (
        "bob",
        "night",
        4,
        "0",
    )


def test_a_dry_run_submits_nothing(fetchwork: Run, sleep_sub: str) -> None:
    ads = json.loads(fetchwork("submit", sleep_sub, "--owner", "alice", "-dry-run").out)
    assert [ad["Args"] for ad in ads] == ["0", "1", "2"]
    assert json.loads(fetchwork("q", "--json").out) == []


def test_what_no_access_point_does_is_said_once(fetchwork: Run, tmp_path: Path) -> None:
    file = tmp_path / "a.sub"
    file.write_text("executable = /bin/true\nlog = a.log\nshould_transfer_files = YES\nqueue 3\n")
    told = fetchwork("submit", str(file), "--owner", "alice")
    (line,) = told.err.splitlines()
    assert line.startswith("fetchwork: warning: no access point serves this host: event logs are written")
    assert "'fetchwork wait'" in line


def test_a_wrong_should_transfer_files_has_one_text(conninfo: str, tmp_path: Path) -> None:
    file = tmp_path / "a.sub"
    file.write_text("executable = /bin/true\nshould_transfer_files = MAYBE\nqueue\n")
    # the library for descriptions writes past Python's sys.stderr
    words = [sys.executable, "-m", "fetchwork", "--dsn", conninfo, "submit", str(file), "--owner", "alice"]
    (line,) = subprocess.run(words, capture_output=True, text=True, check=False).stderr.splitlines()
    assert "command 'should_transfer_files = MAYBE': allowed: YES, NO or IF_NEEDED" in line


@pytest.mark.parametrize("words", [("tail", "9.0"), ("runs", "9.0"), ("runs", "9")])
def test_a_job_that_is_not_there_is_said_to_be_missing(fetchwork: Run, words: tuple[str, ...]) -> None:
    told = fetchwork(*words)
    assert told.status == 1
    assert told.err.startswith(f"fetchwork: error: there is no job {words[1]}, in the queue or in history")


def test_an_expression_that_is_refused_is_quoted_as_it_was_written(
    fetchwork: Run, slots: DirectQueue
) -> None:
    told = fetchwork("edit", slots.submit(), "JobPrio=abc")
    assert told.err == 'fetchwork: error: attribute "JobPrio" is abc; allowed: an integer\n'


def test_history_is_for_those_who_may_only_read_too(
    fetchwork: Run, slots: DirectQueue, conninfo: str
) -> None:
    slots.submit()
    slots.finish(slots.started())
    slots.connection.execute("CREATE ROLE only_reads IN ROLE fetchwork_reader")
    try:
        told = fetchwork("--dsn", f"{conninfo} options='-c role=only_reads'", "history")
    finally:
        slots.connection.execute("DROP ROLE only_reads")
    assert (told.status, told.err) == (0, "")
    assert len(told.out.splitlines()) == 2


def test_an_event_that_holds_an_ad_is_json(fetchwork: Run, slots: DirectQueue) -> None:
    resources = {"Cpus": 1, "Memory": 512}
    slots.submit()
    run = slots.claim()
    assert run is not None
    slot = {"name": "slot1@h1", "cpus": 1, "memory_mib": 512, "fetched_at": 1795225768}
    slots.connection.execute("SELECT fetchwork.report_slots(%s, %s)", [slots.host(), Jsonb([slot])])
    assert slots.start(run, slot="slot1@h1") is None
    lines = fetchwork("events", "--json").out.splitlines()
    assert [json.loads(line).get("ExecuteProps") for line in lines] == [None, resources]


def test_ads_are_submitted_from_a_file(fetchwork: Run, tmp_path: Path) -> None:
    file = tmp_path / "jobs.ad"
    file.write_text('Cmd = "/bin/true"\nOwner = "alice"\n\nCmd = "/bin/false"\nOwner = "alice"\n')
    assert fetchwork("submit", str(file)).out == "2 job(s) submitted to cluster 1.\n"
    assert fetchwork("q", "-af:j", "Cmd").out == "1.0 /bin/true\n1.1 /bin/false\n"


def test_what_is_refused_is_one_line(fetchwork: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.sub"
    file.write_text("executable = /bin/true\nuniverse = docker\ndocker_image = x\nqueue\n")
    told = fetchwork("submit", str(file), "--owner", "alice")
    assert (told.status, told.out) == (1, "")
    assert told.err.count("\n") == 1
    assert "can't be honoured" in told.err
    assert fetchwork("submit", str(file), "--owner", "root").status == 1
    told = fetchwork("submit", str(tmp_path / "nowhere.sub"))
    assert told.err == f"fetchwork: error: cannot read '{tmp_path}/nowhere.sub': No such file or directory\n"


def test_q_shows_jobs_that_have_ended_and_stay_in_the_queue(fetchwork: Run, slots: DirectQueue) -> None:
    slots.submit_many([{"LeaveJobInQueue": "/Expr(JobStatus == 4)/"}] * 2)
    slots.finish(slots.started())
    total = "Total for query: 2 jobs; 1 completed, 0 removed, 1 idle, 0 running, 0 held, 0 suspended"
    lines = fetchwork("q", "-nobatch").out.splitlines()
    assert [line.split()[5] for line in lines[1:3]] == ["C", "I"]
    assert total in lines[-2]
    assert fetchwork("q", "alice", "--totals").out.split() == total.split()


def test_q_shows_batches_jobs_holds_runs_and_totals(fetchwork: Run, slots: DirectQueue) -> None:
    slots.submit_many([{"JobBatchName": "night"}] * 3)
    slots.submit_many([{"Owner": "bob", "Args": "a b"}] * 2)
    slots.finish(slots.started())
    slots.started()
    slots.act("hold", "2.1", reason="look at it")
    total = "Total for query: 4 jobs; 0 completed, 0 removed, 2 idle, 1 running, 1 held, 0 suspended"
    lines = fetchwork("q").out.splitlines()
    assert lines[0].split() == [
        "OWNER",
        "BATCH_NAME",
        "SUBMITTED",
        "DONE",
        "RUN",
        "IDLE",
        "HOLD",
        "TOTAL",
        "JOB_IDS",
    ]
    assert [lines[1].split()[at] for at in (0, 1, 4, 5, 8, 9)] == ["alice", "night", "1", "1", "3", "1.1-2"]
    assert lines[2].split()[:3] == ["bob", "ID:", "2"]
    assert total in lines[-2]
    assert fetchwork("q", "--totals").out.split() == total.split()
    assert fetchwork("q", "bob", "--totals").out.startswith("Total for query: 2 jobs;")
    assert fetchwork("q", "2.0", "-nobatch").out.splitlines()[1].endswith("true a b")
    held = fetchwork("q", "-hold").out.splitlines()
    assert held[1].split()[:2] == ["2.1", "bob"]
    assert held[1].endswith("look at it")
    assert "slot1@h1" in fetchwork("q", "-run").out
    owners = json.loads(fetchwork("q", "--by", "owner", "--json").out)
    assert [(row["owner"], row["jobs"], row["held"]) for row in owners] == [("alice", 2, 0), ("bob", 2, 1)]
    assert len(json.loads(fetchwork("q", "--by", "autocluster", "--json").out)) == 2


def test_q_shows_how_long_a_job_may_take_over_its_end(fetchwork: Run, slots: DirectQueue) -> None:
    job = slots.submit({"JobMaxVacateTime": 500, "Args": "a b"})
    run = slots.started()
    slots.act("remove", job)
    assert fetchwork("q", "-nobatch").out.splitlines()[1].endswith(" X  0    0.0 true a b")
    slots.heartbeat(run, JobPid=7)
    line = fetchwork("q", "-nobatch").out.splitlines()[1]
    found = re.search(r" X  0    0.0 \[killed in (\d+) s\] true a b$", line)
    assert found is not None, line
    assert 0 < int(found[1]) <= 500
    (ad,) = json.loads(fetchwork("q", "--json").out)
    assert isinstance(ad["FetchWorkKillDate"], int)
    slots.pass_time(900)
    assert " X  0    0.0 [killed in 0 s] true a b" in fetchwork("q", "-nobatch").out


def test_the_command_column_of_q_reads_only_attributes_of_one_spelling(slots: DirectQueue) -> None:
    # for any other attribute the server composes each job's whole ad
    spelt = {key for (key,) in slots.rows("SELECT key FROM fetchwork.attribute")}
    read = {name.lower() for name in face.description(by_dag=False).reads}
    assert read - JOBS.columns().keys() - spelt == set()


def test_autoformat_has_the_letters_of_condor_q(fetchwork: Run, slots: DirectQueue) -> None:
    slots.submit_many(
        [{"Args": "x y", "JobPrio": 2, "RequestMemory": "/Expr(4 * RequestCpus)/", "RequestCpus": 2}]
    )
    assert fetchwork("q", "-af", "Args", "JobPrio + 1", "Nowhere").out == "x y 3 undefined\n"
    assert fetchwork("q", "-af:hj", "Args", "JobPrio").out == " ID Args JobPrio\n1.0 x y  2      \n"
    assert fetchwork("q", "-af:l", "Args").out == "Args = x y\n"
    assert fetchwork("q", "-af:V,", "Args", "JobPrio").out == '"x y", 2\n'
    assert fetchwork("q", "-af:t", "RequestMemory", "JobPrio").out == "8\t2\n"
    assert fetchwork("q", "-af:r", "RequestMemory").out == "4 * RequestCpus\n"
    assert fetchwork("q", "-constraint", "JobPrio > 5", "-af", "Args").out == ""


def test_history_and_runs_show_how_jobs_ended(fetchwork: Run, slots: DirectQueue) -> None:
    slots.submit_many([{}] * 2)
    slots.finish(slots.started(), ExitCode=3, JobPid=7)
    slots.finish(slots.started(), ExitSignal=9, ExitBySignal=True, JobPid=7)
    lines = fetchwork("history").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["1.1", "1.0"]
    assert [line.split()[6] for line in lines[1:]] == ["-9", "3"]
    assert (
        fetchwork("history", "-constraint", "ExitCode == 3", "-af:j", "LastRemoteHost").out
        == "1.0 slot1@h1\n"
    )
    assert len(json.loads(fetchwork("history", "-limit", "1", "--json").out)) == 1
    runs = fetchwork("runs", "1.0").out.splitlines()
    assert runs[1].split()[0] == "1.0"
    assert "completed" in runs[1]
    slots.rows("UPDATE fetchwork.run_history SET chain = 17 WHERE proc_id = 1 RETURNING 1")
    header, line = fetchwork("runs", "1.1").out.splitlines()
    assert line[: header.index("CHAIN") + len("CHAIN")].endswith(" 17")
    (found,) = json.loads(fetchwork("runs", "-constraint", "FetchWorkChain == 17", "--json").out)
    assert (found["ProcId"], found["FetchWorkChain"]) == (1, 17)


def test_jobs_are_held_released_vacated_removed_and_edited(fetchwork: Run, slots: DirectQueue) -> None:
    slots.submit_many([{}] * 3)
    slots.started()
    assert fetchwork("hold", "1.1", "-reason", "no").out == "Job 1.1 held\n"
    assert fetchwork("release", "1").out == "All jobs in cluster 1 have been released\n"
    assert fetchwork("vacate", "alice").out == 'All jobs of user "alice" have been vacated\n'
    changed = fetchwork("edit", "1", "JobPrio", "3", "Note", '"x"').out
    assert changed == "".join(
        f'Set attribute "{name}" for 3 matching jobs.\n' for name in ("JobPrio", "Note")
    )
    assert json.loads(fetchwork("edit", "1.0", "Note=2", "--json").out) == {"changed": 1}
    told = fetchwork("rm", "1.2", "7.0", "-reason", "done with it")
    assert (told.status, told.out) == (1, "Job 1.2 marked for removal\n")
    assert told.err == "\nJob 7.0 not found\n"
    selected = "All jobs matching constraint (JobPrio == 3) have been marked for removal\n"
    assert fetchwork("rm", "-constraint", "JobPrio == 3").out == selected
    assert fetchwork("rm", "-all", "--json").status == 1


@pytest.mark.parametrize("word", ["-held", "-hold"])
def test_held_narrows_jobs_clusters_and_owners_to_those_that_are_held(
    fetchwork: Run, slots: DirectQueue, word: str
) -> None:
    slots.submit_many([{}] * 4)
    fetchwork("hold", "1.1", "1.2")
    told = fetchwork("rm", word, "1.0", "1.1", "--json")
    assert [row["changed"] for row in json.loads(told.out)] == [0, 1]
    assert told.status == 1
    assert fetchwork("rm", word, "1").out == "All held jobs in cluster 1 have been marked for removal\n"
    assert fetchwork("q", "-af", "ProcId").out == "0\n3\n"
    assert fetchwork("release", word).status == 1
    fetchwork("hold", "1.3")
    assert fetchwork("release", word, "alice").out == 'All held jobs of user "alice" have been released\n'
    assert fetchwork("q", "-af", "JobStatus").out == "1\n1\n"


def test_each_of_several_targets_counts_for_itself(fetchwork: Run, slots: DirectQueue) -> None:
    slots.submit_many([{}] * 2)
    slots.started()
    told = fetchwork("rm", "1", "2", "--json")
    assert told.status == 1
    found = [{"jobs": "jobs in cluster 1", "changed": 2, "not_found": 0, "unchanged": 0}]
    found += [{"jobs": "jobs in cluster 2", "changed": 0, "not_found": 0, "unchanged": 0}]
    assert [{**row, "not_found": 0} for row in json.loads(told.out)] == found
    # the one that runs leaves at once
    assert fetchwork("q", "-af", "JobStatus").out == "3\n"
    assert fetchwork("rm", "1.0", "-forcex").status == 0
    assert fetchwork("q", "-af", "JobStatus").out == ""


def test_slots_submitters_priorities_queues_and_limits(fetchwork: Run, slots: DirectQueue) -> None:
    slots.submit()
    slots.started()
    slots.connection.execute(
        'SELECT fetchwork.report_slots(1, \'[{"name": "slot1@h1", "state": "Claimed", "activity": "Busy",'
        ' "cpus": 1, "memory_mib": 512, "fetched_at": 1795225768, "last_answer": "offered"}]\')'
    )
    (slot,) = json.loads(fetchwork("slots", "--json").out)
    assert (slot["Name"], slot["JobId"], slot["RemoteOwner"]) == ("slot1@h1", "1.0", "alice")
    assert "slot1@h1" in fetchwork("slots", "h1").out
    assert json.loads(fetchwork("slots", "--hosts", "--json").out)[0]["Machine"] == "h1"
    told = fetchwork("prio", "alice", "--factor", "5", "--max-running", "3").out.split()
    assert [told[at] for at in (-6, -4, -2)] == ["alice", "5", "3"]
    (submitter,) = json.loads(fetchwork("submitters", "--json").out)
    assert (submitter["Name"], submitter["RunningJobs"], submitter["MaxRunning"]) == ("alice", 1, 3)
    assert fetchwork("limit", "license", "20").out.split()[-4:] == ["license", "limit", "20", "0"]
    assert json.loads(fetchwork("limit", "--json").out)[0]["Name"] == "license"
    assert "license" not in fetchwork("limit", "license", "none").out
    assert fetchwork("slots", "-constraint", 'State == "Unclaimed"').out.endswith("\n0 slots, 0 with a job\n")
    assert fetchwork("queues", "urgent", "--pause", "--max-running", "9").out.splitlines()[1].split()[:2] == [
        "urgent",
        "paused",
    ]
    assert {ad["Name"] for ad in json.loads(fetchwork("queues", "--json").out)} == {"default", "urgent"}


def test_a_submitter_s_ceilings_are_set_shown_met_and_removed(
    fetchwork: Run, slots: DirectQueue, tmp_path: Path
) -> None:
    fetchwork("prio", "alice", "--max-idle", "2", "--max-autoclusters", "1")
    (submitter,) = json.loads(fetchwork("submitters", "--json").out)
    assert (submitter["MaxIdle"], submitter["MaxAutoclusters"]) == (2, 1)
    heading, line = fetchwork("submitters").out.splitlines()
    assert heading.split()[-3:] == ["MAX_IDLE", "MAX_AUTOCLUSTERS", "USAGE_HOURS"]
    assert line.split()[-3:-1] == ["2", "1"]
    file = tmp_path / "a.sub"
    file.write_text("executable = /bin/true\nrequest_memory = 1\nqueue 2\n")
    assert fetchwork("submit", str(file), "--owner", "alice").status == 0
    told = fetchwork("submit", str(file), "--owner", "alice")
    assert (told.status, told.out) == (1, "")
    assert told.err == (
        "fetchwork: error: submitter 'alice' would have 4 idle jobs in the queue; allowed: 2 (max_idle of"
        " this submitter; an administrator may raise it)\n"
    )
    fetchwork("prio", "alice", "--max-idle", "0")
    file.write_text(file.read_text().replace("= 1", "= 2"))
    told = fetchwork("submit", str(file), "--owner", "alice")
    refusal = (
        "submitter 'alice' would have 2 autoclusters in the queue; allowed: 1 (max_autoclusters of this"
        " submitter; an administrator may raise it)\n"
    )
    assert (told.status, told.err) == (1, f"fetchwork: error: {refusal}")
    told = fetchwork("edit", "1.0", "RequestMemory", "2")
    assert told.status == 1
    assert refusal in told.err and told.err.count("\n") == 1
    fetchwork("prio", "alice", "--max-idle", "none", "--max-autoclusters", "none")
    assert "MaxIdle" not in json.loads(fetchwork("submitters", "--json").out)[0]
    assert fetchwork("edit", "1.0", "RequestMemory", "2").status == 0
    assert fetchwork("db", "setting", "max_idle_per_submitter", "2").status == 0
    assert "(setting max_idle_per_submitter; " in fetchwork("submit", str(file), "--owner", "alice").err


def test_limits_on_starts_are_set_shown_and_removed(fetchwork: Run) -> None:
    assert fetchwork("limit", "DB", "--starts", "10/1s").out.split()[-4:] == ["db", "limit", "10/1s", "0"]
    assert "500/90s" in fetchwork("limit", "DB", "7", "--starts", "500/1.5m").out
    assert "3/86400s" in fetchwork("limit", "default", "--queue", "--starts", "3/d").out
    assert "1/0.25s" in fetchwork("limit", "alice", "--owner", "--starts", "1/0.25s").out
    assert "2/1s" in fetchwork("limit", "Physics", "--group", "--starts", "2/s").out
    ads = [
        (ad["Scope"], ad["Name"], ad.get("Maximum"), ad.get("MaxStarts"), ad.get("StartsSeconds"))
        for ad in json.loads(fetchwork("limit", "--json").out)
    ]
    assert sorted(ads, key=str) == [
        ("group", "physics", None, 2, 1.0),
        ("limit", "db", 7.0, None, None),
        ("limit", "db", None, 500, 90.0),
        ("owner", "alice", None, 1, 0.25),
        ("queue", "default", None, 3, 86400.0),
    ]
    assert fetchwork("limit", "alice", "--owner", "--starts", "none").out.split()[-1] == "STARTED"
    assert "500" not in fetchwork("limit", "db", "--starts", "none").out
    assert "db" in fetchwork("limit").out


def test_the_database_is_looked_after(fetchwork: Run) -> None:
    status = fetchwork("db", "status").out
    assert status == (
        f"database 'kept' on 127.0.0.1, role postgres: schema version {schema.latest()}: up to date\n"
    )
    assert json.loads(fetchwork("db", "status", "--json").out)["pending"] == []
    assert "nothing to migrate" in fetchwork("db", "upgrade").out
    assert fetchwork("db", "maintain").status == 0
    assert fetchwork("db", "setting", "max_not_started", "5").out.split()[4:6] == ["max_not_started", "5"]
    assert fetchwork("db", "setting", "nonsense").status == 1
    assert Path(fetchwork("db", "sql").out.strip(), "install.sql").exists()


@pytest.mark.parametrize(
    "words", ["q", "q --totals", "q 1.0 -af JobStatus Args", "q 1 -nobatch", "q 1.0 1.1 -hold", "history"]
)
def test_a_plain_question_imports_only_what_it_needs(slots: DirectQueue, conninfo: str, words: str) -> None:
    """HTCondor's bindings alone cost 40 ms."""
    slots.submit_many([{"Args": "x y"}] * 2)
    program = (
        "import sys; from fetchwork import cli; status = cli.run(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words.split()],
        capture_output=True,
        text=True,
        env={**os.environ, "FETCHWORK_DSN": conninfo},
    )
    assert done.returncode == 0
    not_needed = {
        "classad2",
        "htcondor",
        "htcondor2",
        "rich",
        "pydantic",
        "jinja2",
        "fetchwork.queue.submitting.descriptions",
    }
    assert not not_needed & set(done.stderr.split())
    assert done.stdout


def test_autoformat_evaluates_only_where_it_must_and_prints_the_same(
    fetchwork: Run, slots: DirectQueue
) -> None:
    slots.submit_many(
        [
            {
                "A": 1.5,
                "B": True,
                "C": 'q"',
                "D": "/Expr(A + 1)/",
                "E": [1, 2],
                "F": "/Expr(undefined)/",
                "G": None,
            }
        ]
    )
    for letters in ("", ":V", ":l", ":j", ":t"):
        for name in ("A", "B", "C", "JobStatus", "ClusterId", "Nowhere", "F"):
            # brackets turn it into an expression, which HTCondor evaluates
            plain = fetchwork("q", f"-af{letters}", name).out
            evaluated = fetchwork("q", f"-af{letters}", f"({name})").out
            assert plain == evaluated.replace(f"({name}) =", f"{name} ="), (letters, name)
    assert fetchwork("q", "-af", "a", "D", "E[1]", "true", "MyType").out == "1.5 2.5 2 true Job\n"


def test_checkpoints_are_listed_while_their_job_is_in_the_queue(fetchwork: Run, slots: DirectQueue) -> None:
    slots.submit(Owner="alice", WantFTOnCheckpoint=True)
    run = slots.started()
    assert json.loads(fetchwork("checkpoints", "--json").out) == []
    sha256 = hashlib.sha256(b"state").hexdigest()
    (begun,) = slots.call(
        "begin_content", owner=None, run_id=run.run_id, token=run.token, sha256=sha256, size=5
    )
    slots.of(run, "put_chunk", content_id=begun["content_id"], n=0, data=b"state")
    manifest = Jsonb([{"name": "state", "mode": 420, "size": 5, "sha256": sha256}])
    assert slots.of(run, "keep_outputs", manifest=manifest, spool=True, checkpoint=3) == "kept"
    heading, line = fetchwork("checkpoints", run.job).out.splitlines()
    assert heading.split() == ["JOB", "OWNER", "RUN", "NUMBER", "SAVED", "FILES", "BYTES"]
    assert line.split()[:4] == [run.job, "alice", str(run.run_id), "3"]
    assert line.split()[-2:] == ["1", "5"]
    assert json.loads(fetchwork("checkpoints", "-constraint", "Bytes > 5", "--json").out) == []
    assert fetchwork("q", run.job, "-af", "CheckpointNumber").out == "3\n"
    slots.finish(run)
    assert json.loads(fetchwork("checkpoints", "--json").out) == []


def test_a_dry_run_refuses_what_submit_refuses(fetchwork: Run, tmp_path: Path) -> None:
    for line in (
        "universe = docker\ndocker_image = x",
        "want_io_proxy = true",
    ):
        (tmp_path / "a.sub").write_text(f"executable = /bin/true\n{line}\nqueue\n")
        told = fetchwork("submit", str(tmp_path / "a.sub"), "-dry-run")
        assert told.status == 1, line
        assert "can't be honoured" in told.err
    (tmp_path / "a.sub").write_text("executable = /bin/true\nqueue 2\n")
    told = fetchwork("submit", str(tmp_path / "a.sub"), "-dry-run", "--owner", "alice")
    assert (told.status, told.err) == (0, "")
    assert len(json.loads(told.out)) == 2
    assert json.loads(fetchwork("q", "-json").out) == []


def test_a_command_that_is_right_prints_no_error(conninfo: str, tmp_path: Path) -> None:
    (tmp_path / "a.sub").write_text(
        "executable = /bin/true\nshould_transfer_files = IF_NEEDED\n"
        "when_to_transfer_output = ON_EXIT\nqueue\n"
    )
    # in a process of its own, because HTCondor's code would print
    told = subprocess.run(
        [sys.executable, "-m", "fetchwork", "submit", str(tmp_path / "a.sub"), "--owner", "alice"],
        env={**os.environ, "FETCHWORK_DSN": conninfo},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ERROR" not in told.stderr


def test_submit_says_what_writes_the_event_log(fetchwork: Run, tmp_path: Path) -> None:
    (tmp_path / "a.sub").write_text("executable = /bin/true\nlog = a.log\nqueue\n")
    assert "fetchwork userlog" in fetchwork("submit", str(tmp_path / "a.sub"), "--owner", "alice").err


def test_wait_tells_of_held_jobs(fetchwork: Run, slots: DirectQueue) -> None:
    slots.submit_many([{}, {"JobStatus": 5}])
    told = fetchwork("wait", "1", "--timeout", "0.3")
    assert "1 of 2 jobs are held: submitted on hold at user's request; " in told.err
    assert "fetchwork q -hold" in told.err


def test_a_grant_says_what_the_role_lacks(fetchwork: Run, slots: DirectQueue) -> None:
    slots.connection.execute('CREATE ROLE "some-one"')
    try:
        told = fetchwork("db", "grant", "some-one", "alice")
        assert 'GRANT fetchwork_submitter TO "some-one";' in told.err
        slots.connection.execute('GRANT fetchwork_submitter TO "some-one"')
        assert fetchwork("db", "grant", "some-one", "bob").err == ""
    finally:
        slots.connection.execute('DROP ROLE "some-one"')


@pytest.mark.parametrize("option", ["-lang", "-xyz", "--no-such", "-dagman"])
def test_an_unknown_option_is_named_as_it_was_typed_with_those_that_there_are(
    fetchwork: Run, option: str
) -> None:
    told = fetchwork("q", option)
    assert told.status == 2
    assert f"unrecognized argument {option}" in told.err
    told = fetchwork("runs", option)
    assert told.status == 2
    assert f"no such option '{option}'; allowed: " in told.err
    assert "-constraint" in told.err


def test_a_database_without_the_schema_says_what_makes_it(fetchwork: Run, conninfo: str) -> None:
    told = fetchwork("--dsn", psycopg.conninfo.make_conninfo(conninfo, dbname="template1"), "q")
    assert told.status == 1
    assert "fetchwork db init" in told.err


def _timeless(text: str) -> str:
    """The output without the second of its time."""
    return re.sub(r"^ServerTime = .*$", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("q -cons true -nob", "q -constraint true -nobatch"),
        ("q -tot", "q -totals"),
        ("q -nob -r", "q -nobatch -run"),
        ("q -lim 1", "q -limit 1"),
        ("q -l", "q -long"),
        ("history -lon", "history --long"),
        ("rm -cons false", "rm -constraint false"),
    ],
)
def test_an_option_may_be_abbreviated_as_in_htcondors_tools(
    fetchwork: Run, slots: DirectQueue, words: str, same: str
) -> None:
    slots.submit_many([{}, {}])
    slots.act("remove", "1.0")
    short, whole = fetchwork(*words.split()), fetchwork(*same.split())
    assert (short.status, _timeless(short.out), short.err) == (whole.status, _timeless(whole.out), whole.err)
    assert "option" not in short.err


@pytest.mark.parametrize("view", ["q", "history"])
def test_long_prints_whole_ads_of_old_syntax(fetchwork: Run, slots: DirectQueue, view: str) -> None:
    slots.submit_many([{"Foo": 'a"b'}, {"Requirements": "/Expr(Memory > 4)/"}])
    if view == "history":
        slots.act("remove", "1.0", "1.1")
    told = fetchwork(view, "-long", "-constraint", "Foo isnt undefined").out
    lines = told.splitlines()
    assert r'Foo = "a\"b"' in lines and 'Owner = "alice"' in lines and "ProcId = 0" in lines
    assert lines[-1] == "" and lines[:-1] == sorted(lines[:-1], key=str.lower)
    assert told.count("\n\n") == 1
    assert fetchwork(view, "-long").out.count("\nClusterId = 1\n") == 2
    assert "Requirements = Memory > 4" in fetchwork(view, "-l").out


def test_edit_takes_an_assignment(fetchwork: Run, slots: DirectQueue) -> None:
    slots.submit_many([{}])
    assert fetchwork("edit", "1.0", "JobPrio=7", 'Foo = "a = b"', "Bar", "x==y").out == (
        "".join(f'Set attribute "{name}" for 1 matching jobs.\n' for name in ("Bar", "Foo", "JobPrio"))
    )
    assert fetchwork("q", "-af:r", "JobPrio", "Foo", "Bar").out == '7 "a = b" x == y\n'
    assert "expression required after attribute JobPrio" in fetchwork("edit", "1.0", "Foo=1", "JobPrio").err


def test_a_wrong_connection_string_is_told_as_such(fetchwork: Run) -> None:
    for words in (
        ("--dsn", "hots=db.example.org", "q"),
        ("-dsn", "hots=x", "history"),
        ("q", "--dsn", "hots=x"),
    ):
        told = fetchwork(*words)
        assert told.status == 1
        assert 'the connection string is wrong: invalid connection option "hots"; allowed: ' in told.err


def test_who_names_no_database_is_told_how_to(fetchwork: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("PG", "FETCHWORK_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PGHOST", "/no/such/directory")
    assert "no database is named" not in fetchwork("q").err
    monkeypatch.delenv("PGHOST")
    told = fetchwork("q")
    # no server listens where libpq connects, or it is another database
    assert told.status == 1
    assert "does not answer" not in told.err or "give --dsn, FETCHWORK_DSN" in told.err


def test_an_executable_that_is_missing_is_refused_as_by_condor_submit(fetchwork: Run, tmp_path: Path) -> None:
    file = tmp_path / "a.sub"
    for words in (("submit",), ("submit", "-dry-run")):
        file.write_text("executable = /no/such/executable\nqueue\n")
        told = fetchwork(*words, str(file), "--owner", "alice")
        assert told.status == 1
        assert "Can't access executable file /no/such/executable: No such file or directory" in told.err
        file.write_text("executable = /no/such/executable\ntransfer_executable = false\nqueue\n")
        assert fetchwork(*words, str(file), "--owner", "alice").status == 0


def test_accounting_groups_are_granted(fetchwork: Run, slots: DirectQueue) -> None:
    slots.connection.execute('CREATE ROLE "some-one" IN ROLE fetchwork_submitter')
    grants = "SELECT accounting_group FROM fetchwork.group_grant WHERE role = 'some-one'"
    try:
        told = fetchwork("db", "grant", "some-one", "alice", "--accounting-group", "physics")
        assert told.out == (
            "role some-one may submit jobs of alice\nrole some-one may charge accounting group physics\n"
        )
        assert slots.rows(grants) == [("physics",)]
        fetchwork("db", "grant", "some-one", "--accounting-group", "physics", "--revoke")
        assert slots.rows(grants) == []
        assert "nothing to grant" in fetchwork("db", "grant", "some-one").err
        assert (
            "is not the name of an accounting group"
            in fetchwork("db", "grant", "some-one", "--accounting-group", "a b").err
        )
    finally:
        slots.connection.execute('DROP ROLE "some-one"')


def test_after_a_move_to_another_server_it_is_said_what_offers_wait_for(
    fetchwork: Run, slots: DirectQueue
) -> None:
    slots.host("h1.example")
    job = slots.submit()
    slots.connection.execute(
        "UPDATE fetchwork.heartbeat SET offers_wait = true, moved_at = clock_timestamp()"
    )
    waits = fetchwork("db", "status").out.splitlines()
    assert "no job is offered before these have said what they run" in waits[1]
    assert waits[2].startswith("  h1.example, until ")
    assert "moved to another server" in fetchwork("q", "--better-analyze", job).out
    assert fetchwork("db", "resume").out == "jobs are offered again\n"
    assert fetchwork("db", "resume").out == "nothing to do: jobs are offered\n"
    assert len(fetchwork("db", "status").out.splitlines()) == 1
    assert "moved to another server" not in fetchwork("q", "--better-analyze", job).out
