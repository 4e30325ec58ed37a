"""A DAG as a picture: SVG with a box for each node, with its state and duration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from fetchwork.dag.graph import Graph
from fetchwork.dag.nodeslog import NodeState

#: state -> colour of a box
COLOURS = {
    "waits": "#e8e8e8",
    "idle": "#fff2b3",
    "running": "#b3d9ff",
    "done": "#bfe5bf",
    "failed": "#f5b5b5",
    "held": "#e0c6f0",
    "removed": "#d0d0d0",
}
#: of a node's box
WIDTH, HEIGHT = 150, 40
_ACROSS, _DOWN = 170, 80
_MARGIN = 20


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of a picture's boxes and lines, in pixels."""

    width: int
    height: int
    #: node -> the upper left corner of its box
    boxes: Mapping[str, tuple[int, int]]
    #: SVG's paths from the parents to their children
    lines: Sequence[str]


def layout(graph: Graph) -> Layout:
    """Place the nodes of a graph, each below its parents."""
    layers = graph.layers()
    widest = max((len(layer) for layer in layers), default=1)
    width = widest * _ACROSS + 2 * _MARGIN
    boxes = {
        node: (
            _MARGIN + (width - 2 * _MARGIN - len(layer) * _ACROSS) // 2 + column * _ACROSS,
            _MARGIN + 20 + row * _DOWN,
        )
        for row, layer in enumerate(layers)
        for column, node in enumerate(layer)
    }
    lines = []
    for parent, child in sorted(graph.edges):
        (x1, y1), (x2, y2) = boxes[parent], boxes[child]
        lines.append(f"M{x1 + WIDTH // 2},{y1 + HEIGHT} L{x2 + WIDTH // 2},{y2}")
    return Layout(width, len(layers) * _DOWN + 2 * _MARGIN + 20, boxes, lines)


def svg(graph: Graph, states: Mapping[str, NodeState], title: str) -> str:
    """Return the picture as text."""
    placed = layout(graph)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{placed.width}" height="{placed.height}"'
        ' font-family="sans-serif"'
        ' font-size="12">',
        f'<text x="{_MARGIN}" y="{_MARGIN}">{escape(title)}</text>',
    ]
    lines += [f'<path d="{line}" stroke="#888" fill="none"/>' for line in placed.lines]
    for node, (x, y) in placed.boxes.items():
        state = states.get(node, NodeState("waits"))
        took = "" if state.seconds is None else f", {state.seconds:.0f} s"
        box = f'x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="4"'
        lines += [
            f"<g><title>{escape(node)}</title>",
            f'<rect {box} fill="{COLOURS[state.state]}" stroke="#444"/>',
            f'<text x="{x + 6}" y="{y + 16}">{escape(short(node))}</text>',
            f'<text x="{x + 6}" y="{y + 32}" fill="#444">{state.state}{took}</text></g>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def short(name: str) -> str:
    """A node's name, as its box shows it."""
    return name if len(name) <= 22 else f"{name[:10]}…{name[-11:]}"
