"""Supervises one job of the scheduler universe: starts its program, passes signals on, reports its end.

The supervisor is a process of the job's owner and the parent of the job. The access point holds the other end
of its connection. First it gets the supervisor's pid, so that the fence is passed in the supervisor's name;
then it sends the descriptor of a file for the result, and the request. If the access point ends, the
supervisor ends its job and writes the result into that file for the next access point, so a job that has
ended does not run again because its report was lost.

The supervisor also ends processes that the job leaves behind: as their subreaper it becomes their parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pwd
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

from fetchwork import traceparent
from fetchwork.accesspoint.scheduler import jobargs
from fetchwork.dag import dagrun, environment, status
from fetchwork.db.calls.scheduler import SchedulerClaim
from fetchwork.ipc import frames
from fetchwork.ipc.frames import Json
from fetchwork.ipc.zygote import end_with_parent

_PR_SET_CHILD_SUBREAPER = 36

#: seconds that a job has after its signal if the access point has gone
LAST_S = 20.0
#: seconds between two polls of a DAG's progress
STATUS_S = 1.0


def request_for(claim: SchedulerClaim, access_point: Path) -> Json:
    """Return the request to start a job of the access point that listens at this socket.

    Raises FetchworkError for an ad from which no program can be started.
    """
    ad, job = claim.ad, f"{claim.cluster_id}.{claim.proc_id}"
    cwd = str(ad.get("Iwd") or "/")
    command = str(ad.get("Cmd"))
    arguments = jobargs.arguments(ad)
    asked = jobargs.environment(ad)
    dagman = environment.is_dagman(command)
    starts = ad.get("NumJobStarts")
    return {
        "executable": os.path.join(cwd, command),  # noqa: PTH118 - unlike Path it keeps ".."
        "name": os.path.basename(command),  # noqa: PTH119
        "arguments": arguments,
        "env": {
            **asked,
            "CONDOR_ID": job,
            "FETCHWORK_ACCESS_POINT": str(access_point),
            **traceparent.variables(ad, job, claim.run_id),
        },
        "cwd": cwd,
        "in": str(ad.get("In") or os.devnull),
        "out": str(ad.get("Out") or os.devnull),
        "err": str(ad.get("Err") or os.devnull),
        "fresh": not isinstance(starts, int) or starts == 0,
        "kill_signal": jobargs.signal_number(ad.get("KillSig"), signal.SIGTERM),
        "dagman": dagman,
        "lock": environment.lock_file(arguments) if dagman else None,
        "run": str(claim.run_id),
        "dag_log": status.log_file(asked) if dagman else None,
    }


def supervise(link: socket.socket) -> None:
    """Run the job that the access point requests; return when it and all its processes have ended."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # the access point may be gone by now: errors of this send are ignored
    _tell(link, {"pid": os.getpid()})
    try:
        _, descriptors, _, _ = socket.recv_fds(link, 1, 1)
    except ConnectionError:
        return
    reader = frames.Reader(link)
    request = _next(reader)
    if request is None or not descriptors:
        return
    began = time.monotonic()
    try:
        job = _started(request)
    except (OSError, subprocess.SubprocessError, KeyError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        subject = getattr(error, "filename", None) or request["executable"]
        _tell(link, {"problem": f"cannot start it: '{subject}': {reason}"})
        return
    _tell(link, {"started": job.pid})
    follower = None if request["dag_log"] is None else status.Follower(request["dag_log"])
    result = _watched(link, reader, job, int(request["kill_signal"]), follower)
    result["JobDuration"] = time.monotonic() - began
    _end_all()
    os.write(descriptors[0], json.dumps(result).encode() + b"\n")
    with contextlib.suppress(OSError):
        os.fsync(descriptors[0])
    _tell(link, {"ended": result})


def _started(request: Json) -> subprocess.Popen[bytes]:
    account = pwd.getpwuid(os.getuid())
    variables = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": account.pw_dir,
        "USER": account.pw_name,
        "LOGNAME": account.pw_name,
        "SHELL": account.pw_shell,
        **request["env"],
    }
    os.chdir(request["cwd"])
    os.umask(0o022)
    if request["lock"] is not None:
        variables[dagrun.VARIABLE] = dagrun.of(Path(request["lock"]), request["run"])
    fresh = os.O_TRUNC if request["fresh"] else 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    with contextlib.ExitStack() as files:

        def opened(path: str, flags: int) -> int:
            descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
            files.callback(os.close, descriptor)
            return descriptor

        return subprocess.Popen(
            [request["name"], *request["arguments"]],
            executable=request["executable"],
            stdin=opened(request["in"], os.O_RDONLY),
            stdout=opened(request["out"], flags | fresh),
            stderr=opened(request["err"], flags | fresh),
            env=variables,
            start_new_session=True,
            # without its supervisor the end of the job would not be reported; safe with one thread
            preexec_fn=end_with_parent,  # noqa: PLW1509
        )


def _watched(
    link: socket.socket,
    reader: frames.Reader,
    job: subprocess.Popen[bytes],
    kill_signal: int,
    follower: status.Follower | None,
) -> Json:
    """Pass signals on and report a DAG's progress until the job has ended; return its result."""
    handle = os.pidfd_open(job.pid)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.register(link, select.POLLIN)
    last: float | None = None
    abandoned = False
    while True:
        left = None if follower is None else STATUS_S
        if last is not None:
            left = max(0.0, last - time.monotonic())
        ready = dict(poll.poll(None if left is None else left * 1000))
        if handle in ready:
            break
        if link.fileno() in ready:
            asked = _next(reader)
            if asked is None:
                # the access point has gone
                poll.unregister(link)
                abandoned = True
                last = time.monotonic() + LAST_S
                _send(handle, kill_signal)
            while asked is not None:
                _send(handle, int(asked["signal"]))
                asked = reader.arrived()
        elif last is not None:
            _send(handle, signal.SIGKILL)
            last = None
        elif follower is not None and (news := follower.news()) is not None:
            _tell(link, {"status": news})
    _, ended, usage = os.wait4(job.pid, 0)
    # keep Popen from waiting for the job
    job.returncode = os.waitstatus_to_exitcode(ended)
    os.close(handle)
    used = {"JobPid": job.pid, "RemoteUserCpu": usage.ru_utime, "RemoteSysCpu": usage.ru_stime}
    if follower is not None:
        used |= follower.news() or {}
    if abandoned:
        # the job did not end by itself
        return {**used, "VacateReason": "its access point ended"}
    if job.returncode < 0:
        return {**used, "ExitBySignal": True, "ExitSignal": -job.returncode}
    return {**used, "ExitBySignal": False, "ExitCode": job.returncode}


def _send(handle: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, number)


def _end_all() -> None:
    """End the processes that the job has left: orphans become children of this process."""
    while True:
        for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def _tell(link: socket.socket, what: Json) -> None:
    with contextlib.suppress(OSError):
        link.sendall(frames.encode(what))


def _next(reader: frames.Reader) -> Json | None:
    """Return the next request; None if the access point has gone."""
    try:
        return reader.receive()
    except ConnectionError:
        return None
