"""JOB_EXIT's part: it chooses the outputs, has plugins send some to URLs, and stages the rest for the agent.

The notes of PREPARE_JOB are in the sandbox and belong to the job's account, so the job could have changed
them: they decide only about the job's own files, and only on places where it could have sent these by itself.
"""

from __future__ import annotations

import time

from fetchwork.sandbox import checkpoint, names, outputs
from fetchwork.sandbox.failure import FileFailure, TransferFailure, of_output, open_regular, too_large
from fetchwork.sandbox.jsontext import from_json
from fetchwork.sandbox.parking import Parking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_MB = 1 << 20
#: seconds that are left for staging and the report when plugins have to end
RESERVE_S = 5.0
#: characters of the notes, which have a line for each file of the sandbox; a job may make them endless
_MAX_NOTES = 64 << 20


class Ended:
    """The end of the job: by its own exit, with the ExitCode or ExitSignal of ``status``, or ``evicted``.

    ``unwanted``: the job was removed, so its outputs are not needed. ``full``: why they have no room.
    """

    def __init__(
        self, *, evicted: bool, unwanted: bool, status: Mapping[str, object], full: str = ""
    ) -> None:
        self.evicted = evicted
        self.unwanted = unwanted
        self.full = full
        self.status = status


def read_notes(sandbox: str) -> dict[str, Any] | None:
    """The notes of PREPARE_JOB; None if it did not come so far, or if they can't be read."""
    try:
        with open(open_regular(f"{sandbox}/{names.NOTES}")[0], encoding="utf-8") as stream:
            notes: Any = from_json(stream.read(_MAX_NOTES))
        before = {str(name): (int(when), int(size)) for name, (when, size) in notes["before"].items()}
        return {**notes, "before": before}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def leave(
    sandbox: str,
    directory: str,
    ended: Ended,
    report: bytes,
    end: float,
    sign: Callable[[str], str],
) -> str | None:
    """Stage the outputs below ``directory``; return their directory's name, None if nothing was to stage.

    Plugins end before the monotonic time ``end``; ``sign`` gives the URL with which an object may be PUT, or
    raises FetchworkError. Raises TransferFailure if the notes are lost.
    """
    began = time.monotonic()
    notes = read_notes(sandbox)
    if notes is None:
        # without the notes the outputs are unknown, so the job does not count as complete
        raise of_output(f"reading from file {sandbox}/{names.NOTES}: the job has removed or changed it", 2)
    ad = notes["ad"]
    how = outputs.ending(ad, ended.status, evicted=ended.evicted)
    use = None if ended.unwanted else outputs.use_of(ad, how)
    progress = checkpoint.read(sandbox) if checkpoint.wanted(ad) and not ended.unwanted else None
    # its last checkpoint has to be uploaded before its run ends
    more: dict[str, object] = {"how": how, "after": progress.parked(directory) if progress else []}
    choice = outputs.Choice(ad, sandbox, notes["before"])
    is_checkpoint = (
        progress is not None and how == "evicted" and (progress.saving or checkpoint.is_one(ad, ended.status))
    )
    if is_checkpoint and progress is not None:
        # it ended for a checkpoint, and ``checkpointed`` will not save it
        use = "spool" if choice.choose_checkpoint().failure is None else None
        more["number"] = progress.number
    elif use is not None:
        choice.choose(how)
    if use is None or (ended.full and use == "spool"):
        return park_report(directory, report, more)
    failure = _limit(choice, ended.full, ad.get("MaxTransferOutputMB") if use == "output" else None)
    files = list(choice.files.values())
    if is_checkpoint and progress is not None:
        sent = _sent(files, progress.number, notes, sandbox, end - RESERVE_S, sign)
        if sent is None:
            return park_report(directory, report, more)
        files = sent
    elif any(output.url for output in files):
        from fetchwork.sandbox.destination import upload

        failure = failure or _failure_of(upload(files, notes, sandbox, end - RESERVE_S, sign))
    parking = Parking(directory)
    try:
        lost = parking.take(files)
        if lost is not None and is_checkpoint:
            # half a checkpoint is of no use, and the previous one is whole
            parking.drop()
            return park_report(directory, report, more)
        failure = failure or _failure_of(lost)
        return parking.finish(report, use, failure, seconds=round(time.monotonic() - began, 3), **more)
    except BaseException:
        parking.drop()
        raise


def park_report(directory: str, report: bytes, more: Mapping[str, object]) -> str | None:
    """Stage the report alone, if it has to come after checkpoints that are not uploaded yet.

    ``more``: "how" the job ended, and "after", the names of these checkpoints. Return the directory's name,
    or None without such a checkpoint. Raises TransferFailure.
    """
    if not more["after"]:
        return None
    parking = Parking(directory)
    try:
        return parking.finish(report, "nothing", None, how=more["how"], after=more["after"])
    except BaseException:
        parking.drop()
        raise


def _limit(choice: outputs.Choice, full: str, limit_mb: object) -> TransferFailure | None:
    """Drop chosen files without room or above the job's own limit; return why the outputs are not whole."""
    if full and any(not output.url for output in choice.files.values()):
        choice.files = {}
        # EDQUOT
        return of_output(full, 122)
    failure = _failure_of(choice.failure)
    if type(limit_mb) is int and 0 <= limit_mb * _MB < choice.size:
        failure = failure or too_large("output", limit_mb, choice.size)
        # the job's output and errors are better than nothing
        choice.files = {
            name: output for name, output in choice.files.items() if name in (names.STDOUT, names.STDERR)
        }
    return failure


def _failure_of(failure: FileFailure | None) -> TransferFailure | None:
    return of_output(failure.details, failure.subcode) if failure is not None else None


def _sent(
    files: list[outputs.Output],
    number: int,
    notes: Mapping[str, Any],
    sandbox: str,
    end: float,
    sign: Callable[[str], str],
) -> list[outputs.Output] | None:
    """Send a checkpoint to its destination, if it has one; return the files to be staged, None on failure."""
    if "CheckpointDestination" not in notes["ad"]:
        return files
    from fetchwork.sandbox import destination

    try:
        base = destination.base_of(notes["ad"], number)
        return destination.send(files, base, number, notes, sandbox, end, sign)
    except FileFailure:
        # half a checkpoint is of no use, and the previous one is whole
        return None
