"""How far a DAG is, as its condor_dagman says in its own log (``x.dag.dagman.out``).

To a schedd DAGMan tells the same in attributes of its job's ad. Without one the table that it writes each
time something has changed is what there is (dagman_main.cpp, ``print_status``)::

    11/22/26 04:29:30 Of 4 nodes total:
    11/22/26 04:29:30  Done     Pre   Queued    Post   Ready   Un-Ready   Failed   Futile
    11/22/26 04:29:30   ===     ===      ===     ===     ===        ===      ===      ===
    11/22/26 04:29:30     1       0        2       0       0          1        0        0
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

#: the columns of the table, by the attributes of DAGMan's ad
ATTRIBUTES = {
    "Done": "DAG_NodesDone",
    "Pre": "DAG_NodesPrerun",
    "Queued": "DAG_NodesQueued",
    "Post": "DAG_NodesPostrun",
    "Ready": "DAG_NodesReady",
    "Un-Ready": "DAG_NodesUnready",
    "Failed": "DAG_NodesFailed",
    "Futile": "DAG_NodesFutile",
}
TOTAL = "DAG_NodesTotal"
#: so much of the log's end is read; between two tables DAGMan writes less, as a rule
TAIL_BYTES = 64 * 1024

_STAMP = rb"[^\n]{0,40}?"
_TABLE = re.compile(
    rb"Of (\d+) nodes total:\n" + _STAMP + rb"( Done [^\n]*)\n[^\n]*===[^\n]*\n" + _STAMP + rb"([ \d]+)\n"
)


def log_file(environment: Mapping[str, str]) -> str | None:
    """The log of a condor_dagman with this environment."""
    return environment.get("_CONDOR_DAGMAN_LOG")


class Follower:
    """Reads one log again where it has grown."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._seen: tuple[int, int] | None = None
        self._counts: dict[str, int] = {}

    def news(self) -> dict[str, int] | None:
        """The counts, if they are others than before; None if not, or if there are none."""
        try:
            state = self._path.stat()
            if (state.st_size, state.st_mtime_ns) == self._seen:
                return None
            self._seen = (state.st_size, state.st_mtime_ns)
            with self._path.open("rb") as file:
                file.seek(max(0, state.st_size - TAIL_BYTES))
                found = counts(file.read(TAIL_BYTES))
        except OSError:
            return None
        if not found or found == self._counts:
            return None
        self._counts = found
        return found


def counts(text: bytes) -> dict[str, int]:
    """What the last table in a piece of the log says, by attribute; empty if there is none."""
    tables = list(_TABLE.finditer(text))
    if not tables:
        return {}
    last = tables[-1]
    numbers = [int(word) for word in last[3].split()]
    # the stamp's end may be among them
    headings = last[2].decode().split()
    by_column = dict(zip(headings, numbers[-len(headings) :], strict=False))
    return {TOTAL: int(last[1])} | {
        attribute: by_column[column] for column, attribute in ATTRIBUTES.items() if column in by_column
    }
