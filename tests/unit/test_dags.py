"""Data from DAG files, from condor_dagman's log and from a job's arguments, without a running DAG."""

from pathlib import Path

import pytest

from fetchwork.accesspoint.scheduler import jobargs
from fetchwork.condor import submitdag
from fetchwork.condor.submitdag import files
from fetchwork.dag import check, dagrun, environment, graph, nodeslog, programs, status
from fetchwork.dag.drawing import svg
from fetchwork.dag.nodeslog import NodeState
from fetchwork.errors import ClassAdError, FetchworkError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a b", ["a", "b"]),
        ("'a b' c", ["a b", "c"]),
        ("a' 'b", ["a b"]),
        ("'it''s' ''", ["it's", ""]),
        ("'' x", ["", "x"]),
        ("  \t", []),
        ('"a"', ['"a"']),
    ],
)
def test_arguments_are_read_as_htcondor_reads_them(text: str, words: list[str]) -> None:
    assert jobargs.arguments({"Arguments": text}) == words


def test_a_quote_that_is_not_closed_is_an_error() -> None:
    with pytest.raises(ClassAdError, match="'Arguments' has a single quote that is not closed"):
        jobargs.arguments({"Arguments": "'a"})


def test_an_environment_of_either_form_is_read() -> None:
    assert jobargs.environment({"Environment": "A=1 'B=two words' C=x=y"}) == {
        "A": "1",
        "B": "two words",
        "C": "x=y",
    }
    assert jobargs.environment({"Env": "A=1;B=two words"}) == {"A": "1", "B": "two words"}
    assert jobargs.arguments({"Args": " a  b "}) == ["a", "b"]


DAG = """\
JOB A a.sub
job B { # its own
PROVISIONER X x.sub
}
SUBMIT-DESCRIPTION d @=end
JOB Y y.sub
@end
SPLICE S \\
    inner.dag
PARENT A CHILD S B
"""


def test_what_cannot_be_run_is_named_with_its_line(tmp_path: Path) -> None:
    dag = tmp_path / "x.dag"
    dag.write_text(DAG.replace("{ # its own", "{"))
    (tmp_path / "inner.dag").write_text("JOB C c.sub\nProvisioner P p.sub\nSPLICE S x.dag\n")
    old, new = check.problems(dag, tmp_path, 23), check.problems(dag, tmp_path, 24)
    assert [problem.partition(" ")[0] for problem in old] == [
        f"{dag}:2:",
        f"{dag}:5:",
        f"{tmp_path / 'inner.dag'}:2:",
    ]
    assert "JOB with its description inline needs HTCondor 24 or later, here is 23" in old[0]
    (provisioner,) = new
    assert "PROVISIONER can't be honoured" in provisioner


def test_it_is_named_wherever_the_dag_takes_it_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are relative to DAGMan's working directory or the DAG's directory, and a splice's to its DIR."""
    (tmp_path / "d" / "e").mkdir(parents=True)
    for path in ("p.dag", "d/q.dag", "d/e/r.dag"):
        (tmp_path / path).write_text("JOB A a\nPROVISIONER P p.sub\n")
    dag = tmp_path / "d" / "x.dag"
    dag.write_text(
        'SPLICE S "q.dag"\nSUBDAG EXTERNAL T r.dag DIR e\nINCLUDE p.dag\nSUBDAG EXTERNAL U later.dag\n'
    )

    def named(base: Path) -> list[str]:
        return [problem.partition(":")[0] for problem in check.problems(dag, base, 25)]

    assert named(dag.parent) == [str(tmp_path / "d/q.dag"), str(tmp_path / "d/e/r.dag")]
    assert named(tmp_path) == [str(tmp_path / "p.dag")]
    monkeypatch.setattr(programs, "major_version", lambda _: 25)
    assert len(submitdag.refusals(["-UseDagDir", "d/x.dag"], {}, tmp_path)) == 2
    assert len(submitdag.refusals(["d/x.dag"], {}, tmp_path)) == 1


def test_a_node_may_have_the_name_of_an_option(tmp_path: Path) -> None:
    (tmp_path / "q.dag").write_text("PROVISIONER P p.sub\n")
    dag = tmp_path / "x.dag"
    for line in ("SPLICE dir q.dag", "SUBDAG EXTERNAL Dir q.dag"):
        dag.write_text(f"{line}\n")
        assert len(check.problems(dag, tmp_path, 25)) == 1, line


def test_a_brace_is_a_word_where_no_description_follows(tmp_path: Path) -> None:
    dag = tmp_path / "x.dag"
    dag.write_text("JOB A a.sub\nSCRIPT PRE A say {\nPROVISIONER P p.sub\n")
    assert [problem.partition(" ")[0] for problem in check.problems(dag, tmp_path, 23)] == [f"{dag}:3:"]


def test_a_host_without_htcondor_says_in_one_line_what_to_install() -> None:
    with pytest.raises(FetchworkError) as raised:
        programs.program("condor_no_such", {"PATH": "/nowhere"})
    assert str(raised.value) == (
        "'condor_no_such' is not on this host: DAGs are run by HTCondor's condor_dagman;"
        " install HTCondor's package here (Debian: condor, RPM: condor)"
    )


NODES_LOG = """\
000 (007.000.000) 2026-11-22 07:00:00 Job submitted from host: <127.0.0.1:0>
    DAG Node: A
...
000 (008.000.000) 2026-11-22 07:00:00 Job submitted from host: <127.0.0.1:0>
    DAG Node: B
...
000 (008.001.000) 2026-11-22 07:00:00 Job submitted from host: <127.0.0.1:0>
    DAG Node: B
...
000 (000.2147483647.001) 2026-11-22 07:00:00 Job submitted from host: <dummy-submit-for-noop-job>
    DAG Node: N
...
005 (000.2147483647.001) 2026-11-22 07:00:00 Job terminated.
\t(1) Normal termination (return value 0)
...
001 (007.000.000) 2026-11-22 07:00:05 Job executing on host: <ep1:0>
...
001 (008.000.000) 2026-11-22 07:00:05 Job executing on host: <ep1:0>
...
005 (007.000.000) 2026-11-22 07:00:17 Job terminated.
\t(1) Normal termination (return value 3)
...
"""
POST = """\
016 (007.000.000) 2026-11-22 07:00:18 POST Script terminated.
\t(1) Normal termination (return value 0)
    DAG Node: A
...
"""


def test_the_nodes_log_says_what_became_of_each_node(tmp_path: Path) -> None:
    log = tmp_path / "x.dag.nodes.log"
    log.write_text(NODES_LOG)
    found = nodeslog.states(log)
    assert found["A"] == NodeState("failed", 12.0)
    assert found["N"] == NodeState("done")
    assert found["B"].state == "running"
    # the script decides, until the node is tried again
    log.write_text(NODES_LOG + POST)
    assert nodeslog.states(log)["A"] == NodeState("done", 12.0)
    again = NODES_LOG.split("...\n", maxsplit=1)[0].replace("007", "009") + "...\n"
    log.write_text(NODES_LOG + POST + again)
    assert nodeslog.states(log)["A"] == NodeState("idle")
    # if one of several jobs failed or was killed, that is the node's end
    ended = "005 (008.000.000) 2026-11-22 07:01:05 Job terminated.\n\t(0) Abnormal termination (signal 9)\n"
    log.write_text(NODES_LOG + ended + "...\n")
    assert nodeslog.states(log)["B"] == NodeState("failed", 60.0)
    # an entry that is being written
    log.write_text(NODES_LOG + ended)
    assert nodeslog.states(log)["B"].state == "running"


def test_weak_edges_and_several_dags_are_drawn(tmp_path: Path) -> None:
    one, two = tmp_path / "1.dag", tmp_path / "2.dag"
    one.write_text("NODE A a\nJOB B a\nWEAK PARENT A CHILD B\n")
    two.write_text("JOB A a\n")
    assert graph.read(one, tmp_path).layers() == [["A"], ["B"]]
    found = graph.read_all([(one, tmp_path), (two, tmp_path)])
    assert found.layers() == [["0.A", "1.A"], ["0.B"]]


def test_a_dag_is_drawn_with_the_nodes_of_its_splices(tmp_path: Path) -> None:
    dag = tmp_path / "x.dag"
    dag.write_text(
        "JOB A a.sub\nJOB B<&> a.sub\nSPLICE S inner.dag\nFINAL F a.sub\n"
        "PARENT A CHILD S\nPARENT S CHILD B<&>\n"
    )
    (tmp_path / "inner.dag").write_text("JOB C c.sub\nSUBDAG EXTERNAL D d.dag\nPARENT C CHILD D\n")
    found = graph.read(dag, tmp_path)
    assert found.layers() == [["A"], ["S+C"], ["S+D"], ["B<&>"], ["F"]]
    picture = svg(found, {"A": NodeState("done", 12.4)}, "a <title>")
    assert "done, 12 s" in picture
    assert "B&lt;&amp;&gt;" in picture


def test_a_circle_is_drawn_too(tmp_path: Path) -> None:
    dag = tmp_path / "x.dag"
    dag.write_text("JOB A a\nJOB B a\nJOB C a\nPARENT A CHILD B\nPARENT B CHILD C\nPARENT C CHILD B\n")
    assert graph.read(dag, tmp_path).layers() == [["A"], ["B", "C"]]


LOG = b"""\
11/22/26 04:29:30 Of 4 nodes total:
11/22/26 04:29:30  Done     Pre   Queued    Post   Ready   Un-Ready   Failed   Futile
11/22/26 04:29:30   ===     ===      ===     ===     ===        ===      ===      ===
11/22/26 04:29:30     0       0        1       0       0          3        0        0
11/22/26 04:29:31 Of 4 nodes total:
11/22/26 04:29:31  Done     Pre   Queued    Post   Ready   Un-Ready   Failed   Futile
11/22/26 04:29:31   ===     ===      ===     ===     ===        ===      ===      ===
11/22/26 04:29:31     1       0        2       0       0          0        1        0
11/22/26 04:29:31 0 job proc(s) currently held
11/22/26 04:29:31 Of 4 nodes total:
11/22/26 04:29:31  Done     Pre   Que"""


def test_the_last_whole_table_says_how_far_a_dag_is(tmp_path: Path) -> None:
    log = tmp_path / "x.dag.dagman.out"
    follower = status.Follower(str(log))
    assert follower.news() is None
    log.write_bytes(LOG)
    counts = follower.news()
    assert counts == {
        "DAG_NodesTotal": 4,
        "DAG_NodesDone": 1,
        "DAG_NodesPrerun": 0,
        "DAG_NodesQueued": 2,
        "DAG_NodesPostrun": 0,
        "DAG_NodesReady": 0,
        "DAG_NodesUnready": 0,
        "DAG_NodesFailed": 1,
        "DAG_NodesFutile": 0,
    }
    assert follower.news() is None
    log.write_bytes(LOG + b"ued\n")
    assert follower.news() is None


def test_a_run_of_a_dag_lasts_as_long_as_its_lock_file(tmp_path: Path) -> None:
    lock = tmp_path / "x.dag.lock"
    assert dagrun.of(lock, "1") == "1"
    # killed before it made the lock: it had submitted nothing
    assert dagrun.of(lock, "2") == "2"
    lock.write_text("")
    assert dagrun.of(lock, "3") == "2"
    lock.unlink()
    assert dagrun.of(lock, "4") == "4"


def test_a_key_is_as_long_as_the_database_takes() -> None:
    keys = {dagrun.key("1", "é" * 200 + end, "0") for end in "ab"} | {
        dagrun.key("1", "A", retry) for retry in "01"
    }
    assert len(keys) == 4
    assert all(len(key.encode()) <= dagrun.MAX_KEY for key in keys)


def test_dagman_is_kept_from_every_schedd_whatever_its_job_asks_for() -> None:
    asked = {"_CONDOR_SCHEDD_HOST": "real", "_CONDOR_DAGMAN_USE_DIRECT_SUBMIT": "True", "PATH": "/bin"}
    found = environment.of_dagman(asked, Path("/commands"), "/work")
    assert found["_CONDOR_SCHEDD_HOST"] == "nowhere"
    assert found["_CONDOR_DAGMAN_USE_DIRECT_SUBMIT"] == "False"
    assert found["PATH"] == "/commands:/bin"
    assert found["_CONDOR_DAGMAN_CONDOR_SUBMIT_EXE"] == "/commands/condor_submit"
    assert environment.lock_file(["-f", "-Lockfile", "x.lock"]) == "x.lock"
    assert environment.lock_file(["-f", "-Lockfile"]) is None


def test_the_dag_files_among_the_words_are_found() -> None:
    words = ["-maxjobs", "5", "a.dag", "-f", "-batch-name", "name", "-verbose", "b.dag", "-outfile_dir", "d"]
    assert files(words) == ["a.dag", "b.dag"]
