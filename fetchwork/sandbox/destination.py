"""checkpoint_destination: a checkpoint that plugins take to URLs, with HTCondor's manifest.

The files of checkpoint N of a job are at ``DESTINATION/GLOBALJOBID/NNNN/NAME``, with '_' for '#' in the id.
The manifest, which stays in the queue, has a line "SHA-256 *NAME" for each file, and as the last line one for
itself (manifest.cpp). Plugins check nothing, so fetched files are compared with the manifest before their
use.
"""

from __future__ import annotations

import hashlib
import os
import re

from fetchwork.hookerrors import FetchworkError
from fetchwork.sandbox import names, plugins
from fetchwork.sandbox.failure import FileFailure, of_file, open_regular
from fetchwork.sandbox.outputs import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    #: presigns a URL for writing. Raises FetchworkError.
    Sign = Callable[[str], str]

_CHUNK = 1 << 20
_LINE = re.compile(r"([0-9a-f]{64}) \*?(.+)")


def base_of(ad: Mapping[str, object], number: int) -> str:
    """The common beginning of a checkpoint's URLs; raises FileFailure if the destination is no URL."""
    destination, job = ad.get("CheckpointDestination"), ad.get("GlobalJobId")
    if not isinstance(destination, str) or not isinstance(job, str) or not names.scheme_of(destination):
        raise FileFailure(22, "checkpoint_destination is no URL")
    slash = "" if destination.endswith("/") else "/"
    return f"{destination}{slash}{job.replace('#', '_')}/{number:04d}/"


def send(
    files: Iterable[Output],
    base: str,
    number: int,
    notes: Mapping[str, Any],
    sandbox: str,
    end: float,
    sign: Sign,
) -> list[Output]:
    """Send the files of a checkpoint to URLs below ``base``, and write the manifest in the sandbox.

    Return the files and the manifest. The sending ends before the monotonic time ``end``. Raises FileFailure.
    """
    # a URL has no directories
    sent = [output for output in files if not output.directory]
    for output in sent:
        output.url = base + output.name
    manifest = manifest_of(sent, number)
    failure = upload(sent, notes, sandbox, end, sign)
    if failure is None and manifest != manifest_of(sent, number):
        failure = FileFailure(16, "a file of the checkpoint changed while it was sent")
    if failure is not None:
        raise failure
    path = f"{sandbox}/{names.MANIFEST}{number:04d}"
    try:
        with open(
            path, "wb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600)
        ) as stream:
            stream.write(manifest)
    except OSError as error:
        raise of_file("writing to file", path, error) from None
    return [*sent, Output(os.path.basename(path), path, 0o600, len(manifest))]


def upload(
    files: Iterable[Output], notes: Mapping[str, Any], sandbox: str, end: float, sign: Sign
) -> FileFailure | None:
    """Have plugins send files to their URLs before the monotonic time ``end``; return the first failure."""
    moves = []
    for output in files:
        if not output.url:
            continue
        path = os.path.abspath(output.path)
        if not (notes.get("has_key") and names.scheme_of(output.url) in names.PRESIGNED):
            moves.append(plugins.Move(output.url, path))
            continue
        try:
            moves.append(plugins.Move(sign(output.url), path, output.url))
        except FetchworkError as error:
            # EACCES
            return FileFailure(13, f"writing to {output.url}: {error}")
    if not moves:
        return None
    runner = plugins.runner(notes["plugins"], notes["ad"], sandbox, float(notes["plugin_limit_s"]))
    moved = runner.move(moves, upload=True, end=end)
    return next((one.failure for one in moved if one.failure is not None), None)


def manifest_of(files: Iterable[Output], number: int) -> bytes:
    """The manifest of a checkpoint's files; raises FileFailure for a file that can't be in it."""
    lines = []
    for output in files:
        if "\n" in output.name or output.name.startswith(names.MANIFEST):
            raise FileFailure(
                84, f"the name of file '{output.name}' can't be in the manifest of a checkpoint"
            )
        lines.append(f"{_sha256(output.path)} *{output.name}\n")
    text = "".join(lines).encode()
    return text + f"{hashlib.sha256(text).hexdigest()} *{names.MANIFEST}{number:04d}\n".encode()


def problem_of(manifest: bytes, directory: str, there: Iterable[str]) -> str:
    """Why the files in ``directory`` are not the checkpoint of a manifest; empty if they are.

    ``there`` has the names of the fetched files.
    """
    text, _, last = manifest.removesuffix(b"\n").rpartition(b"\n")
    text += b"\n" if text else b""
    own = _LINE.fullmatch(last.decode("utf-8", "replace"))
    if own is None or not own[2].startswith(names.MANIFEST) or own[1] != hashlib.sha256(text).hexdigest():
        return "its manifest is not whole"
    listed = {}
    for line in text.decode("utf-8", "replace").split("\n")[:-1]:
        found = _LINE.fullmatch(line)
        if found is None:
            return "its manifest is not one"
        listed[found[2]] = found[1]
    if set(there) != set(listed):
        return "its manifest lists other files"
    for name, expected in listed.items():
        try:
            if _sha256(f"{directory}/{name}") != expected:
                return f"file '{name}' is not what was saved"
        except FileFailure as failure:
            return failure.details
    return ""


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    try:
        fd, left = open_regular(path)
        try:
            # bytes that are appended meanwhile do not belong to the file
            while data := os.read(fd, min(_CHUNK, left)):
                digest.update(data)
                left -= len(data)
        finally:
            os.close(fd)
    except OSError as error:
        raise of_file("reading from file", path, error) from None
    return digest.hexdigest()
