"""A DAG's life: held, removed, halted, killed, rescued, inspected."""

import importlib
import json
import re
import signal
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from fetchwork import compiler, traceparent
from fetchwork.classad import bindings
from fetchwork.client.link import Link
from tests.condor.watching import page_of
from tests.conftest import WITHOUT_COMPILER
from tests.dag.case import FILES, SERIAL, described, nodes
from tests.dag.sides import Dag, Point, Queue, Schedd, Side, dagman, on_both
from tests.dag.suites import MAJOR
from tests.support.waiting import until

# notes its name, and ends when the file "go" is there
WAITING = "#!/bin/sh\necho $1 >> order\nuntil [ -e go ]; do sleep 0.1; done\n"
WAITS = {"waits": WAITING, "waits.sub": "executable = waits\narguments = $(JOB)\n"
         "transfer_executable = false\nshould_transfer_files = IF_NEEDED\nqueue\n"}  # fmt: skip
# fails the first time
ONCE = "#!/bin/sh\n[ -e tried ] && exit 0\ntouch tried\nexit 7\n"


def go(dag: Dag) -> None:
    (dag.directory / "go").touch()


# test_faults.py kills all parts of one DAG
@pytest.mark.all
def test_killed_in_the_middle_it_recovers_and_submits_no_node_twice(queue: Queue) -> None:
    names = [f"N{number}" for number in range(20)]
    text = "JOB A waits.sub\n" + "".join(f"JOB {name} node.sub\nPARENT A CHILD {name}\n" for name in names)
    text += "SCRIPT POST A script 0 post $RETURN\n"
    dag = queue.start(text, files=WAITS)
    until(lambda: dag.noted() == ["A"], "the first node")
    for _ in range(2):
        process = dagman(dag)
        process.signal(signal.SIGKILL)
        until(lambda process=process: not process.alive)  # type: ignore[misc]
    go(dag)
    assert dag.wait() == 0, dag.tail
    assert "RECOVERY" in (dag.directory / "x.dag.dagman.out").read_text()
    assert Counter(dag.noted()) == Counter(["A", "post 0", *names])
    assert Counter(queue.nodes(dag.cluster)) == Counter(["A", *names])


@pytest.mark.all
def test_a_dag_outlives_its_access_point(queue: Queue, point: Point) -> None:
    text = "JOB A waits.sub\nJOB B node.sub\nPARENT A CHILD B\n"
    dag = queue.start(text, files=WAITS)
    until(lambda: dag.noted() == ["A"], "the first node")
    first = dagman(dag)
    point.kill()
    point.start()
    until(lambda: not first.alive, "the end of the first condor_dagman")
    assert dagman(dag) != first
    go(dag)
    assert dag.wait() == 0, dag.tail
    assert dag.noted() == ["A", "B"]
    assert queue.nodes(dag.cluster) == ["A", "B"]


REMOVED = "JOB A waits.sub\nJOB B node.sub\nPARENT A CHILD B\nFINAL F node.sub\n"
REMOVED += "SCRIPT PRE F script 0 final $DAG_STATUS\n"


def _removed(side: Side) -> tuple[int | None, list[str], list[str] | None]:
    dag = side.start(REMOVED, files=WAITS)
    until(lambda: dag.noted() == ["A"], "the first node")
    until(lambda: "ULOG_EXECUTE" in (dag.directory / "x.dag.dagman.out").read_text(), "its event")
    ended = side.run(dag.directory, "condor_rm", str(dag.cluster))
    assert ended.returncode == 0, ended.stderr
    return dag.wait(), dag.noted(), dag.rescue()


def test_a_removed_dag_runs_its_final_node_and_leaves_a_rescue_file(queue: Queue, schedd: Schedd) -> None:
    ours, theirs = on_both(_removed, queue, schedd)
    assert ours == theirs


def test_a_dag_that_is_removed_while_it_is_held_takes_its_nodes_with_it(queue: Queue) -> None:
    dag = queue.start("JOB A waits.sub\nJOB B waits.sub\n", files=WAITS)
    until(lambda: sorted(dag.noted()) == ["A", "B"], "the nodes")
    process = dagman(dag)
    assert queue.fetchwork(dag.directory, "dag", "hold", str(dag.cluster)).returncode == 0
    until(lambda: not process.alive, "the end of condor_dagman")
    until(lambda: queue.status(dag.cluster) == 5, "Held")
    assert [queue.status(node) for node in queue.clusters(dag.cluster)] == [2, 2]
    assert queue.fetchwork(dag.directory, "dag", "rm", str(dag.cluster)).returncode == 0
    until(lambda: {queue.status(node) for node in queue.clusters(dag.cluster)} == {None}, "the nodes' end")


def test_a_held_dag_goes_on_where_it_was(queue: Queue) -> None:
    dag = queue.start("JOB A waits.sub\nJOB B node.sub\nPARENT A CHILD B\n", files=WAITS)
    until(lambda: dag.noted() == ["A"], "the first node")
    queue.fetchwork(dag.directory, "dag", "hold", str(dag.cluster))
    until(lambda: queue.status(dag.cluster) == 5, "Held")
    go(dag)
    until(lambda: {queue.status(node) for node in queue.clusters(dag.cluster)} == {None}, "the node's end")
    ended = queue.fetchwork(dag.directory, "dag", "release", str(dag.cluster))
    assert ended.returncode == 0, ended.stderr
    assert dag.wait() == 0, dag.tail
    assert dag.noted() == ["A", "B"]


def _rescued(side: Side) -> list[object]:
    """A DAG fails, is repaired, and is submitted again."""
    text = nodes("ABCD", 'PARENT A CHILD B C\nPARENT B C CHILD D\nRETRY C 1\nVARS B status="$(broken:0)"\n')
    dag = side.start(text.replace("$(broken:0)", "3"), *SERIAL)
    found: list[object] = [dag.wait(), dag.noted(), dag.rescue()]
    path = dag.directory / "x.dag"
    path.write_text(text.replace("$(broken:0)", "0"))
    again = side.submit(dag.directory, *SERIAL)
    return [*found, again.wait(), again.noted(), again.rescue(2)]


def test_what_is_left_of_a_failed_dag_runs_from_its_rescue_file(queue: Queue, schedd: Schedd) -> None:
    ours, theirs = on_both(_rescued, queue, schedd)
    assert ours == theirs
    assert ours[0] == 1
    assert ours[3] == 0


def test_a_dag_is_rescued_by_its_number(queue: Queue) -> None:
    directory = queue.write(nodes("AB", 'VARS B status="3"\n'))
    submitted = queue.fetchwork(directory, "dag", "submit", *SERIAL, "x.dag", "--json")
    assert submitted.returncode == 0, submitted.stderr
    dag = Dag(queue, directory, json.loads(submitted.stdout)["dag"])
    assert dag.wait() == 1, dag.tail
    (dag.directory / "x.dag").write_text(nodes("AB"))
    ended = queue.fetchwork(dag.directory, "dag", "rescue", str(dag.cluster))
    assert ended.returncode == 0, ended.stderr
    again = Dag(queue, dag.directory, int(ended.stdout.split("submitted to cluster ")[1].split(".")[0]))
    assert again.wait() == 0, again.tail
    assert again.noted() == ["A", "B", "B"]


def _written(side: Side) -> list[list[str]]:
    """DAGMan's files about a DAG for programs, without times and the numbers of jobs."""
    text = nodes("ABC", 'VARS B status="1"\nPARENT A CHILD B\nPARENT B CHILD C\nNODE_STATUS_FILE status 1\n')
    dag = side.start(text + "JOBSTATE_LOG states\nDOT x.dot UPDATE\nRETRY B 1\n", *SERIAL)
    assert dag.wait() == 1, dag.tail
    kept = ("Node =", "NodeStatus", "Nodes", "DagStatus", "RetryCount", "StatusDetails")
    status = [line.strip() for line in (dag.directory / "status").read_text().splitlines()]
    states = [line.split() for line in (dag.directory / "states").read_text().splitlines()]
    metrics = json.loads((dag.directory / "x.dag.metrics").read_text())
    dot = [line for path in sorted(dag.directory.glob("x.dot*")) for line in path.read_text().splitlines()]
    return [
        [re.sub(r"\(\d+\.\d+\.\d+\)", "", line) for line in status if line.startswith(kept)],
        # time, node, event, job, ...
        [" ".join(words[1:3]) for words in states],
        [f"{name} {value}" for name, value in sorted(metrics.items()) if isinstance(value, int)],
        [line for line in dot if "->" in line or "shape" in line],
    ]


def test_what_dagman_writes_for_programs_is_the_same(queue: Queue, schedd: Schedd) -> None:
    ours, theirs = on_both(_written, queue, schedd)
    assert ours == theirs
    assert all(ours[:3])


def _saved(side: Side) -> list[object]:
    dag = side.start(nodes("ABC", "PARENT A CHILD B\nPARENT B CHILD C\nSAVE_POINT_FILE B\n"), *SERIAL)
    found: list[object] = [dag.wait(), dag.noted()]
    again = side.submit(dag.directory, *SERIAL, "-load_save", "B-x.dag.save", "-update_submit")
    return [*found, again.wait(), again.noted()]


def test_a_dag_begins_at_a_save_point(queue: Queue, schedd: Schedd) -> None:
    ours, theirs = on_both(_saved, queue, schedd)
    assert ours == theirs
    assert ours[3] == ["A", "B", "C", "B", "C"]


def _halted(side: Side, *, said: bool = True) -> list[object]:
    """A DAG is halted while its first node runs: its POST script runs, and no other node until the end."""
    text = "JOB A waits.sub\nJOB B node.sub\nPARENT A CHILD B\nSCRIPT POST A script 0 post\n"
    dag = side.start(text, files=WAITS)
    until(lambda: dag.noted() == ["A"], "the first node")
    halt = dag.directory / "x.dag.halt"
    halt.touch()
    if said:
        until(lambda: "DAG is halted" in (dag.directory / "x.dag.dagman.out").read_text(), "the halt")
    go(dag)
    until(lambda: dag.noted() == ["A", "post"], "the POST script")
    found: list[object] = [dag.noted()]
    halt.unlink()
    return [*found, dag.wait(), dag.noted()]


def test_a_halted_dag_submits_nothing(queue: Queue, schedd: Schedd, suite: str) -> None:
    # DAGMan of 25 does not report a halt file, and obeys it for ever (src/condor_dagman/dagman_main.cpp)
    newest = MAJOR[suite] >= 25
    ours, theirs = on_both(partial(_halted, said=not newest), queue, schedd)
    assert ours == theirs
    assert ours == [["A", "post"], 1, ["A", "post"]] if newest else [["A", "post"], 0, ["A", "post", "B"]]


PROVISIONER = "JOB A node.sub\nPROVISIONER P node.sub\n"
INLINE = "JOB A {\nexecutable = node\n}\n"


def test_what_cannot_be_run_is_refused_before_anything_is_written(queue: Queue, suite: str) -> None:
    refused = {PROVISIONER: "x.dag:2: PROVISIONER can't be honoured"}
    if MAJOR[suite] < 24:
        refused[INLINE] = "x.dag:1: JOB with its description inline needs HTCondor 24"
    refused["SUBDAG EXTERNAL S in.dag\n"] = "in.dag:2: PROVISIONER can't be honoured"
    for text, refusal in refused.items():
        directory = queue.write(text, {"in.dag": PROVISIONER})
        before = sorted(directory.iterdir())
        ended = queue.run(directory, "condor_submit_dag", "x.dag")
        assert ended.returncode == 1
        assert refusal in ended.stderr
        ended = queue.fetchwork(directory, "dag", "run", "x.dag")
        assert ended.returncode == 1
        assert [refusal in line for line in ended.stderr.splitlines() if "fetchwork: " in line] == [True]
        assert sorted(directory.iterdir()) == before


def test_a_try_of_a_node_that_is_submitted_again_is_the_first_one(queue: Queue) -> None:
    directory = queue.write("JOB A node.sub\n")

    def submitted(node: str, retry: int, run: str = "4711") -> str:
        words = ("condor_submit", f"JOB={node}", f"RETRY={retry}", "node.sub")
        ended = queue.run(directory, *words, FETCHWORK_DAG_RUN=run)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.split("submitted to cluster ")[1]

    first = submitted("A", 0)
    assert submitted("A", 0) == first
    others = {submitted("A", 1), submitted("B", 0), submitted("A", 0, "4712")}
    assert len({first, *others}) == 4


def test_a_schedd_in_reach_hears_nothing_of_a_dag(queue: Queue) -> None:
    """This host has a schedd, with the numbers of our jobs."""
    dag = queue.start("JOB A node.sub\n")
    assert dag.wait() == 0, dag.tail
    out = (dag.directory / "x.dag.dagman.out").read_text()
    assert "can't find address of local schedd for ClassAd updates (unknown host nowhere)" in out
    assert "failed to connect to queue manager ()" in out


def test_condor_rm_outlives_the_reader_of_what_it_says(queue: Queue) -> None:
    directory = queue.write("", {"idle.sub": "executable = node\nrequirements = false\nqueue\n"})
    ended = queue.run(directory, "condor_submit", "idle.sub")
    cluster = int(ended.stdout.split("submitted to cluster ")[1].split(".")[0])
    program = (
        "import os, subprocess, sys\nr, w = os.pipe()\nos.close(r)\n"
        f"words = ['condor_rm', '{cluster}', '-const', 'true']\n"
        "sys.exit(subprocess.run(words, stdout=w, stderr=w).returncode)"
    )
    python = str(queue.pool.machine.venv / "bin/python")
    ended = queue.run(directory, python, "-c", program)
    # DAGMan takes a signal for a failure
    assert ended.returncode in (0, 1), ended
    until(lambda: queue.status(cluster) is None, "the job's end")


def test_the_three_lines_of_the_readme(queue: Queue) -> None:
    lines = [
        line.partition("#")[0].split()
        for line in (Path(__file__).parents[2] / "README.md").read_text().splitlines()
        if line.startswith("fetchwork dag ")
    ]
    run, rescue = lines
    directory = queue.write("", {"my.dag": "JOB A once.sub\n", "once.sub": described("once"), "once": ONCE})
    ended = queue.fetchwork(directory, *run[1:])
    assert ended.returncode == 1
    number = ended.stderr.split("'fetchwork dag rescue ")[1].split("'")[0]
    ended = queue.fetchwork(directory, *rescue[1:3], number)
    assert ended.returncode == 0, ended.stderr
    again = Dag(queue, directory, int(ended.stdout.split("submitted to cluster ")[1].split(".")[0]))
    assert again.wait() == 0


def test_what_is_refused_for_ever_is_asked_once(queue: Queue) -> None:
    submit = "executable = node\ntransfer_executable = false\nnice_user = true\nqueue\n"
    dag = queue.start("JOB A bad.sub\n", files={"bad.sub": submit})
    assert dag.wait() == 1
    out = (dag.directory / "x.dag.dagman.out").read_text()
    assert out.count("condor_submit JOB=A") == 1
    assert "nice_user" in out


LATE = (
    "executable = node\narguments = $(JOB)\ntransfer_executable = false\nshould_transfer_files = IF_NEEDED\n"
)
LATE += "max_materialize = 2\nmax_idle = 1\nqueue 5\n"


def _late(side: Side) -> tuple[int | None, list[str]]:
    dag = side.start("JOB A late.sub\nJOB B node.sub\nPARENT A CHILD B\n", files={"late.sub": LATE})
    return dag.wait(), dag.noted()


def test_a_node_may_be_a_late_cluster(queue: Queue, schedd: Schedd) -> None:
    ours, theirs = on_both(_late, queue, schedd)
    assert ours == theirs == (0, ["A"] * 5 + ["B"])


def test_a_dag_can_be_looked_at(queue: Queue) -> None:
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    dag = queue.start(
        "JOB A node.sub\nJOB B waits.sub\nJOB C node.sub\nPARENT A CHILD B\nPARENT B CHILD C\n",
        files=WAITS,
        TRACEPARENT=parent,
    )
    until(lambda: dag.noted() == ["A", "B"], "the second node")
    ((run_id,),) = queue.rows("SELECT run_id FROM fetchwork.run WHERE cluster_id = %s", dag.cluster)
    spans = "SELECT DISTINCT ad ->> 'TraceParent' FROM fetchwork.cluster WHERE cluster_id = ANY (%s)"
    assert queue.rows(spans, queue.clusters(dag.cluster)) == [
        (traceparent.of_run(parent, f"{dag.cluster}.0", run_id),)
    ]
    seen: list[dict[str, object]] = []

    def second() -> bool:
        ended = queue.fetchwork(dag.directory, "dag", "status", str(dag.cluster), "--json")
        assert ended.returncode == 0, ended.stderr
        seen[:] = json.loads(ended.stdout)
        return seen[0].get("DAG_NodesDone") == 1 and seen[0].get("DAG_NodesQueued") == 1

    until(second, "the counts")
    assert seen[0]["DAG_NodesTotal"] == 3
    table = queue.fetchwork(dag.directory, "dag", "status").stdout
    assert "x.dag" in table
    batch = queue.run(dag.directory, "condor_q", "-dag", "-nobatch").stdout
    assert "|-B" in batch, batch
    drawn = queue.fetchwork(dag.directory, "dag", "draw", str(dag.cluster), "-o", "x.svg")
    assert drawn.returncode == 0, drawn.stderr
    picture = (dag.directory / "x.svg").read_text()
    assert picture.count("<rect") == 3
    assert ">done" in picture
    assert ">running" in picture
    assert ">waits" in picture
    with page_of(queue.pool) as page:
        shown = page.get(f"/clusters/{dag.cluster}/dag").text
    assert "<title>A: done</title>" in shown and "<title>B: running</title>" in shown
    assert "1 not submitted yet" in shown
    go(dag)
    assert dag.wait() == 0, dag.tail
    ended = queue.fetchwork(dag.directory, "dag", "status", str(dag.cluster), "--json")
    assert json.loads(ended.stdout)[0]["DAG_NodesDone"] == 3


def test_dag_run_shows_the_dag_to_its_end(queue: Queue) -> None:
    directory: Path = queue.write(nodes("AB", 'PARENT A CHILD B\nVARS B status="4"\n'))
    ended = queue.fetchwork(directory, "dag", "run", "x.dag")
    assert ended.returncode == 1, ended.stderr
    assert "failed, exit 1: 1 of 2 nodes done, 1 failed" in ended.stdout
    assert "fetchwork dag rescue" in ended.stderr


def _generated(directory: Path) -> dict[str, str]:
    """The files of a DAG that htcondor.dags wrote: three nodes, then one that needs its second retry."""
    described = {
        "executable": "flaky",
        "arguments": "$(JOB) $(RETRY) $(good)",
        "transfer_executable": "false",
        "should_transfer_files": "IF_NEEDED",
    }
    # version 2 writes two queue statements
    submit = bindings.old().Submit(described)
    dags = importlib.import_module("htcondor.dags")
    dag = dags.DAG()
    first = dag.layer(name="first", submit_description=submit, vars=[{"good": "0"}] * 3)
    post = dags.Script(executable="script", arguments=["$RETURN", "post"])
    first.child_layer(name="second", submit_description=submit, vars=[{"good": "2"}], retries=3, post=post)
    file = dags.write_dag(dag, directory)
    files = {path.name: path.read_text() for path in directory.iterdir()}
    return {"x.dag": files.pop(file.name), **files}


# test_as_over_a_schedd.py tests the language
@pytest.mark.all
def test_what_the_bindings_write_runs(queue: Queue, schedd: Schedd, tmp_path: Path) -> None:
    files = _generated(tmp_path)

    def noted(side: Side) -> list[str]:
        dag = side.start(files["x.dag"], *SERIAL, files={**FILES, **files})
        assert dag.wait() == 0, dag.tail
        return dag.noted()

    ours, theirs = on_both(noted, queue, schedd)
    assert ours == theirs
    assert ours[:3] == ["first:0 try 0", "first:1 try 0", "first:2 try 0"]


def test_the_access_point_runs_what_dagman_calls(queue: Queue, point: Point) -> None:
    if not compiler.has_compiler():
        pytest.skip(WITHOUT_COMPILER)

    def commands_run() -> int:
        with Link(str(point.socket)) as link:
            return int(link.ask("status")["commands"])

    before = commands_run()
    assert queue.start("JOB A node.sub\nJOB B node.sub\nPARENT A CHILD B\n").wait() == 0
    assert commands_run() >= before + 2
