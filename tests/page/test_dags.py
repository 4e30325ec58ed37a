"""The page of a DAG: its graph, with the states of its nodes, those that have ended included."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from fetchwork.page import dags
from fetchwork.page.acting import ActingSession
from tests.page.conftest import Serve
from tests.support.direct_queue import DirectQueue


def dag(queue: DirectQueue, **attributes: Any) -> int:
    """Submit a DAG's job; return its number."""
    return node(queue, JobUniverse=7, FetchWorkAccessPoint="here", Cmd="/bin/condor_dagman", **attributes)


def node(queue: DirectQueue, **common: Any) -> int:
    """Submit a cluster of one job; return its number."""
    ad = {"Cmd": "/bin/true", "Iwd": "/", "Owner": "alice", **common}
    return int(queue.submit_many([{}], ad)[0].partition(".")[0])


def diamond(queue: DirectQueue) -> tuple[int, dict[str, int]]:
    """A DAG whose first node has ended, whose second fails, whose third is held, and whose last waits."""
    outer = dag(queue, DAG_NodesTotal=4)
    nodes: dict[str, int] = {}
    for name, parents, code in (("A", "", 0), ("B", "A", 3), ("C", "A", None)):
        inside = {"DAGManJobId": outer, "DAGNodeName": name, "DAGParentNodeNames": parents}
        nodes[name] = node(queue, **inside)
        if code is None:
            queue.act("hold", f"{nodes[name]}.0")
        else:
            queue.finish(queue.started(), ExitBySignal=False, ExitCode=code)
    return outer, nodes


def test_a_dag_is_drawn_with_the_states_of_nodes_that_ended_too(page: TestClient, slots: DirectQueue) -> None:
    outer, nodes = diamond(slots)
    text = page.get(f"/clusters/{outer}/dag").text
    states = {"A": "done", "B": "failed", "C": "held"}
    for name, state in states.items():
        assert f'<a href="/clusters/{nodes[name]}"><title>{name}: {state}</title>' in text
    assert text.count('<path d="M') == 2
    assert "1 not submitted yet" in text
    # the table, for those who don't see the picture, has the failed one first
    assert text.index("<td>B</td><td>failed</td>") < text.index("<td>A</td><td>done</td>")
    for cluster in (outer, nodes["A"], nodes["C"]):
        assert f'<a href="/clusters/{outer}/dag">DAG {outer}</a>' in page.get(f"/clusters/{cluster}").text


def test_a_node_that_runs_again_has_the_state_of_its_last_try(page: TestClient, slots: DirectQueue) -> None:
    outer, nodes = diamond(slots)
    again = node(slots, DAGManJobId=outer, DAGNodeName="B", DAGParentNodeNames="A")
    text = page.get(f"/clusters/{outer}/dag").text
    assert f'<a href="/clusters/{again}"><title>B: idle</title>' in text
    assert f'"/clusters/{nodes["B"]}"' not in text


def test_a_large_dag_is_a_table_of_its_failed_nodes_first(
    conninfo: str, slots: DirectQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dags, "MOST_DRAWN", 2)
    outer, _ = diamond(slots)
    session = ActingSession(conninfo)
    answer = dags.dag(session, cluster=str(outer))
    session.close()
    assert answer["picture"] is None
    assert list(answer["nodes"]) == ["B", "C", "A"]


def test_no_one_sees_the_nodes_of_another_s_dag(serve: Serve, slots: DirectQueue) -> None:
    outer, _ = diamond(slots)
    # bob says that his job is a node of it
    node(slots, Owner="bob", DAGManJobId=outer, DAGNodeName="X")
    theirs = serve(header="X-User")
    assert ">X<" not in theirs.get(f"/clusters/{outer}/dag", headers={"X-User": "alice"}).text
    assert theirs.get(f"/clusters/{outer}/dag", headers={"X-User": "bob"}).status_code == 404
    assert theirs.get("/clusters/x/dag", headers={"X-User": "bob"}).status_code == 400
