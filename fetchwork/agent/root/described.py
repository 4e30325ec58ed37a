"""Describes processes for the agent's privileged part: the account, and which job's process it is."""

from __future__ import annotations

from contextlib import suppress
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


def namespace(pid: int) -> str | None:
    """A process's mount namespace; None if it has ended, or we may not know."""
    try:
        return str(Path(f"/proc/{pid}/ns/mnt").readlink())
    except OSError:
        return None


def family_of(pid: int, outside: str | None) -> list[tuple[int, int]]:
    """The processes (pid, start) of a job's account that belong to the job whose process is ``pid``.

    They are those below it, and of those that have left it the ones that have its environment, or its mounts
    if the job has a container. ``outside`` is the mount namespace of its starter, None if unknown. HTCondor
    gives a job a variable with the pids of the starter and of the job's process. Its procd, too, finds the
    job's processes by that.
    """
    job = describe(pid)
    if job is None:
        return []
    mark = b"_CONDOR_ANCESTOR_%d=%d:" % (job.parent, pid)
    found, others = {pid: job.began}, {}
    spaces = {namespace(pid)}
    for other in _pids_of(job.uid) - {pid}:
        one = describe(other)
        if one is not None and one.uid == job.uid:
            others[other] = (one, namespace(other), _has_in_environment(other, mark))
    while True:
        known = spaces - {None, outside} if outside is not None else set()
        near = {
            other: (one, space)
            for other, (one, space, marked) in others.items()
            if marked or one.parent in found or space in known
        }
        if not near:
            return list(found.items())
        for other, (one, space) in near.items():
            found[other] = one.began
            spaces.add(space)
            del others[other]


def _pids_of(uid: int) -> set[int]:
    pids = set()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                pids.add(int(entry.name))
    return pids


def _has_in_environment(pid: int, text: bytes) -> bool:
    try:
        return text in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
