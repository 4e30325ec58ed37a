"""The end of a job's output for ``fetchwork tail``, which JOB_EXIT reads if the job asks for it.

``FetchWorkTailBytes = N`` in the job ad asks for the last N bytes of Out and of Err, 64 KiB of each at most.
The report has them as FetchWorkStdout and FetchWorkStderr. The hook imports this only then.
"""

import posix
from _stat import S_ISREG

from fetchwork.hook.jobcheck import join, read_literals

MAX_TAIL = 64 * 1024
_WANTED = frozenset(("iwd", "out", "err", "fetchworktailbytes"))
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def with_output(ad: bytes) -> bytes:
    """Return the ad of JOB_EXIT with the end of the job's output, as far as it can be read."""
    job = read_literals(ad, _WANTED)
    asked = job.get("fetchworktailbytes") or ""
    size = min(int(asked), MAX_TAIL) if asked.isdecimal() else 0
    iwd = job.get("iwd")
    if not size or not iwd:
        return ad
    lines = [ad if not ad or ad.endswith(b"\n") else ad + b"\n"]
    for name, attribute in (("out", "FetchWorkStdout"), ("err", "FetchWorkStderr")):
        path = job.get(name)
        text = _read_end(join(iwd, path), size) if path else ""
        if text:
            lines.append(f"{attribute} = {_print(text)}\n".encode())
    return b"".join(lines)


def _read_end(path: str, size: int) -> str:
    try:
        # O_NONBLOCK: no wait for the other end of a pipe
        fd = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        status = posix.fstat(fd)
        if not S_ISREG(status.st_mode):
            return ""
        start = max(0, status.st_size - size)
        data = posix.pread(fd, size, start)
    except OSError:
        return ""
    finally:
        posix.close(fd)
    # a character cut in two at the start is left out
    cut = 0
    while start and cut < 3 and data[cut : cut + 1] and data[cut] & 0xC0 == 0x80:
        cut += 1
    return data[cut:].decode("utf-8", "replace").replace("\0", "\ufffd")


def _print(text: str) -> str:
    """Print a string in old syntax as ``fetchwork.classad.ads`` does, which says why; a test compares."""
    if not any(_is_odd(char) for char in text):
        return '"' + text.replace('"', '\\"') + '"'
    inner = "".join(map(_escape, text)).replace('"', '\\"')
    return f'eval("\\"{inner}\\"")'


def _is_odd(char: str) -> bool:
    return (char < " " and char != "\t") or char in "\x7f\x85\u2028\u2029"


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    return "".join(f"\\{byte:03o}" for byte in char.encode()) if _is_odd(char) else char
