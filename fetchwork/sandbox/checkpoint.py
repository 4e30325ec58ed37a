"""Self-checkpointing: the files that a job saves when it ends only to be started again.

When a fetched job ends with its ``checkpoint_exit_code``, HTCondor's starter starts it again in its sandbox
and saves nothing. So PREPARE_JOB has the starter run ``hooks/checkpointed`` in the job's place: that program
saves the checkpoint, if the job has run before, and then becomes the job. ``Progress``, a file in the
sandbox, keeps the state from one execution to the next. The job could change it, so it decides about the
job's files only.
"""

from __future__ import annotations

import os

from fetchwork.sandbox import names, outputs
from fetchwork.sandbox.failure import FileFailure, TransferFailure, open_regular
from fetchwork.sandbox.jsontext import from_json, to_json
from fetchwork.sandbox.parking import Parking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from fetchwork.sandbox.outputs import Use

#: HTCondor's FailedToCheckpoint
HOLD_CODE = 36
HOLD_SUBCODE = -1
#: characters of the progress
_MAX_PROGRESS = 4 << 20
#: the use of a staged checkpoint, in its manifest
USE: Use = "checkpoint"


class Progress:
    """The state of a job over its executions on this host.

    ``command`` is the job's own executable, ``key`` the lines of its ad that name its run, ``number`` that of
    the next checkpoint. ``begun``: the job has been executed here. ``saving``: its last execution ended for a
    checkpoint, which lies unsaved in the sandbox. ``pending``: staged checkpoints, some of which the agent
    may have uploaded. ``failed``: why the job can't go on.
    """

    def __init__(self, command: str, key: str, number: int) -> None:
        self.command = command
        self.key = key
        self.number = number
        self.begun = False
        self.saving = False
        self.pending: list[str] = []
        self.failed: tuple[int, int, str] | None = None

    def write(self, sandbox: str) -> None:
        """Write the file in the sandbox atomically; raises OSError."""
        path = f"{sandbox}/{names.PROGRESS}"
        with open(
            f"{path}.new", "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)
        ) as stream:
            stream.write(to_json(dict(vars(self))))
        os.rename(f"{path}.new", path)

    def parked(self, directory: str) -> list[str]:
        """The checkpoints that are still in ``directory``: not uploaded yet."""
        return [name for name in self.pending if os.path.exists(f"{directory}/{name}")]


def read(sandbox: str) -> Progress | None:
    """The progress that was written in the sandbox; None if there is no such file, or it can't be read."""
    try:
        with open(open_regular(f"{sandbox}/{names.PROGRESS}")[0], encoding="utf-8") as stream:
            written: Any = from_json(stream.read(_MAX_PROGRESS))
        progress = Progress(str(written["command"]), str(written["key"]), int(written["number"]))
        progress.begun, progress.saving = written["begun"] is True, written["saving"] is True
        progress.pending = [str(name) for name in written["pending"] if "/" not in str(name)]
        if written["failed"] is not None:
            code, subcode, reason = written["failed"]
            progress.failed = (int(code), int(subcode), str(reason))
        return progress
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def wanted(ad: Mapping[str, object]) -> bool:
    """Whether a job saves checkpoints."""
    return ad.get("WantFTOnCheckpoint") is True


def is_one(ad: Mapping[str, object], status: Mapping[str, object]) -> bool:
    """Whether a job with this end (ExitCode or ExitSignal) ended for a checkpoint, as the starter sees it."""
    if not wanted(ad):
        return False
    if ad.get("SuccessCheckpointExitBySignal") is True:
        return "ExitSignal" in status and status["ExitSignal"] == ad.get("SuccessCheckpointExitSignal")
    return "ExitSignal" not in status and status.get("ExitCode") == ad.get("SuccessCheckpointExitCode", 0)


def park(
    sandbox: str,
    notes: Mapping[str, Any],
    directory: str,
    progress: Progress,
    report: bytes,
    sign: Callable[[str], str],
) -> str:
    """Copy the checkpoint in the sandbox to a new directory below ``directory``, and return its name.

    ``sign`` presigns a URL of the checkpoint's destination.

    Raises TransferFailure if one of its files can't be read, FetchworkError if it can't be staged.
    """
    choice = outputs.Choice(notes["ad"], sandbox, notes["before"]).choose_checkpoint()
    if choice.failure is not None:
        raise failure_of(choice.failure)
    files = list(choice.files.values())
    if "CheckpointDestination" in notes["ad"]:
        files = _sent(files, progress.number, notes, sandbox, sign)
    parking = Parking(directory, copy=True)
    try:
        failure = parking.take(files)
        if failure is not None:
            raise failure_of(failure)
        return parking.finish(report, USE, None, number=progress.number, after=progress.parked(directory))
    except BaseException:
        parking.drop()
        raise
    finally:
        for output in files:
            if output.path.startswith(f"{sandbox}/{names.MANIFEST}"):
                os.unlink(output.path)


def _sent(
    files: list[outputs.Output],
    number: int,
    notes: Mapping[str, Any],
    sandbox: str,
    sign: Callable[[str], str],
) -> list[outputs.Output]:
    """Send a checkpoint to its destination, and return the files to be staged. Raises TransferFailure."""
    from fetchwork.sandbox import destination

    try:
        base = destination.base_of(notes["ad"], number)
        return destination.send(files, base, number, notes, sandbox, float("inf"), sign)
    except FileFailure as failure:
        raise failure_of(failure) from None


def failure_of(failure: FileFailure) -> TransferFailure:
    """The hold for a checkpoint that can't be saved; as HTCondor's starter, without an errno."""
    return TransferFailure(HOLD_CODE, HOLD_SUBCODE, f"Failed to checkpoint: {failure.details}")
