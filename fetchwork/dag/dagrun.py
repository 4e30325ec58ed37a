"""Which run of a DAG a condor_dagman belongs to.

One that is started again after a crash recovers the run that was under way: of a node's try that it had
submitted, a second submission is a repetition. One that begins anew, from the DAG or a rescue file, submits
the same nodes as new tries. DAGMan tells the two apart by its lock file, which it deletes when a run is over.
Beside that lies the name of the run, for as long as it lasts.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # which costs each condor_submit a third of its time
    from pathlib import Path

#: in the environment of condor_dagman, and so of each condor_submit that it starts
VARIABLE = "FETCHWORK_DAG_RUN"
SUFFIX = ".run"
#: the longest key that the database takes
MAX_KEY = 250


def of(lock: Path, new: str) -> str:
    """The run that a condor_dagman with this lock file is about to begin, named ``new``, or to recover."""
    kept = lock.with_name(lock.name + SUFFIX)
    if lock.exists():
        with contextlib.suppress(OSError):
            if name := kept.read_text().strip():
                return name
    partial = kept.with_name(kept.name + ".new")
    partial.write_text(f"{new}\n")
    partial.replace(kept)
    return new


def key(run: str, node: str, retry: str) -> str:
    """By which a submission of one try of a node is known (``fetchwork.note_submission``)."""
    text = f"dag {run} {retry} {node}"
    if len(text.encode()) <= MAX_KEY:
        return text
    import hashlib

    return f"dag {run} {retry} {hashlib.sha256(node.encode()).hexdigest()}"
