"""The run of a DAG that a condor_dagman belongs to.

A condor_dagman that is started again after a crash recovers the run in progress: it may submit a node's try
again, and the second submission is a repetition. A new start, from the DAG or a rescue file, submits the same
nodes as new tries. DAGMan tells the two apart by its lock file, which it deletes at the end of a run. A file
beside the lock file holds the name of the run while the run lasts.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # this import would cost each condor_submit a third of its time
    from pathlib import Path

#: the variable in the environment of condor_dagman and of each condor_submit that it starts
VARIABLE = "FETCHWORK_DAG_RUN"
SUFFIX = ".run"
#: the longest key that the database takes
MAX_KEY = 250


def of(lock: Path, new: str) -> str:
    """Return the run that a condor_dagman with this lock file recovers, or the ``new`` one that it begins."""
    kept = lock.with_name(lock.name + SUFFIX)
    if lock.exists():
        with contextlib.suppress(OSError):
            if name := kept.read_text().strip():
                return name
    partial = kept.with_name(kept.name + ".new")
    with partial.open("w") as file:
        file.write(f"{new}\n")
        file.flush()
        # after a power cut, too, the nodes of this run are submitted once
        os.fsync(file.fileno())
        partial.replace(kept)
        # this syncs the name
        os.fsync(file.fileno())
    return new


def key(run: str, node: str, retry: str) -> str:
    """Return the key of the submission of one try of a node (``fetchwork.note_submission``)."""
    text = f"dag {run} {retry} {node}"
    if len(text.encode()) <= MAX_KEY:
        return text
    import hashlib

    return f"dag {run} {retry} {hashlib.sha256(node.encode()).hexdigest()}"
