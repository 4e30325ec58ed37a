"""The progress of a DAG, from the log of its condor_dagman (``x.dag.dagman.out``).

DAGMan reports the same figures to a schedd in attributes of its job's ad. Without a schedd the only source is
the table that it writes after each change (dagman_main.cpp, ``print_status``)::

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
#: bytes read of the log's end; DAGMan usually writes less between two tables
TAIL_BYTES = 64 * 1024

_STAMP = rb"[^\n]{0,40}?"
_TABLE = re.compile(
    rb"Of (\d+) nodes total:\n" + _STAMP + rb"( Done [^\n]*)\n[^\n]*===[^\n]*\n" + _STAMP + rb"([ \d]+)\n"
)


def log_file(environment: Mapping[str, str]) -> str | None:
    """The log of a condor_dagman with this environment; None without one."""
    return environment.get("_CONDOR_DAGMAN_LOG")


class Follower:
    """Reads one log again whenever it has grown."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._seen: tuple[int, int] | None = None
        self._counts: dict[str, int] = {}

    def news(self) -> dict[str, int] | None:
        """Return the counts if they have changed; otherwise, or if the log has no counts, None."""
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
    """Return the figures of the last table in a piece of the log, by attribute; empty without a table."""
    tables = list(_TABLE.finditer(text))
    if not tables:
        return {}
    last = tables[-1]
    numbers = [int(word) for word in last[3].split()]
    # digits of the time stamp may be among them
    headings = last[2].decode().split()
    by_column = dict(zip(headings, numbers[-len(headings) :], strict=False))
    return {TOTAL: int(last[1])} | {
        attribute: by_column[column] for column, attribute in ATTRIBUTES.items() if column in by_column
    }
