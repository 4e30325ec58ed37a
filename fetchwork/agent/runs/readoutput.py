"""Reads a job's output as the job's user: a program that the agent starts for each watched job.

    python -IS readoutput.py PID [UID GID GROUP,...]
    python -IS readoutput.py 1=FD 2=FD

Started by root, it first becomes the named account, which need not be able to execute the interpreter. It
opens the files that the job's process has as stdout and stderr, if they are files, with its own rights, or
gets them opened. It keeps them open, so that the job's last output is read after its end. Each question is a
line "STDOUT_AT STDERR_AT MOST" on standard input: positions (-1: begin with the last 16 KiB) and the most
bytes of each stream. The answer is a line of JSON: for each stream with new output [position, base64], in
whole UTF-8 characters if it has any.
"""

import base64
import json
import os
import stat
import sys

FIRST = 16 * 1024
#: most bytes that a reader may be behind; if more was written between two questions, the older part is left
#: out
MOST_BEHIND = 192 * 1024


def opened(pid: int) -> dict[int, int]:
    """Open the files that a process has as stdout (1) and stderr (2) for reading."""
    fds: dict[int, int] = {}
    for stream in (1, 2):
        try:
            fd = os.open(f"/proc/{pid}/fd/{stream}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError:
            continue
        fds[stream] = fd
    return fds


def plain(given: dict[int, int]) -> dict[int, int]:
    """Return the descriptors of regular files, once for each file, and close the others."""
    files: dict[int, int] = {}
    seen = set()
    for stream, fd in sorted(given.items()):
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode) and (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            files[stream] = fd
        else:
            os.close(fd)
    return files


def read(fd: int, at: int, most: int) -> tuple[int, bytes]:
    """Read a file at a position, or further on if too much has been written; return position and bytes."""
    size = os.fstat(fd).st_size
    if at < 0:
        at = max(0, size - FIRST)
    elif size - at > MOST_BEHIND:
        at = size - FIRST
    data = os.pread(fd, most, at) if size > at else b""
    # begin and end at whole characters
    skip = 0
    while at and skip < min(3, len(data)) and data[skip] & 0xC0 == 0x80:
        skip += 1
    return at + skip, whole(data[skip:])


def whole(data: bytes) -> bytes:
    """Return the data without an incomplete character at its end, unless there is nothing else."""
    for back in range(1, min(4, len(data))):
        byte = data[-back]
        if byte & 0xC0 == 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if back < length else data
        if byte < 0x80:
            break
    return data


def main() -> None:
    """Answer until standard input ends."""
    words = sys.argv[1:]
    if "=" in words[0]:
        pairs = [word.split("=") for word in words]
        files = plain({int(stream): int(fd) for stream, fd in pairs})
    else:
        if len(words) > 1:
            uid, gid, groups = words[1:]
            os.setgroups([int(group) for group in groups.split(",")])
            os.setresgid(int(gid), int(gid), int(gid))
            os.setresuid(int(uid), int(uid), int(uid))
        files = plain(opened(int(words[0])))
    print(json.dumps(sorted(files)), flush=True)
    for line in sys.stdin:
        *positions, most = map(int, line.split())
        answer = {}
        for stream, fd in files.items():
            try:
                at, data = read(fd, positions[stream - 1], most)
            except OSError:
                continue
            if data:
                answer[stream] = [at, base64.b64encode(data).decode()]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
