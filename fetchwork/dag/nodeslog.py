"""The state of a DAG's nodes from its nodes log, the only record of jobs, POST scripts and NOOP nodes.

Its entries are HTCondor's text events, which end with a line of three dots. The notes of a SUBMIT name the
job's node (``    DAG Node: NAME``), as do the entries that DAGMan itself writes::

    000 (042.000.000) 2026-11-22 07:21:13 Job submitted from host: <127.0.0.1:0>
        DAG Node: A
    ...
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

_HEADING = re.compile(r"(\d{3}) \((\d+)\.(\d+)\.(\d+)\) (\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)")
_NODE = re.compile(r"^ *DAG Node: (.+)$", re.MULTILINE)
_RETURN = re.compile(r"\(return value (-?\d+)\)")

_SUBMIT, _EXECUTE, _EVICTED, _TERMINATED, _ABORTED = 0, 1, 4, 5, 9
_HELD, _RELEASED, _POST_SCRIPT, _PRE_SKIP = 12, 13, 16, 37
_STATES = {_SUBMIT: "idle", _EXECUTE: "running", _EVICTED: "idle", _ABORTED: "removed", _HELD: "held",
           _RELEASED: "idle"}  # fmt: skip
#: a node's state is the first of these that one of its jobs has
_FIRST = ("failed", "held", "running", "idle", "removed", "done")


@dataclass(slots=True)
class _Node:
    #: states of the last cluster's jobs, by process
    jobs: dict[tuple[int, int], str] = field(default_factory=dict)
    cluster: int = -1
    #: the outcome of a POST script or PRE_SKIP
    verdict: str | None = None
    started: datetime | None = None
    ended: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeState:
    """A state of ``drawing.COLOURS``, and the seconds from the first job's start to the last end or now."""

    state: str
    seconds: float | None = None


def states(path: Path) -> dict[str, NodeState]:
    """Return the states of the nodes in a nodes log; raises OSError."""
    nodes: dict[str, _Node] = {}
    node_of: dict[tuple[int, int], str] = {}
    with path.open(errors="replace") as file:
        for entry in _entries(file):
            heading = _HEADING.match(entry)
            if heading is None:
                continue
            number, cluster, proc, sub = (int(heading[part]) for part in (1, 2, 3, 4))
            # NOOP nodes have no cluster; their last number tells them apart
            job = (cluster, sub)
            named = _NODE.search(entry)
            if named is not None and number == _SUBMIT:
                node_of[job] = named[1].strip()
            name = named[1].strip() if named is not None else node_of.get(job)
            if name is not None:
                at = datetime.fromisoformat(heading[5])
                _apply(nodes.setdefault(name, _Node()), number, job, proc, at, entry)
    return {name: _state(node) for name, node in nodes.items()}


def _entries(lines: Iterable[str]) -> Iterator[str]:
    entry: list[str] = []
    for line in lines:
        if line.rstrip() == "...":
            yield "".join(entry)
            entry.clear()
        else:
            entry.append(line)


def _apply(node: _Node, number: int, job: tuple[int, int], proc: int, at: datetime, entry: str) -> None:
    if number in (_POST_SCRIPT, _PRE_SKIP):
        returned = _RETURN.search(entry)
        good = number == _PRE_SKIP or (returned is not None and returned[1] == "0")
        node.verdict = "done" if good else "failed"
        return
    if number == _SUBMIT and job != (node.cluster, 0):
        # a further try
        node.jobs.clear()
        node.cluster, node.verdict, node.started, node.ended = job[0], None, None, None
    if number == _TERMINATED:
        returned = _RETURN.search(entry)
        node.jobs[job[1], proc] = "done" if returned is not None and returned[1] == "0" else "failed"
    elif number in _STATES:
        node.jobs[job[1], proc] = _STATES[number]
    if number == _EXECUTE and node.started is None:
        node.started = at
    if number in (_TERMINATED, _ABORTED, _EVICTED, _HELD):
        node.ended = at


def _state(node: _Node) -> NodeState:
    found = set(node.jobs.values())
    state = node.verdict or next((state for state in _FIRST if state in found), "waits")
    if node.started is None:
        return NodeState(state)
    until = datetime.now() if "running" in found else node.ended or node.started
    return NodeState(state, max(0.0, (until - node.started).total_seconds()))
