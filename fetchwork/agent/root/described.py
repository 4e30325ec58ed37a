"""Describes processes for the agent's privileged part: the account, and whether it is a job's process."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

#: most generations of processes searched; jobs hardly nest deeper
_MAX_DEPTH = 128
_STARTER = "condor_starter"
#: a variable that HTCondor sets for each job and for nothing else
_MARK = b"_CONDOR_SCRATCH_DIR="


class Described(NamedTuple):
    """A process by its entries in /proc: parent, start, real account, name."""

    parent: int
    began: int
    uid: int
    name: str


def describe(pid: int) -> Described | None:
    """Return the process with this pid, None if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
        uid = next(int(line.split()[1]) for line in lines if line.startswith("Uid:"))
        name = Path(f"/proc/{pid}/comm").read_text(errors="replace").rstrip("\n")
        return Described(int(fields[1]), int(fields[19]), uid, name)
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def is_jobs(pid: int) -> bool:
    """Whether a process descends from a starter that root started, or did before it became an orphan."""
    above: int = pid
    for _ in range(_MAX_DEPTH):
        process = describe(above)
        if process is None or process.parent <= 1:
            break
        above = process.parent
        parent = describe(above)
        if parent is not None and parent.uid == 0 and parent.name == _STARTER:
            return True
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return any(word.startswith(_MARK) for word in environment.split(b"\0"))


def is_roots_starter(found: Described) -> bool:
    """Whether a process is a condor_starter that runs as root and that root started."""
    above = describe(found.parent)
    return found.uid == 0 and found.name == _STARTER and above is not None and above.uid == 0
