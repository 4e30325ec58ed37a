"""Direct mode seen from a hook: the same handler in a process of its own, without an agent.

Imported only where the agent does not answer. The process is ``INTERPRETER -I -m fetchwork hook NAME ARGS``
with the hook's stdin given again; its stdout, stderr and exit status are the hook's. It takes the hook's
place, but for JOB_EXIT: there the hook stays, as a report that could not be given must go to the spool.
"""

import posix
from _signal import ITIMER_REAL, SIGKILL, setitimer  # type: ignore[import-not-found]
from time import monotonic, sleep

#: what the hook keeps of JOB_EXIT's time for writing the report to the spool
_RESERVE_S = 1.0
# HTCondor's own: session keys that nothing here needs
_SECRETS = (b"CONDOR_PRIVATE", b"CONDOR_INHERIT", b"_CONDOR_PRIVATE")


def run_direct(
    conf: dict[str, str], name: str, args: list[str], body: bytes, check: str, left_s: float
) -> str | None:
    """Run hook ``name`` in direct mode within ``left_s`` seconds.

    Returns None when JOB_EXIT's report was taken, or one line about the failure of direct mode. For any
    other hook it returns only if the interpreter can't be started.
    """
    python = conf["direct_python"]
    argv = [python, "-I", "-m", "fetchwork", "hook", name, *args]
    env = {key: value for key, value in posix.environ.items() if not key.startswith(_SECRETS)}
    for key, text in (
        ("FETCHWORK_DIRECT_CONFIG", conf.get("direct_config", "")),
        ("FETCHWORK_KEYWORD", conf["keyword"]),
        ("FETCHWORK_SLOT", posix.environ.get(b"_CONDOR_SLOT", b"").decode("utf-8", "replace")),
        ("FETCHWORK_DEADLINE_MS", str(int(left_s * 1000))),
        ("FETCHWORK_CHECK", check),
    ):
        env[key.encode()] = text.encode("utf-8", "replace")
    try:
        stdin = posix.memfd_create("stdin")
        view = memoryview(body)
        while view:
            view = view[posix.write(stdin, view) :]
        posix.lseek(stdin, 0, 0)
        if name == "job_exit":
            return _run_beside(python, argv, env, stdin, left_s - _RESERVE_S)
        posix.dup2(stdin, 0)
        # it goes on in the new program, where it ends the process
        setitimer(ITIMER_REAL, left_s)
        posix.execve(python, argv, env)
    except OSError as exc:
        return f"cannot start '{python}' for direct mode: {exc.strerror}"


def _run_beside(
    python: str, argv: list[str], env: dict[bytes, bytes], stdin: int, left_s: float
) -> str | None:
    end = monotonic() + left_s
    pid = posix.posix_spawn(python, argv, env, file_actions=[(posix.POSIX_SPAWN_DUP2, stdin, 0)])
    while True:
        done, status = posix.waitpid(pid, posix.WNOHANG)
        if done:
            return None if status == 0 else f"direct mode failed with status {status >> 8 or status & 0x7F}"
        if monotonic() >= end:
            posix.kill(pid, SIGKILL)
            posix.waitpid(pid, 0)
            return "direct mode did not end in time"
        sleep(0.01)
