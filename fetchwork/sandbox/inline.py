"""Few and small files travel inside the hooks' own requests and need no interpreter.

PREPARE_JOB's answer carries the inputs, a request ``job_left`` the outputs. This is for the plain case alone:
names without directories, contents, no URL, no checkpoint, a job that ended by itself. Every other job takes
the long way (``fill``, ``leave``), which handles all cases. So does the compiled hook
(``hook/compiled/inline.c``) when the files are not plain; both ways give the same result.

Inputs in an answer: a line "NOTES CMD" (the bytes of the beginning of the notes, and whether the executable
is among the files); these bytes; then for each file a line "MODE SIZE NAME" and its bytes. The notes are
those that ``fill`` writes, as JSON without blanks: ``easy`` comes first and ``before``, the hook's part,
last. Outputs are sent as such lines and bytes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fetchwork.errors import ProtocolError
from fetchwork.sandbox import checkpoint, names, outputs
from fetchwork.sandbox.jsontext import to_json

#: bytes of files in an answer, bytes of files in a request, and the number of files in either
MAX_INPUT = 2 << 20
MAX_OUTPUT = 512 << 10
MAX_FILES = 64
#: bytes of the notes' beginning; the hook adds a line for each file of the sandbox
MAX_NOTES = 64 << 10


def is_plain(name: str) -> bool:
    """Whether a name fits a line and JSON without an escape, and is at the top of a sandbox."""
    return (
        0 < len(name) <= 255
        and name.isascii()
        and name.isprintable()
        and not set(name) & set('/"\\')
        and name not in (".", "..")
    )


def rule_of(ad: Mapping[str, object]) -> str:
    """The outputs of a job that ends by itself: "*" for new or changed files, or "." and names; then streams.

    The parts are separated by "/". Streams, which need not exist, begin with "?". Empty if the job is not
    plain.
    """
    when = str(ad.get("WhenToTransferOutput") or "ON_EXIT").upper()
    listed = ad.get("TransferOutput")
    words = names.words_of(listed)
    plain = (
        when in ("ON_EXIT", "ON_EXIT_OR_EVICT")
        and not checkpoint.wanted(ad)
        and ad.get("MaxTransferOutputMB") is None
        and not ad.get("TransferPlugins")
        and not has_urls(ad)
        and all(is_plain(word) and word[0] not in "?*" for word in words)
    )
    if not plain:
        return ""
    streams = [f"?{stream}" for stream in outputs.streams_of(ad)]
    return "/".join([*((".", *words) if isinstance(listed, str) else "*"), *streams])


def has_urls(ad: Mapping[str, object]) -> bool:
    """Whether any attribute of the ad may be a URL."""
    return any(isinstance(value, str) and "://" in value for value in ad.values())


def encode_inputs(
    ad: Mapping[str, object],
    plugin_limit_s: float,
    files: Iterable[tuple[str, int, bytes]],
    *,
    executable: bool,
) -> bytes | None:
    """The inputs of a job, each as name, mode and bytes, for an answer; None if its notes are too long."""
    notes = {"easy": rule_of(ad), "ad": dict(ad), "plugins": {}, "plugin_limit_s": plugin_limit_s}
    beginning = (to_json(notes)[:-1] + ',"before":{').encode()
    if len(beginning) > MAX_NOTES:
        return None
    parts = [b"%d %d\n" % (len(beginning), executable), beginning]
    for name, mode, data in files:
        parts += [f"{mode} {len(data)} {name}\n".encode(), data]
    return b"".join(parts)


def decode_outputs(section: bytes) -> list[tuple[str, int, bytes]]:
    """A job's outputs, each as name, mode and bytes; raises ProtocolError for a malformed request."""
    files: list[tuple[str, int, bytes]] = []
    at = size = 0
    while at < len(section):
        end = section.find(b"\n", at, at + 300)
        words = section[at:end].decode("utf-8", "replace").split(" ", 2) if end >= 0 else []
        if len(words) != 3 or not (_is_number(words[0]) and _is_number(words[1])) or not is_plain(words[2]):
            raise ProtocolError("the files of a request do not begin with 'MODE SIZE NAME'")
        at = end + 1 + int(words[1])
        size += int(words[1])
        if at > len(section) or len(files) >= MAX_FILES or size > MAX_OUTPUT:
            raise ProtocolError("the files of a request are more, or longer, than it says or may have")
        files.append((words[2], int(words[0]) & 0o777, section[end + 1 : at]))
    return files


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
