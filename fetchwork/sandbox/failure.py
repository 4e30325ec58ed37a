"""Why files could not be moved, as HTCondor holds a job for it: code, subcode and text."""

import os
from errno import EISDIR

from fetchwork.codes import HoldCode
from fetchwork.hookerrors import FetchworkError, one_line

#: characters of a reason
MAX_REASON = 1000
#: a subcode from here down says that the host is at fault, and not the job (condor_holdcodes.h). HTCondor's
#: number, which sql/functions/runs/fail_inputs.sql has too: that decides, and the agent's log says the same
OF_THE_HOST = -1000


class TransferFailure(FetchworkError):
    """Files of a job could not be moved; ``code`` and ``subcode`` are those of the hold that follows."""

    def __init__(self, code: int, subcode: int, reason: str) -> None:
        super().__init__(one_line(reason, MAX_REASON))
        self.code = code
        self.subcode = subcode
        self.reason = one_line(reason, MAX_REASON)


class FileFailure(Exception):
    """One file could not be moved: what was done with it, and the errno, or a plugin's result."""

    def __init__(self, subcode: int, details: str) -> None:
        super().__init__(details)
        self.subcode = subcode
        self.details = details


def of_file(what: str, path: str, error: OSError | int) -> FileFailure:
    """The failure of ``what`` ("reading from file", "writing to file") at ``path``, as HTCondor says it."""
    number = error if isinstance(error, int) else error.errno or 0
    return FileFailure(number, f"{what} {path}: (errno {number}) {os.strerror(number)}")


def of_linked_directory(path: str) -> FileFailure:
    """What is named is a link to a directory: it may lead anywhere, so HTCondor sends none."""
    failure = of_file("reading from file", path, EISDIR)
    return FileFailure(EISDIR, f"{failure.details}- Transfer of symlinks to directories is not supported.")


def status_of(path: str) -> os.stat_result:
    """What there is at ``path``; raises FileFailure."""
    try:
        return os.stat(path)
    except OSError as error:
        raise of_file("reading from file", path, error) from None


def of_input(details: str, subcode: int) -> TransferFailure:
    """Inputs did not come into the sandbox."""
    return TransferFailure(
        HoldCode.TRANSFER_INPUT_ERROR,
        subcode,
        "Transfer input files failure at execution point while receiving files from access point."
        f" Details: {details}",
    )


def of_output(details: str, subcode: int) -> TransferFailure:
    """Outputs did not leave the sandbox."""
    return TransferFailure(
        HoldCode.TRANSFER_OUTPUT_ERROR,
        subcode,
        "Transfer output files failure at execution point while sending files to access point."
        f" Details: {details}",
    )


def too_large(way: str, limit_mb: int, size: int) -> TransferFailure:
    """More bytes than the job allows itself; ``way`` is "input" or "output"."""
    code = HoldCode.MAX_TRANSFER_INPUT_SIZE if way == "input" else HoldCode.MAX_TRANSFER_OUTPUT_SIZE
    return TransferFailure(
        code, 0, f"Files of the job's {way} have {size} bytes; max_transfer_{way}_mb allows {limit_mb} MB"
    )
