"""A job's view of itself, as JSON: run as the job, `python same_job_probe.py FILE [ENDING]`.

It runs by itself, in a place where no module of these tests can be imported. ENDING is its last action:
``exit N``, ``kill N`` (a signal to itself), or ``wait N``: it waits for a signal, writes it down, and ends
with N.
"""

import json
import os
import resource
import signal
import stat
import sys
from pathlib import Path

PATIENCE_S = 120
LIMITS = [name for name in dir(resource) if name.startswith("RLIMIT_")]


def seen() -> dict[str, object]:
    """All that a program can find out about itself."""
    status = dict(
        line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line
    )
    umask = os.umask(0o77)
    os.umask(umask)
    scratch = Path(os.environ.get("_CONDOR_SCRATCH_DIR", "/nowhere"))
    return {
        "env": dict(os.environ),
        "argv": sys.argv[:1] + sys.argv[2:],
        "cwd": os.getcwd(),
        "umask": f"{umask:03o}",
        "ids": [os.getuid(), os.geteuid(), os.getgid(), os.getegid()],
        "groups": os.getgroups(),
        "nice": os.nice(0),
        "affinity": len(os.sched_getaffinity(0)),
        "oom_score_adj": int(Path("/proc/self/oom_score_adj").read_text()),
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in LIMITS},
        "cgroup": Path("/proc/self/cgroup").read_text(),
        "signals": {name: status[name].strip() for name in ("SigBlk", "SigIgn")},
        "privileges": {name: status[name].strip() for name in ("CapEff", "NoNewPrivs", "Seccomp")},
        "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
        "descriptors": descriptors(),
        "stdin": sys.stdin.read() if sys.stdin is not None else None,
        "scratch": {path.name: shown(path) for path in scratch.iterdir()} if scratch.is_dir() else None,
        "scratch itself": shown(scratch),
        "job ad": text(os.environ.get("_CONDOR_JOB_AD")),
        "machine ad": text(os.environ.get("_CONDOR_MACHINE_AD")),
    }


def descriptors() -> dict[str, str]:
    """Each open descriptor and its target."""
    found = {}
    for number in sorted(int(name) for name in os.listdir("/proc/self/fd")):
        try:
            found[str(number)] = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
    return {number: path for number, path in found.items() if not path.startswith("/proc/")}


def shown(path: Path) -> list[object]:
    """Mode, size if it is meaningful, and owner of a file."""
    status = path.lstat()
    return [stat.filemode(status.st_mode), status.st_size > 0, status.st_uid, status.st_gid]


def text(name: str | None) -> str | None:
    """A file's text, None if it cannot be read."""
    try:
        return Path(name or "").read_text()
    except OSError:
        return None


def main(file: str, what: str = "exit", number: str = "0", *_more: str) -> None:
    heard: list[int] = []

    def hear(given: int, _: object) -> None:
        heard.append(given)

    for each in range(1, signal.SIGRTMIN):
        if what == "wait" and each not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, 32, 33):
            signal.signal(each, hear)
    whole = {"seen": seen(), "signals": heard}
    # replaces the file at once, for its readers
    new = Path(f"{file}.new")
    new.write_text(json.dumps(whole))
    new.chmod(0o644)
    new.rename(file)
    if what == "kill":
        os.kill(os.getpid(), int(number))
    if what == "wait":
        while not heard:
            signal.sigtimedwait([], 1)
        Path(f"{file}.signals").write_text(json.dumps(heard))
        os.chmod(f"{file}.signals", 0o644)
    sys.exit(int(number))


if __name__ == "__main__":
    main(*sys.argv[1:])
