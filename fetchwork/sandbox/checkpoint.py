"""Self-checkpointing: what a job saves when it ends only to be started again.

HTCondor's starter starts a fetched job again, in its sandbox, each time that it ends as its
``checkpoint_exit_code`` says, and saves nothing. So PREPARE_JOB has the starter run ``hooks/checkpointed`` in
the job's place: which saves what there is to save, where the job has run before, and then becomes the job.
What is to be remembered from one execution to the next is ``Progress``, a file in the sandbox. The job could
change it: it decides about the job's own files only.
"""

from __future__ import annotations

import os

from fetchwork.sandbox import names, outputs
from fetchwork.sandbox.failure import FileFailure, TransferFailure
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
#: what a directory of parked files is for
USE: Use = "checkpoint"


class Progress:
    """What a job's executions on this host have come to so far.

    ``command`` is the job's own executable, ``key`` the lines of its ad that name its run, ``number`` that of
    the next checkpoint. ``begun``: the job has been executed here. ``saving``: its last execution ended for a
    checkpoint, which lies unsaved in the sandbox. ``pending``: checkpoints that were parked, of which the
    agent may have delivered some. ``failed``: why the job can't go on.
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
        """Keep it in the sandbox, all or nothing; raises OSError."""
        path = f"{sandbox}/{names.PROGRESS}"
        with open(
            f"{path}.new", "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)
        ) as stream:
            stream.write(to_json(dict(vars(self))))
        os.rename(f"{path}.new", path)

    def parked(self, directory: str) -> list[str]:
        """The checkpoints that are still in ``directory``: not delivered yet."""
        return [name for name in self.pending if os.path.exists(f"{directory}/{name}")]


def read(sandbox: str) -> Progress | None:
    """What was kept in the sandbox; None where nothing was, or nobody can read it."""
    try:
        with open(f"{sandbox}/{names.PROGRESS}", encoding="utf-8") as stream:
            kept: Any = from_json(stream.read())
        progress = Progress(str(kept["command"]), str(kept["key"]), int(kept["number"]))
        progress.begun, progress.saving = kept["begun"] is True, kept["saving"] is True
        progress.pending = [str(name) for name in kept["pending"] if "/" not in str(name)]
        if kept["failed"] is not None:
            code, subcode, reason = kept["failed"]
            progress.failed = (int(code), int(subcode), str(reason))
        return progress
    except (OSError, ValueError, TypeError, KeyError):
        return None


def wanted(ad: Mapping[str, object]) -> bool:
    """Whether a job saves checkpoints."""
    return ad.get("WantFTOnCheckpoint") is True


def is_one(ad: Mapping[str, object], status: Mapping[str, object]) -> bool:
    """Whether a job that ended so (ExitCode or ExitSignal) ended for a checkpoint, as the starter sees it."""
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
    """Copy the checkpoint that lies in the sandbox to a directory below ``directory``; its name.

    ``sign`` presigns a URL of its destination.

    Raises TransferFailure where a file of it can't be read, FetchworkError where nothing can be parked.
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
        for one in files:
            if one.path.startswith(f"{sandbox}/{names.MANIFEST}"):
                os.unlink(one.path)


def _sent(
    files: list[outputs.Output],
    number: int,
    notes: Mapping[str, Any],
    sandbox: str,
    sign: Callable[[str], str],
) -> list[outputs.Output]:
    """Take a checkpoint to its destination; what is to be parked of it. Raises TransferFailure."""
    from fetchwork.sandbox import destination

    try:
        base = destination.base_of(notes["ad"], number)
        return destination.send(files, base, number, notes, sandbox, float("inf"), sign)
    except FileFailure as failure:
        raise failure_of(failure) from None


def failure_of(failure: FileFailure) -> TransferFailure:
    """Why a checkpoint can't be saved, as the job is held for it; HTCondor's starter gives no errno."""
    return TransferFailure(HOLD_CODE, HOLD_SUBCODE, f"Failed to checkpoint: {failure.details}")
