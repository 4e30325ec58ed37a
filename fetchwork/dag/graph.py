"""The nodes of a DAG and their dependencies, as its files give them; for display to people.

condor_dagman, not this module, decides the order of runs: pins, joins and the like are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fetchwork.dag.check import Command, commands

_NODES = {"JOB", "NODE", "FINAL", "PROVISIONER", "SERVICE"}


@dataclass
class Graph:
    """Nodes in the order of the file, and edges from parent to child."""

    nodes: list[str] = field(default_factory=list)
    edges: set[tuple[str, str]] = field(default_factory=set)
    final: str | None = None

    def layers(self) -> list[list[str]]:
        """Return the nodes by longest path from a root; then nodes on a cycle, then the final node."""
        parents: dict[str, set[str]] = {node: set() for node in self.nodes}
        for parent, child in self.edges:
            parents[child].add(parent)
        left = [node for node in self.nodes if node != self.final]
        found: list[list[str]] = []
        done: set[str] = set()
        while left:
            layer = [node for node in left if parents[node] <= done] or left
            found.append(layer)
            done.update(layer)
            left = [node for node in left if node not in done]
        return [*found, [self.final]] if self.final is not None else found


def read(path: Path, base: Path) -> Graph:
    """Return the graph of a DAG file, whose paths are relative to ``base``; raises OSError."""
    return read_all([(path, base)])


def read_all(files: Sequence[tuple[Path, Path]]) -> Graph:
    """Return the graph of DAG files run as one; with several, node names begin with the file's number."""
    graph = Graph()
    for number, (path, base) in enumerate(files):
        _add(graph, path, base, f"{number}." if len(files) > 1 else "", frozenset())
    known = set(graph.nodes)
    graph.edges = {edge for edge in graph.edges if known.issuperset(edge)}
    return graph


def _add(
    graph: Graph, path: Path, base: Path, prefix: str, within: frozenset[Path]
) -> tuple[set[str], set[str]]:
    """Add a file's nodes; return its initial and terminal nodes, which the edges of a splice use."""
    own: list[str] = []
    ends: dict[str, tuple[set[str], set[str]]] = {}
    for command in _with_included(path, base, within):
        words = command.words
        if command.name in _NODES and len(words) > 1:
            own.append(prefix + words[1])
            if command.name == "FINAL":
                graph.final = prefix + words[1]
        elif command.name == "SUBDAG" and len(words) > 2:
            own.append(prefix + words[2])
        elif command.name == "SPLICE" and (found := command.inner(base)) is not None:
            inner, folder = found
            if inner.is_file() and inner.resolve() not in within:
                seen = within | {path.resolve()}
                ends[prefix + words[1]] = _add(graph, inner, folder, f"{prefix}{words[1]}+", seen)
    graph.nodes += own
    mine: set[tuple[str, str]] = set()
    for command in _with_included(path, base, within):
        upper = [word.upper() for word in command.words]
        if "CHILD" not in upper or "PARENT" not in upper[:2]:
            continue
        # WEAK may come first
        first, middle = upper.index("PARENT"), upper.index("CHILD")
        for parent in (prefix + word for word in command.words[first + 1 : middle]):
            for child in (prefix + word for word in command.words[middle + 1 :]):
                for one in ends[parent][1] if parent in ends else {parent}:
                    mine |= {(one, other) for other in (ends[child][0] if child in ends else {child})}
    graph.edges |= mine
    inside = {node for pair in ends.values() for part in pair for node in part}
    members = {*own, *inside} - {graph.final}
    return (
        {node for node in members if not any(child == node for _, child in graph.edges)},
        {node for node in members if not any(parent == node for parent, _ in graph.edges)},
    )


def _with_included(path: Path, base: Path, within: frozenset[Path]) -> Iterator[Command]:
    for command in commands(path):
        if command.name == "INCLUDE" and (found := command.inner(base)) is not None:
            inner, _ = found
            if inner.is_file() and inner.resolve() not in within and inner.resolve() != path.resolve():
                yield from _with_included(inner, base, within | {path.resolve()})
        else:
            yield command
