"""The program that the starter runs in place of a job with checkpoints: it saves one and becomes the job.

The starter runs it before each execution of the job, in the sandbox, with the job's arguments, environment
and standard files. Before the first execution there is nothing to save. Later the job has just ended for a
checkpoint: the program stages the files in the agent's spool of outputs, and waits until the agent has
uploaded them. It does not wait for an agent that is away for long: staged files survive the agent's restart,
and are uploaded before the run ends. Then the process becomes the job by exec, and so has the job's pid.

If a checkpoint can't be saved, the job is held, as by HTCondor (FailedToCheckpoint): JOB_EXIT finds the
reason in the sandbox.
"""

import posix
import sys
from _signal import SIG_DFL, signal  # type: ignore[import-not-found]
from time import monotonic, sleep

from fetchwork.hook.client import read_conf
from fetchwork.hook.sandboxed import QUESTION_S, Files, full_of, sign_with
from fetchwork.hook.wire import Request, encode_request
from fetchwork.hookerrors import FetchworkError, one_line
from fetchwork.sandbox import checkpoint
from fetchwork.sandbox.failure import FileFailure, TransferFailure
from fetchwork.sandbox.leave import read_notes
from fetchwork.sandbox.parking import SUFFIX

#: seconds without progress of the upload after which the job goes on
PATIENCE_S = 300.0
#: seconds for one answer of the agent, and between two requests to an agent that is away
ANSWER_S = 20.0
AGAIN_S = 1.0
#: a job's argv[0], as set by the starter
_NAME = "condor_exec.exe"
_CANNOT_EXECUTE = 6
_ESTALE, _EDQUOT = 116, 122
# Python ignores these, and exec keeps that; HTCondor's jobs ignore the first
_SIGPIPE, _SIGXFSZ = 13, 25


def main(called: str, home: str) -> None:
    """Run the job of the working directory; ``called`` and ``home`` are the directories of the hooks."""
    sandbox = posix.getcwd()
    progress = checkpoint.read(sandbox)
    if progress is None:
        _end(
            sandbox,
            None,
            checkpoint.failure_of(FileFailure(2, "the job has removed the record of its checkpoints")),
        )
        return
    try:
        if progress.begun:
            _save(sandbox, progress, (called, home))
        progress.begun = True
        progress.write(sandbox)
    except TransferFailure as failure:
        _end(sandbox, progress, failure)
    except FetchworkError as error:
        _end(sandbox, progress, checkpoint.failure_of(FileFailure(5, str(error))))
    except OSError as error:
        _end(sandbox, progress, checkpoint.failure_of(FileFailure(error.errno or 5, str(error))))
    _become(sandbox, progress)


def _save(sandbox: str, progress: checkpoint.Progress, directories: tuple[str, ...]) -> None:
    progress.saving = True
    progress.write(sandbox)
    conf = read_conf(directories)
    notes = read_notes(sandbox)
    if notes is None or "spool" not in conf:
        raise checkpoint.failure_of(FileFailure(2, "the list of files to save, or the spool, is missing"))
    slot = posix.environ.get(b"_CONDOR_SLOT", b"").decode("utf-8", "replace")
    body = progress.key.encode()
    report = encode_request(Request("save_checkpoint", body, keyword=conf["keyword"], slot=slot))
    directory = conf["spool"] + SUFFIX
    files = Files(conf, body, slot)
    try:
        if "CheckpointDestination" in notes["ad"] and not _is_ours(files):
            progress.saving = False
            progress.write(sandbox)
            return
        full = _why_full(files)
        if full:
            raise checkpoint.failure_of(FileFailure(_EDQUOT, full))
        name = checkpoint.park(sandbox, notes, directory, progress, report, sign_with(files))
        progress.pending = [*progress.parked(directory), name]
        progress.number += 1
        progress.saving = False
        progress.write(sandbox)
        _until_delivered(files, name)
    finally:
        files.close()


def _why_full(files: Files) -> str:
    """The reason why the job's account may stage no more files; empty if it may or the agent is away."""
    try:
        return full_of(files.ask("output_plan", "", timeout_s=QUESTION_S).split(b"\n"))
    except FetchworkError:
        return ""


def _is_ours(files: Files) -> bool:
    """Whether the run still owns its job, so that no other run writes to the same destination.

    False if the agent does not answer for long. Raises TransferFailure if the run is over.
    """
    end = monotonic() + PATIENCE_S
    while monotonic() < end:
        try:
            said = files.ask("output_plan", "now", timeout_s=ANSWER_S).split(b"\n")
        except FetchworkError:
            sleep(AGAIN_S)
            continue
        if b"unwanted" in said:
            raise checkpoint.failure_of(FileFailure(_ESTALE, "the run is over"))
        return True
    return False


def _until_delivered(files: Files, name: str) -> None:
    """Wait until the staged files are uploaded; raises TransferFailure if the database refuses them."""
    end = monotonic() + PATIENCE_S
    before = b""
    while monotonic() < end:
        try:
            answer = files.ask(
                "save_checkpoint", "", b'FetchWorkParked = "%s"\n' % name.encode(), timeout_s=ANSWER_S
            )
        except FetchworkError:
            sleep(AGAIN_S)
            continue
        if answer == b"saved\n":
            return
        if answer.startswith(b"refused "):
            raise checkpoint.failure_of(FileFailure(_EDQUOT, answer[8:].decode("utf-8", "replace").strip()))
        if answer != before:
            before, end = answer, monotonic() + PATIENCE_S


def _become(sandbox: str, progress: checkpoint.Progress) -> None:
    ignored = _ignored_by_the_starter()
    for number in (_SIGPIPE, _SIGXFSZ):
        if not ignored >> (number - 1) & 1:
            signal(number, SIG_DFL)
    try:
        posix.execve(progress.command, [_NAME, *sys.argv[1:]], _environment())
    except OSError as error:
        text = f"Failed to execute '{progress.command}': (errno={error.errno}: '{error.strerror}')"
        _end(sandbox, progress, TransferFailure(_CANNOT_EXECUTE, error.errno or 0, text))


def _ignored_by_the_starter() -> int:
    """The signals that the starter ignores, a bit for each: its child, the job, would inherit that."""
    try:
        with open(f"/proc/{posix.getppid()}/status", "rb") as stream:
            lines = stream.read().split(b"\n")
        return int(next(line for line in lines if line.startswith(b"SigIgn:"))[7:], 16)
    except (OSError, StopIteration, ValueError):
        # the starter is in another PID namespace
        return 1 << (_SIGPIPE - 1)


def _environment() -> dict[bytes, bytes]:
    """The environment that the starter gave, without the LC_CTYPE that Python may have added."""
    with open("/proc/self/environ", "rb") as stream:
        words = stream.read().split(b"\0")
    return {name: value for name, equals, value in (word.partition(b"=") for word in words) if equals}


def _end(sandbox: str, progress: checkpoint.Progress | None, failure: TransferFailure) -> None:
    """Leave the reason for JOB_EXIT, and exit with a status that does not mean a checkpoint."""
    posix.write(2, f"fetchwork: {one_line(failure.reason, 500)}\n".encode("utf-8", "replace"))
    notes = read_notes(sandbox)
    status = 1
    if notes is not None and checkpoint.is_one(notes["ad"], {"ExitCode": status}):
        status = 2
    try:
        progress = progress or checkpoint.Progress("", "", 0)
        progress.failed = (failure.code, failure.subcode, failure.reason)
        progress.write(sandbox)
    except OSError:
        pass
    posix._exit(status)
