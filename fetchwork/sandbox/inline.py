"""Few and small files travel within the hooks' own requests: no interpreter is needed for them.

With PREPARE_JOB's answer come the inputs, with a request ``job_left`` what the job left. That is for the
plain case alone: names without directories, contents, no URL, no checkpoint, the end that the job came to by
itself. Anything else takes the long way (``fill``, ``leave``), which is right for everything, and so does the
compiled hook (``hook/compiled/inline.c``) where what it finds is not plain; each way gives the same result.

Inputs in an answer: a line "NOTES CMD", the bytes of the beginning of the notes and whether the executable
is among the files; these bytes; then of each file a line "MODE SIZE NAME" and its bytes. The notes are those
that ``fill`` writes, as JSON without blanks: ``easy`` comes first and ``before``, the hook's part, last. What
a job left comes as such lines and bytes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fetchwork.errors import ProtocolError
from fetchwork.sandbox import checkpoint, names, outputs
from fetchwork.sandbox.jsontext import to_json

#: bytes of files that a hook takes with an answer, and that it sends with a request; files of a request
MAX_INPUT = 2 << 20
MAX_OUTPUT = 512 << 10
MAX_FILES = 64
#: of the notes' own
MAX_NOTES = 64 << 10


def is_plain(name: str) -> bool:
    """Whether a name can be in a line, in JSON without an escape, and nowhere but at the top of a sandbox."""
    return (
        0 < len(name) <= 255
        and name.isascii()
        and name.isprintable()
        and not set(name) & set('/"\\')
        and name not in (".", "..")
    )


def rule_of(ad: Mapping[str, object]) -> str:
    """What a job leaves that ends by itself: "*" for what is new or changed, or "." and names; then streams.

    They are separated by "/", and streams, which need not be there, begin with "?". Empty where there is more
    to it.
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
    """Whether anything that the ad says of files may be a URL."""
    return any(isinstance(value, str) and "://" in value for value in ad.values())


def encode_inputs(
    ad: Mapping[str, object],
    plugin_limit_s: float,
    files: Iterable[tuple[str, int, bytes]],
    *,
    executable: bool,
) -> bytes | None:
    """The inputs of a job, each as name, mode and bytes, for an answer; None where its notes are too long."""
    notes = {"easy": rule_of(ad), "ad": dict(ad), "plugins": {}, "plugin_limit_s": plugin_limit_s}
    beginning = (to_json(notes)[:-1] + ',"before":{').encode()
    if len(beginning) > MAX_NOTES:
        return None
    parts = [b"%d %d\n" % (len(beginning), executable), beginning]
    for name, mode, data in files:
        parts += [f"{mode} {len(data)} {name}\n".encode(), data]
    return b"".join(parts)


def decode_outputs(section: bytes) -> list[tuple[str, int, bytes]]:
    """What a job left, each as name, mode and bytes; raises ProtocolError for what no compiled hook says."""
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
