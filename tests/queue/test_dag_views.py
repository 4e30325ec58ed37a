"""The views of a DAG: its progress and its inner DAGs', and the states of its nodes' jobs."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fetchwork.cli import dag as dag_command
from fetchwork.cli import dagview
from tests.queue.conftest import Queue, Run
from tests.support.direct_queue import DirectQueue
from tests.support.sessions import session_of
from tests.support.waiting import PATIENCE_S

COUNTS = {
    "Total": 9,
    "Done": 4,
    "Prerun": 0,
    "Queued": 2,
    "Postrun": 0,
    "Ready": 0,
    "Unready": 1,
    "Failed": 1,
}


class Dag:
    """A DAG that runs at an access point."""

    def __init__(self, slots: DirectQueue, around: int | None = None, **more: Any) -> None:
        self.slots = slots
        inside = {} if around is None else {"DAGManJobId": around, "DAGNodeName": "inner"}
        self.cluster = self._submit(
            JobUniverse=7,
            FetchWorkAccessPoint="here",
            Cmd="/usr/bin/condor_dagman",
            Arguments="-f -Dag 'my x.dag' -Lockfile x.lock",
            **inside,
            **more,
        )
        point = {"access_point": "here", "max_each": 9, "lease_s": 600}
        (claim,) = slots.call("claim_scheduler_job", **point)
        assert claim["cluster_id"] == self.cluster
        self.run = {"run_id": claim["run_id"], "token": claim["token"]}
        assert slots.scalar("start", **self.run, starter="h 1 1 boot") is None

    def _submit(self, **common: Any) -> int:
        ad = {"Cmd": "/bin/true", "Iwd": "/", "Owner": "alice", **common}
        return int(self.slots.submit_many([{}], ad)[0].partition(".")[0])

    def node(self, name: str) -> str:
        return f"{self._submit(DAGManJobId=self.cluster, DAGNodeName=name)}.0"

    def report(self, **counts: int) -> None:
        said = {f"DAG_Nodes{name}": number for name, number in {**COUNTS, "Futile": 1, **counts}.items()}
        self.slots.call("heartbeat", **self.run, report=json.dumps({"JobState": "Running", **said}))

    def end(self, code: int) -> None:
        report = json.dumps({"ExitBySignal": False, "ExitCode": code})
        self.slots.call("finish", **self.run, hook_reason="exit", report=report, verdict=None)


@pytest.fixture
def dag(slots: DirectQueue) -> Dag:
    """A DAG of nine nodes, with a running, a waiting and a held node, and an inner DAG."""
    made = Dag(slots)
    made.node("A")
    slots.started()
    made.node("B")
    slots.act("hold", made.node("C"))
    made.report()
    return made


def test_a_line_for_each_change_until_the_dag_has_ended(fetchwork: Run, dag: Dag) -> None:
    dag.end(1)
    told = fetchwork("watch", str(dag.cluster), "-i", "0.05")
    assert told.status == 0
    assert (
        told.out.partition(" ")[2]
        == f"DAG {dag.cluster} failed, exit 1: 4 of 9 nodes done, 1 failed, 1 futile\n"
    )


def test_one_that_has_ended_and_stays_in_the_queue_has_ended(fetchwork: Run, queue: Queue) -> None:
    stays: dict[str, Any] = {"LeaveJobInQueue": "/Expr(JobStatus == 4)/"}
    dag = Dag(queue.direct, **stays)
    node = queue.direct.submit({**stays, "DAGManJobId": dag.cluster})
    queue.direct.finish(queue.direct.started())
    assert queue.direct.status(node) == 4
    (view,) = dagview.look(session_of(queue), dag.cluster)
    assert (view["ended"], view["running"]) == (False, 0)
    dag.end(0)
    told = fetchwork("watch", str(dag.cluster))
    assert told.status == 0
    assert f"DAG {dag.cluster} successful: " in told.out


def test_the_jobs_of_its_nodes_and_the_dags_in_it_are_shown_to_programs(
    conninfo: str, slots: DirectQueue, dag: Dag
) -> None:
    inner = Dag(slots, around=dag.cluster)
    inner.node("X")
    # another owner's job, which claims to be of this DAG
    slots.submit_many([{}], {"Cmd": "/bin/true", "Owner": "bob", "DAGManJobId": dag.cluster})
    command = [sys.executable, "-m", "fetchwork", "watch", f"{dag.cluster}.0", "-i", "0.05", "--json"]
    with subprocess.Popen(
        command, env={**os.environ, "FETCHWORK_DSN": conninfo}, stdout=subprocess.PIPE, text=True
    ) as watch:
        assert watch.stdout is not None
        first = json.loads(watch.stdout.readline())
        assert first["nodes"] == {
            **{name.lower(): number for name, number in COUNTS.items()},
            "futile": 1,
        }
        assert (first["dag"], first["state"], first["ended"]) == (dag.cluster, "running", False)
        assert first["files"] == ["my x.dag"]
        assert first["jobs"] == {"running": 1, "idle": 1, "held": 1}
        (within,) = first["dags"]
        assert (within["dag"], within["parent"], within["node"]) == (inner.cluster, dag.cluster, "inner")
        assert within["jobs"] == {"running": 0, "idle": 1, "held": 0}
        inner.end(0)
        dag.report(Done=5, Queued=1)
        second = json.loads(watch.stdout.readline())
        while second["dags"] or second["nodes"]["done"] == 4:
            second = json.loads(watch.stdout.readline())
        dag.end(0)
        *_, last = [second, *map(json.loads, watch.stdout)]
        assert (last["state"], last["ended"], last["exit_code"]) == ("successful", True, 0)
        assert watch.wait(PATIENCE_S) == 0


def test_on_a_terminal_there_is_a_table(conninfo: str, dag: Dag) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "FETCHWORK_DSN": conninfo, "TERM": "xterm", "COLUMNS": "140"}
    command = [sys.executable, "-m", "fetchwork", "watch", str(dag.cluster), "-i", "0.05"]
    with subprocess.Popen(command, env=environment, stdout=theirs) as watch:
        os.close(theirs)
        shown = b""
        while b"running" not in shown:
            shown += os.read(ours, 4096)
        assert b"FUTILE" in shown
        watch.send_signal(2)
        assert watch.wait(PATIENCE_S) == 0
    os.close(ours)


def test_what_is_no_dag_is_shown_as_jobs_are(fetchwork: Run, slots: DirectQueue) -> None:
    job = slots.submit()
    slots.act("remove", job)
    told = fetchwork("watch", job, "--until-empty")
    assert "0 jobs:" in told.out
    told = fetchwork("watch", job, "--until-empty", "--json")
    assert json.loads(told.out)["batches"] == []


@pytest.mark.parametrize("command", ["status", "rm", "hold", "release", "rescue", "draw"])
def test_a_dag_that_is_not_there_is_one_line(fetchwork: Run, slots: DirectQueue, command: str) -> None:
    job = slots.submit().partition(".")[0]
    told = fetchwork("dag", command, job)
    assert (told.status, told.out) == (1, "")
    assert told.err == (
        f"fetchwork: error: there is no DAG {job}; 'fetchwork dag status' shows those in the queue\n"
    )


def test_what_cannot_be_done_to_a_dag_is_said_with_its_state(fetchwork: Run, dag: Dag) -> None:
    number = str(dag.cluster)
    assert fetchwork("dag", "release", number).err == (
        f"fetchwork: error: DAG {number} can't be released: it is running\n"
    )
    assert fetchwork("dag", "rescue", number).err == (
        f"fetchwork: error: DAG {number} has not ended: it is running\n"
    )
    assert fetchwork("dag", "rm", number).out == (
        f"DAG {number} is removed with its nodes, and leaves a rescue file\n"
    )


def test_q_shows_the_jobs_of_a_dag_below_it(fetchwork: Run, slots: DirectQueue, dag: Dag) -> None:
    inner = Dag(slots, around=dag.cluster)
    inner.node("X")
    alone = slots.submit()
    lines = fetchwork("q", "-dag").out.splitlines()
    shown = [(line.split()[0], line[9:23].rstrip()) for line in lines[1:-3]]
    nodes = [(f"{dag.cluster + n}.0", f" |-{name}") for n, name in enumerate("ABC", 1)]
    assert shown == [
        (f"{dag.cluster}.0", "alice"),
        *nodes,
        (f"{inner.cluster}.0", " |-inner"),
        (f"{inner.cluster + 1}.0", "  |-X"),
        (alone, "alice"),
    ]
    assert lines[1].endswith("my x.dag: 4 of 9 nodes done, 1 failed, 1 futile")


@pytest.mark.parametrize("said", ["its number", [1], "/Expr(1)/"])
def test_a_job_of_another_owner_is_in_no_dag(
    fetchwork: Run, slots: DirectQueue, dag: Dag, said: object
) -> None:
    around = dag.cluster if said == "its number" else said
    slots.submit_many([{}], {"Cmd": "/bin/true", "Owner": "bob", "DAGManJobId": around, "DAGNodeName": "A"})
    other = slots.submit_many([{}], {"Cmd": "/bin/true", "Owner": "bob"})[0]
    lines = [line[:10].split()[0] for line in fetchwork("q", "-dag").out.splitlines()[1:-3]]
    # not below the DAG and its nodes, but where its own cluster comes
    assert lines[-1] == other
    assert "|-" not in fetchwork("q", "-dag").out.splitlines()[-5]


def test_jobs_that_say_they_are_in_each_other_are_shown_too(fetchwork: Run, slots: DirectQueue) -> None:
    common = {"Cmd": "/usr/bin/condor_dagman", "Owner": "alice"}
    for around in (2, 1, 3):
        slots.submit_many([{}], {**common, "DAGManJobId": around})
    assert sorted(line.split()[0] for line in fetchwork("q", "-dag").out.splitlines()[1:-3]) == [
        "1.0",
        "2.0",
        "3.0",
    ]


def test_status_shows_the_dags_in_the_queue_and_no_other_jobs(
    fetchwork: Run, slots: DirectQueue, dag: Dag
) -> None:
    another = Dag(slots)
    another.end(0)
    slots.submit(JobUniverse=7, FetchWorkAccessPoint="here")
    heading, line = fetchwork("dag", "status").out.splitlines()
    assert heading.split()[:3] == ["DAG", "OWNER", "STATE"]
    assert line.split() == [
        str(dag.cluster),
        *["alice", "running", "4", "0", "2", "0", "0", "1", "1", "1", "9", "my", "x.dag"],
    ]
    (ad,) = json.loads(fetchwork("dag", "status", "--json").out)
    assert ad["DAG_NodesDone"] == 4
    assert "ended" not in fetchwork("dag", "status", str(another.cluster)).err


def test_an_interrupted_view_says_that_the_dag_goes_on(
    fetchwork: Run, dag: Dag, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dag_command, "_submitted", lambda *_, **__: dag.cluster)
    monkeypatch.setattr(dagview, "follow", interrupted)
    told = fetchwork("dag", "run", "my.dag")
    assert (told.status, told.out) == (130, "")
    assert told.err.startswith(f"DAG {dag.cluster} goes on; 'fetchwork watch {dag.cluster}' shows it")
    assert dag.slots.status(f"{dag.cluster}.0") == 2


def test_a_dag_of_a_file_that_runs_is_not_submitted(
    fetchwork: Run, slots: DirectQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dag_command, "socket_path", lambda: "socket")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my x.dag").write_text("JOB A a.sub\n")
    dag = Dag(slots, Iwd=str(tmp_path))
    told = fetchwork("dag", "run", "my x.dag")
    shows = f"'fetchwork watch {dag.cluster}' shows it"
    assert (told.status, told.err) == (
        1,
        f"fetchwork: error: DAG {dag.cluster} runs 'my x.dag'; {shows}\n",
    )


def test_history_names_the_files_of_a_dag(fetchwork: Run, dag: Dag) -> None:
    dag.end(0)
    (_, line) = fetchwork("history").out.splitlines()
    assert line.endswith(" my x.dag: 4 of 9 nodes done, 1 failed, 1 futile")
    assert "condor_dagman" not in line


def test_a_dag_file_that_is_not_there_is_one_line(
    fetchwork: Run, slots: DirectQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FETCHWORK_ACCESS_POINT", str(tmp_path / "socket"))
    told = fetchwork("dag", "run", "nothing.dag")
    assert (told.status, told.err) == (1, "fetchwork: error: there is no DAG file 'nothing.dag'\n")
