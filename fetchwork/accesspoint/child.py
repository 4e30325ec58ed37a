"""The work of a child with its account's rights: submit descriptions, expressions, event logs, files.

A submit description may run programs, read files and use the environment; an expression may take for ever; a
log may lie on a file system that does not answer. Each of them delays only the child of its own account.
"""

from __future__ import annotations

import dataclasses
import os
import pwd
import resource
import signal
import socket
import stat
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import cast

from fetchwork.db.calls.files import LeftCheckpoint
from fetchwork.errors import FetchworkError, SubmitError
from fetchwork.ipc import frames
from fetchwork.ipc.frames import Json
from fetchwork.matchmaker import policy
from fetchwork.queue.ask import Evaluate
from fetchwork.queue.events import logentry
from fetchwork.queue.outputs import cleanup
from fetchwork.queue.outputs.bringing import bring
from fetchwork.queue.outputs.destinations import TransferFailed
from fetchwork.queue.session import evaluated
from fetchwork.queue.submitting import contents, inputs, submission

#: seconds for one request, of wall clock and of CPU time, after which the kernel ends the child
DESCRIBE_S = 120
EVALUATE_S = 20
APPEND_S = 60
READ_S = 60
#: seconds between two chunks
BRING_S = 120
#: seconds for some files of a checkpoint, of which a plug-in has CHECKPOINT_CLEANUP_TIMEOUT (20 s) for each
#: one; and the seconds before the end in which no plug-in runs any more
CLEAN_S = 600
CLEAN_RESERVE_S = 30

#: the largest submission, in bytes of JSON
MAX_SUBMISSION = 512 * 1024 * 1024


def rehearse() -> None:
    """Import and use the modules that requests need, so that no child has to."""
    jobs = submission.prepared("executable = /bin/true\nqueue\n", cluster=1, owner="nobody")
    list(jobs.own)
    evaluated(Evaluate("A == 1", [{"A": 1}]))


def allow_cpu(seconds: int) -> None:
    """Have the kernel end this process after so many further seconds of CPU."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = int(used.ru_utime + used.ru_stime) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, resource.RLIM_INFINITY))


def serve(link: socket.socket) -> None:
    """Answer requests until the access point closes the connection."""
    reader = frames.Reader(link)
    while (request := reader.receive()) is not None:
        seconds, answers = _REQUESTS[request["do"]]
        signal.alarm(seconds)
        allow_cpu(seconds)
        try:
            steps = answers(request)
            reply: Json | None = None
            while (answer := _next(steps, reply)) is not None:
                link.sendall(frames.encode(answer))
                reply = None
                if "want" in answer and (reply := reader.receive()) is None:
                    return
        except (FetchworkError, ValueError, TypeError, RecursionError, MemoryError) as error:
            known = type(error).__name__ if isinstance(error, FetchworkError) else "ClassAdError"
            message = str(error) or type(error).__name__
            link.sendall(frames.encode({"error": known, "message": message}))
        signal.alarm(0)


def _next(steps: Iterator[Json], reply: Json | None) -> Json | None:
    try:
        return next(steps) if reply is None else cast(Generator[Json, Json, None], steps).send(reply)
    except StopIteration:
        return None


def _describe(request: Json) -> Iterator[Json]:
    """Yield the jobs of a submission: {"common"}, {"own": [...]}, ..., {"end"}."""
    os.environ.clear()
    os.environ.update(request["env"])
    os.umask(request["umask"])
    try:
        os.chdir(request["cwd"])
    except OSError as error:
        raise SubmitError(f"cannot use the working directory '{request['cwd']}': {error.strerror}") from None
    jobs = submission.prepared(
        request["description"],
        cluster=request["cluster"],
        count=request["count"],
        itemdata=request["itemdata"],
        owner=request["owner"],
        extra=request["extra"],
        queue=request["queue"],
        most_jobs=lambda: int(request["most_jobs"]),
    )
    needs = inputs.needed(jobs, inputs.shared_directories())
    jobs = needs.jobs
    yield {"common": jobs.common}
    logs: set[object] = set()
    size = 0
    for chunk in submission.chunks(jobs.own):
        for own in chunk:
            log = own.get("UserLog", jobs.common.get("UserLog"))
            if log not in logs:
                logs.add(log)
                _check_log(log)
        size += len(str(chunk))
        if size > MAX_SUBMISSION:
            raise SubmitError(f"the jobs take more than {MAX_SUBMISSION} bytes; allowed: several submissions")
        yield {"own": chunk}
    measured = contents.measured(needs.paths())
    for content in measured.values():
        yield {"content": [content.path, content.size, content.sha256, [one.hex() for one in content.chunks]]}
    yield {"job_bytes": contents.largest(needs, measured)}
    for files in contents.described(needs, measured):
        yield {"files": files}
    if needs.key is not None:
        yield {"secret": dataclasses.asdict(needs.key)}
    yield {"end": True}


def _read_input(request: Json) -> Iterator[Json]:
    """Yield a chunk of an input file."""
    (data,) = contents.read_chunks(request["path"], [request["n"]])
    yield {"data": data}


def _bring(request: Json) -> Generator[Json, Json, None]:
    """Deliver a job's outputs to their destination, asking for their chunks."""
    steps = bring(request["ad"], request["run_id"], request["files"])
    data: bytes | None = None
    try:
        while True:
            want = steps.send(data)
            # the delivery makes progress
            signal.alarm(BRING_S)
            reply = yield {"want": {"content_id": want.content_id, "n": want.n}}
            data = reply["data"]
    except StopIteration as end:
        yield {"bytes": end.value}
    except TransferFailed as failure:
        yield {"problem": str(failure), "errno": failure.errno}


def _clean(request: Json) -> Iterator[Json]:
    """Delete files of an unneeded checkpoint, as many as the time allows."""
    entry = pwd.getpwuid(os.geteuid())
    environ = {**request["env"], "HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}
    left = LeftCheckpoint(
        request["cluster"], request["proc"], request["base"], request["owner"], request["names"]
    )
    within_s = CLEAN_S - CLEAN_RESERVE_S
    yield {"deleted": cleanup.delete(request["command"], request["timeout_s"], left, environ, within_s)}


def _check_log(log: object) -> None:
    """Raise SubmitError if the event log can't be written, as condor_submit does."""
    if not isinstance(log, str) or log == "/dev/null" or not log.startswith("/"):
        return
    try:
        os.close(_opened(log))
    except (OSError, FetchworkError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SubmitError(f"cannot open the event log '{log}': {reason}") from None


def _evaluate(request: Json) -> Iterator[Json]:
    yield {"true": evaluated(Evaluate(request["constraint"], request["ads"]))}


def _judge(request: Json) -> Iterator[Json]:
    """Yield the verdict of a job's policy on its end."""
    verdict = policy.on_exit(request["ad"], request["report"])
    yield {"verdict": None if verdict is None else verdict.to_json()}


def _look(request: Json) -> Iterator[Json]:
    """Yield whether a file is missing; a file that can't be inspected may exist."""
    try:
        os.stat(request["path"])  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        yield {"missing": True}
    except OSError:
        yield {"missing": False}
    else:
        yield {"missing": False}


def append(request: Json) -> Json:
    """Append entries to a log; with "check" only entries that are not at its end already."""
    try:
        descriptor = _opened(request["path"])
    except OSError as error:
        return _problem(error)
    except FetchworkError as error:
        return {"problem": str(error), "errno": 0}
    try:
        entries = [text.encode() for text in request["entries"]]
        if request["check"]:
            present = _present(descriptor)
            fresh = []
            for text in entries:
                if present[text]:
                    present[text] -= 1
                else:
                    fresh.append(text)
            entries = fresh
        # entries must be on disk before the cursor passes them, as they are not written again
        logentry.append(descriptor, b"".join(entries))
        return {"written": len(entries)}
    except OSError as error:
        return _problem(error)
    finally:
        os.close(descriptor)


def _problem(error: OSError) -> Json:
    return {"problem": error.strerror or str(error), "errno": error.errno or 0}


def _opened(path: str) -> int:
    # O_NONBLOCK: a FIFO without a reader must not block the other logs
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = os.open(path, flags, 0o644)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FetchworkError("it is not a regular file")
    return descriptor


def _present(descriptor: int) -> Counter[bytes]:
    """Return the entries at the end of a log, after removing a truncated one from it."""
    size = os.fstat(descriptor).st_size
    start = max(0, size - logentry.TAIL_BYTES)
    tail = os.pread(descriptor, logentry.TAIL_BYTES, start)
    entries, cut = logentry.split(tail)
    if cut and (entries or not start):
        # a full disk or a kill truncated a write
        os.ftruncate(descriptor, size - len(cut))
    return Counter(entries)


_REQUESTS: dict[str, tuple[int, Callable[[Json], Iterator[Json]]]] = {
    "describe": (DESCRIBE_S, _describe),
    "read": (READ_S, _read_input),
    "bring": (BRING_S, _bring),
    "clean": (CLEAN_S, _clean),
    "evaluate": (EVALUATE_S, _evaluate),
    "look": (READ_S, _look),
    "judge": (EVALUATE_S, _judge),
    "append": (APPEND_S, lambda request: iter([append(request)])),
}
