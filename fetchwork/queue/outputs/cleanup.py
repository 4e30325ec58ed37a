"""Deletes checkpoints at their destination that no run needs any more, by HTCondor's clean-up plug-ins.

As for HTCondor's schedd, the map file CHECKPOINT_DESTINATION_MAPFILE names the plug-in for each URL prefix:
lines ``* PREFIX PLUGIN,ARGUMENT,...``; the longest matching prefix counts. The plug-in is run for each file,
as ``PLUGIN ARGUMENT... -from BASE -delete FILE -jobad PATH`` (manifest.cpp), with the caller's rights.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fetchwork.classad.ads import print_old
from fetchwork.classad.values import ClassAd
from fetchwork.db.calls import files
from fetchwork.db.calls.files import LeftCheckpoint
from fetchwork.db.database import Database
from fetchwork.errors import FetchworkError, one_line
from fetchwork.sandbox import hostsettings

_SETTINGS = ("CHECKPOINT_DESTINATION_MAPFILE", "LIBEXEC", "CHECKPOINT_CLEANUP_TIMEOUT")
#: seconds for one file: HTCondor's default
_TIMEOUT_S = 20.0
# variables of the daemon that runs us
_PRIVATE = ("CONDOR_INHERIT", "CONDOR_PRIVATE_INHERIT")


class Cleaners:
    """The clean-up plug-ins of this machine; raises FetchworkError if its settings can't be read."""

    def __init__(self) -> None:
        try:
            path, self._libexec, timeout = hostsettings.ask(*_SETTINGS)
        except hostsettings.SettingsUnknown as error:
            raise FetchworkError(f"cannot find this machine's clean-up plug-ins: {error}") from None
        #: seconds for one file
        self.timeout_s = float(timeout) if timeout.isdecimal() else _TIMEOUT_S
        try:
            text = Path(path).read_text() if path else ""
        except OSError as error:
            raise FetchworkError(
                f"cannot read '{path}' (CHECKPOINT_DESTINATION_MAPFILE): {error.strerror}"
            ) from None
        lines = [line.split() for line in text.splitlines() if not line.lstrip().startswith("#")]
        self._commands = sorted(
            ((words[1], words[2].split(",")) for words in lines if len(words) == 3 and words[0] == "*"),
            key=lambda entry: -len(entry[0]),
        )

    def command(self, base: str) -> list[str]:
        """The command for a checkpoint at ``base``; raises FetchworkError if no plug-in fits it."""
        for prefix, words in self._commands:
            if base.startswith(prefix):
                program, *arguments = (word.replace("\\0", prefix) for word in words)
                return [str(Path(self._libexec) / program), *arguments]
        raise FetchworkError("no clean-up plug-in is registered for it (CHECKPOINT_DESTINATION_MAPFILE)")


def delete(
    command: Sequence[str],
    timeout_s: float,
    checkpoint: LeftCheckpoint,
    environ: Mapping[str, str],
    within_s: float = float("inf"),
) -> int:
    """Delete a checkpoint's files; raises FetchworkError at the first that can't be deleted.

    ``environ`` is the plug-in's environment. Returns the number of deleted files: after the first file, none
    is begun unless ``timeout_s`` are left of ``within_s`` seconds.
    """
    end = time.monotonic() + within_s
    ad = ClassAd()
    ad["ClusterId"], ad["ProcId"] = checkpoint.cluster_id, checkpoint.proc_id
    ad["Owner"] = checkpoint.owner
    with tempfile.NamedTemporaryFile("w", suffix=".job.ad") as job_ad:
        job_ad.write(print_old(ad))
        job_ad.flush()
        for deleted, name in enumerate(checkpoint.names):
            left_s = end - time.monotonic()
            if deleted and left_s < timeout_s:
                return deleted
            words = ["-from", checkpoint.base, "-delete", name, "-jobad", job_ad.name]
            _run([*command, *words], min(timeout_s, left_s), environ)
    return len(checkpoint.names)


def _run(argv: list[str], timeout_s: float, environ: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            # an earlier try may have deleted the file
            [*argv, "-ignore-missing-files"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            env=environ,
            check=False,
        )
    except OSError as error:
        raise FetchworkError(f"cannot run '{argv[0]}': {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise FetchworkError(f"'{argv[0]}' was not done in {timeout_s:.0f} s") from None
    if done.returncode:
        said = one_line(done.stdout.decode("utf-8", "replace").strip(), 300)
        raise FetchworkError(f"'{argv[0]}' ends with {done.returncode}: {said}")


def clean_up(database: Database) -> Iterator[tuple[str, str]]:
    """Delete the caller's unneeded checkpoints; yields each with the reason that it can't be deleted, or "".

    Repeating an interrupted or finished clean-up gives the same result.
    """
    cleaners: Cleaners | None = None
    environ = {name: value for name, value in os.environ.items() if name not in _PRIVATE}
    # failed checkpoints stay at the front; skip them to reach the others
    failed = 0
    while page := database.run(files.left_checkpoints(but_for=failed)):
        for left in page:
            cleaners = cleaners or Cleaners()
            try:
                delete(cleaners.command(left.base), cleaners.timeout_s, left, environ)
            except FetchworkError as error:
                failed += 1
                yield left.base, str(error)
                continue
            database.run(files.forget_checkpoint(cluster=left.cluster_id, proc=left.proc_id, base=left.base))
            yield left.base, ""
