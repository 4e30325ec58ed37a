"""JOB_EXIT's part: what the job leaves is chosen, sent to URLs by plugins, the rest parked for the agent.

The job could have changed the notes of PREPARE_JOB, which are in its sandbox and of its account: they
decide only what of its own files goes where it could have sent them itself.
"""

from __future__ import annotations

import time

from fetchwork.sandbox import checkpoint, names, outputs
from fetchwork.sandbox.failure import FileFailure, TransferFailure, of_output, too_large
from fetchwork.sandbox.jsontext import from_json
from fetchwork.sandbox.parking import Parking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_MB = 1 << 20
#: seconds that are left for parking and the report when plugins have to end
RESERVE_S = 5.0


class Ended:
    """How the job's time ended: by its own exit, with this ExitCode or ExitSignal, or from outside.

    ``unwanted``: nobody wants what it leaves, as it was removed. ``full``: why there is no room for it.
    """

    def __init__(
        self, *, evicted: bool, unwanted: bool, status: Mapping[str, object], full: str = ""
    ) -> None:
        self.evicted = evicted
        self.unwanted = unwanted
        self.full = full
        self.status = status


def read_notes(sandbox: str) -> dict[str, Any] | None:
    """The notes of PREPARE_JOB; None where it did not come so far, or where they can't be read."""
    try:
        with open(f"{sandbox}/{names.NOTES}", encoding="utf-8") as stream:
            notes: Any = from_json(stream.read())
        before = {str(name): (int(when), int(size)) for name, (when, size) in notes["before"].items()}
        return {**notes, "before": before}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def leave(
    sandbox: str,
    directory: str,
    ended: Ended,
    report: bytes,
    end: float,
    sign: Callable[[str], str],
) -> str | None:
    """Park what the job leaves below ``directory``; the name of its directory, None for nothing to park.

    Uploads end before the monotonic time ``end``; ``sign`` gives the URL with which an object may be PUT,
    or raises FetchworkError. Raises TransferFailure where nobody knows what to take.
    """
    began = time.monotonic()
    notes = read_notes(sandbox)
    if notes is None:
        # a job is not complete of which nobody knows what it was to leave
        raise of_output(f"reading from file {sandbox}/{names.NOTES}: the job has removed or changed it", 2)
    ad = notes["ad"]
    how = outputs.ending(ad, ended.status, evicted=ended.evicted)
    use = None if ended.unwanted else outputs.use_of(ad, how)
    progress = checkpoint.read(sandbox) if checkpoint.wanted(ad) and not ended.unwanted else None
    # what it saved last is to be there before its run ends
    more: dict[str, object] = {"how": how, "after": progress.parked(directory) if progress else []}
    choice = outputs.Choice(ad, sandbox, notes["before"])
    is_checkpoint = (
        progress is not None and how == "evicted" and (progress.saving or checkpoint.is_one(ad, ended.status))
    )
    if is_checkpoint and progress is not None:
        # it ended for one, and nobody comes to save it
        use = "spool" if choice.choose_checkpoint().failure is None else None
        more["number"] = progress.number
    elif use is not None:
        choice.choose(how)
    if use is None or (ended.full and use == "spool"):
        return park_report(directory, report, more)
    failure = _failure_of(choice.failure)
    if ended.full and any(not one.url for one in choice.files.values()):
        # EDQUOT
        failure = of_output(ended.full, 122)
        choice.files = {}
    limit = ad.get("MaxTransferOutputMB")
    if use == "output" and type(limit) is int and 0 <= limit * _MB < choice.size:
        failure = failure or too_large("output", limit, choice.size)
        # the job's output and errors say more than nothing
        choice.files = {
            name: one for name, one in choice.files.items() if name in (names.STDOUT, names.STDERR)
        }
    files = list(choice.files.values())
    if is_checkpoint and progress is not None:
        sent = _sent(files, progress.number, notes, sandbox, end - RESERVE_S, sign)
        if sent is None:
            return park_report(directory, report, more)
        files = sent
    elif any(one.url for one in files):
        from fetchwork.sandbox.destination import upload

        failure = failure or _failure_of(upload(files, notes, sandbox, end - RESERVE_S, sign))
    parking = Parking(directory)
    try:
        lost = parking.take(files)
        if lost is not None and is_checkpoint:
            # half of one is of no use, and the one before is whole
            parking.drop()
            return park_report(directory, report, more)
        failure = failure or _failure_of(lost)
        return parking.finish(report, use, failure, seconds=round(time.monotonic() - began, 3), **more)
    except BaseException:
        parking.drop()
        raise


def park_report(directory: str, report: bytes, more: Mapping[str, object]) -> str | None:
    """Park the report by itself, where it has to come after checkpoints that are not delivered yet.

    ``more``: "how" it ended, and "after", the names of these; the name of the directory, None where there is
    none of them. Raises TransferFailure.
    """
    if not more["after"]:
        return None
    parking = Parking(directory)
    try:
        return parking.finish(report, "nothing", None, how=more["how"], after=more["after"])
    except BaseException:
        parking.drop()
        raise


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
    """What is to be parked of a checkpoint, which goes to its destination; None where it can't get there."""
    if "CheckpointDestination" not in notes["ad"]:
        return files
    from fetchwork.sandbox import destination

    try:
        base = destination.base_of(notes["ad"], number)
        return destination.send(files, base, number, notes, sandbox, end, sign)
    except FileFailure:
        # half of one is of no use, and the one before is whole
        return None
