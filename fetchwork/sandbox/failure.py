"""Failures of file transfers, with HTCondor's hold code, subcode and text."""

import os
import stat
from errno import EINVAL, EISDIR

from fetchwork.codes import HoldCode
from fetchwork.hookerrors import FetchworkError, one_line

#: characters of a reason
MAX_REASON = 1000
#: this subcode and those below it say that the host is at fault, not the job (condor_holdcodes.h). It stands
#: in sql/functions/runs/fail_inputs.sql too: the function decides, and the agent's log says the same
OF_THE_HOST = -1000


class TransferFailure(FetchworkError):
    """A job's files could not be moved; ``code`` and ``subcode`` are those of the hold that follows."""

    def __init__(self, code: int, subcode: int, reason: str) -> None:
        super().__init__(one_line(reason, MAX_REASON))
        self.code = code
        self.subcode = subcode
        self.reason = one_line(reason, MAX_REASON)


class FileFailure(Exception):
    """One file could not be moved; ``subcode`` is the errno or a plugin's result."""

    def __init__(self, subcode: int, details: str) -> None:
        super().__init__(details)
        self.subcode = subcode
        self.details = details


def of_file(action: str, path: str, error: OSError | int) -> FileFailure:
    """The failure of an action ("reading from file", "writing to file") on a path, in HTCondor's words."""
    number = error if isinstance(error, int) else error.errno or 0
    return FileFailure(number, f"{action} {path}: (errno {number}) {os.strerror(number)}")


def of_linked_directory(path: str) -> FileFailure:
    """The failure for a link to a directory: it may lead anywhere, so HTCondor sends no such link."""
    failure = of_file("reading from file", path, EISDIR)
    return FileFailure(EISDIR, f"{failure.details}- Transfer of symlinks to directories is not supported.")


def status_of(path: str) -> os.stat_result:
    """The status of the file at ``path``; raises FileFailure."""
    try:
        return os.stat(path)
    except OSError as error:
        raise of_file("reading from file", path, error) from None


def open_regular(path: str) -> tuple[int, int]:
    """Open a regular file for reading; return its descriptor and its bytes. Raises OSError for any other.

    A job may put a pipe or a device in a file's place, which would never end.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise OSError(EINVAL, os.strerror(EINVAL))
    return fd, status.st_size


def of_input(details: str, subcode: int) -> TransferFailure:
    """The failure of inputs that did not come into the sandbox."""
    return TransferFailure(
        HoldCode.TRANSFER_INPUT_ERROR,
        subcode,
        "Transfer input files failure at execution point while receiving files from access point."
        f" Details: {details}",
    )


def of_output(details: str, subcode: int) -> TransferFailure:
    """The failure of outputs that did not leave the sandbox."""
    return TransferFailure(
        HoldCode.TRANSFER_OUTPUT_ERROR,
        subcode,
        "Transfer output files failure at execution point while sending files to access point."
        f" Details: {details}",
    )


def too_large(way: str, limit_mb: int, size: int) -> TransferFailure:
    """The failure of more bytes than the job's own limit allows; ``way`` is "input" or "output"."""
    code = HoldCode.MAX_TRANSFER_INPUT_SIZE if way == "input" else HoldCode.MAX_TRANSFER_OUTPUT_SIZE
    return TransferFailure(
        code, 0, f"Files of the job's {way} have {size} bytes; max_transfer_{way}_mb allows {limit_mb} MB"
    )
