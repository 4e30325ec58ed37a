"""The disks that a power cut may leave, by a trace of system calls.

``trace`` runs a program under strace, and ``Trace`` reads what strace wrote. ``cuts`` goes through the calls
that change a file, and yields after each of them the disks that a machine may have after a power cut at that
moment. Of what is not synced any part may be on the disk:

- each change of a directory (create, rename, unlink, mkdir), for itself and in any order: POSIX asks for none
- each write: whole, its first half, zeros of its length, its first half and zeros, or none of it

fsync and fdatasync of a file sync its data. Of names POSIX promises nothing without a sync of the directory;
Linux's journaling file systems (ext4, xfs, btrfs) do more, and fetchwork relies on it where an account may
write into a directory that it can't open: a sync of a file or directory also syncs the changes that gave it
its name, and so those of the directories above.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

STRACE = shutil.which("strace")
#: with -y each descriptor has its path, so descriptors need not be followed
_OPTIONS = ["-f", "-qq", "-y", "-xx", "-ttt", "-s", str(1 << 24)]
_CALLS = (
    "open,openat,creat,write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,rename,renameat,renameat2,"
    "link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir,mkdir,mkdirat,fsync,fdatasync,sync,syncfs,fallocate,"
    "sendfile,copy_file_range,lseek,exit_group"
)
#: calls that change a file in a way that is not followed here
_UNKNOWN = ("sendfile", "copy_file_range", "link", "linkat")
#: possible disks of one cut; beyond that they are drawn
_MOST = 48
#: changes of names of which each is left out, and each is the only one
_FEW = 10

_LINE = re.compile(r"(\d+) +(\d+\.\d+) (.*)")
_BEGUN = re.compile(r"(\w+)\((.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)$")
_WHOLE = re.compile(r"(\w+)\((.*)\) += (\?|-?\d+)(.*)$")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_PATH = re.compile(r"<((?:\\x[0-9a-f]{2}|[^>\\])*)>(\(deleted\))?")


def problem() -> str | None:
    """Why no program can be traced here; None if one can."""
    if STRACE is None:
        return "no power cuts: strace is not installed"
    tried = subprocess.run([STRACE, "-f", "-qq", "-e", "trace=none", "true"], capture_output=True, text=True)
    return f"no power cuts: strace can't trace here: {tried.stderr.strip()}" if tried.returncode else None


def tracer(output: Path, *, detached: bool = False) -> list[str]:
    """The command before a program that is traced; ``detached``: the program keeps its pid."""
    calls = "trace=" + ",".join(f"?{name}" for name in _CALLS.split(","))
    # -D: the program keeps its pid
    return [STRACE or "strace", *_OPTIONS, *(["-D"] if detached else []), "-e", calls, "-o", str(output)]


@dataclass(frozen=True)
class Call:
    """A system call that succeeded, with its arguments and result as strace writes them."""

    pid: int
    name: str
    begun: float
    ended: float
    words: str
    result: str

    @property
    def strings(self) -> list[bytes]:
        """The strings among its arguments."""
        return [_bytes(found) for found in _STRING.findall(self.words)]

    @property
    def descriptor(self) -> str | None:
        """The path of its first descriptor; None if the file has no name any more."""
        return _path(self.words)

    @property
    def opened(self) -> str | None:
        """The path of the descriptor that it returned."""
        return _path(self.result)


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _path(text: str) -> str | None:
    found = _PATH.search(text)
    if found is None or found[2]:
        return None
    return os.fsdecode(re.sub(rb"\\x(..)", lambda each: bytes.fromhex(each[1].decode()), found[1].encode()))


def read(*outputs: Path) -> list[Call]:
    """The successful calls in one or several traces of one machine, in the order of their ends."""
    calls = []
    for output in outputs:
        begun: dict[tuple[int, str], tuple[float, str]] = {}
        for line in output.read_text().splitlines():
            if (matched := _LINE.match(line)) is None:
                continue
            pid, at, text = int(matched[1]), float(matched[2]), matched[3]
            start = at
            if part := _BEGUN.match(text):
                begun[pid, part[1]] = at, part[2]
                continue
            if part := _RESUMED.match(text):
                start, first = begun.pop((pid, part[1]))
                text = f"{part[1]}({first}{part[2]}"
            if (whole := _WHOLE.match(text)) is None or whole[3].startswith("-"):
                continue
            calls.append(Call(pid, whole[1], start, at, whole[2], whole[3] + whole[4]))
    return sorted(calls, key=lambda call: call.ended)


# -- a disk

#: a directory's entries that change together: (directory, name, what is there then)
Entries = tuple[tuple[int, str, int | None], ...]


@dataclass
class _Pending:
    """A change that is not synced: of names, or of a file's bytes."""

    begun: float
    entries: Entries = ()
    file: int = -1
    at: int = 0
    data: bytes | None = None
    size: int | None = None


@dataclass
class Disk:
    """Files below ``root``: the bytes that are on the disk, and the changes that may be on it."""

    root: str
    #: directory -> its entries; file -> its bytes
    directories: dict[int, dict[str, int]] = field(default_factory=lambda: {0: {}})
    files: dict[int, bytes] = field(default_factory=dict)
    pending: list[_Pending] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    #: the tree as programs see it
    _seen: dict[int, dict[str, int]] = field(default_factory=lambda: {0: {}})
    #: bytes of files as programs see them
    _sizes: dict[int, int] = field(default_factory=dict)
    #: place of each open file description; one process's descriptors are known by their paths
    _places: dict[tuple[int, str], int] = field(default_factory=dict)

    def load(self, directory: str = "", *, synced: bool = True) -> None:
        """Take what is below the root now, or in a directory there; not ``synced``: it may be lost."""
        above = Path(self.root, directory)
        for path in [*([above] if directory else []), *sorted(above.rglob("*"))]:
            if path.is_dir():
                if self._find(str(path)) is None:
                    self._change(0.0, [(*self._named(str(path)), self._new(directory=True))])
            elif path.is_file() and self._find(str(path)) is None:
                number, data = self._new(), path.read_bytes()
                self._change(0.0, [(*self._named(str(path)), number)])
                self._sizes[number] = len(data)
                self.pending.append(_Pending(0.0, file=number, data=data))
        if synced:
            self._sync_all()

    def _inside(self, path: str | None) -> bool:
        return path is not None and path.startswith(self.root + "/")

    def _named(self, path: str) -> tuple[int, str]:
        """The directory of a path, and its name there."""
        *above, name = os.path.relpath(path, self.root).split("/")
        directory = 0
        for one in above:
            directory = self._seen[directory][one]
        return directory, name

    def _find(self, path: str) -> int | None:
        if path == self.root:
            return 0
        try:
            directory, name = self._named(path)
            return self._seen[directory].get(name)
        except KeyError:
            return None

    def _new(self, *, directory: bool = False) -> int:
        number = next(self._numbers)
        if directory:
            self.directories[number] = {}
            self._seen[number] = {}
        else:
            self.files[number] = b""
            self._sizes[number] = 0
        return number

    def _change(self, begun: float, entries: Sequence[tuple[int, str, int | None]]) -> None:
        _apply(self._seen, entries)
        self.pending.append(_Pending(begun, tuple(entries)))

    def _sync_all(self) -> None:
        for change in self.pending:
            _apply(self.directories, change.entries)
            if not change.entries:
                self.files[change.file] = _written(self.files[change.file], change)
        self.pending = []

    # -- calls

    def apply(self, call: Call) -> bool:
        """Apply a call; whether it changed a file, or which of its changes may be lost."""
        name = call.name
        if name in ("open", "openat", "creat"):
            return self._open(call)
        if name in ("sync", "syncfs"):
            self._sync_all()
            return True
        if name in ("fsync", "fdatasync"):
            path = call.descriptor
            number = self._find(path) if path is not None and f"{path}/".startswith(f"{self.root}/") else None
            if number is not None:
                self._sync(number, call.begun)
            return number is not None
        if name in _UNKNOWN:
            paths = [call.descriptor, *map(os.fsdecode, call.strings)]
            assert not any(map(self._inside, paths)), f"not followed: {name} of {paths}"
            return False
        if name in ("write", "pwrite64", "writev", "pwritev", "pwritev2", "ftruncate", "lseek", "fallocate"):
            return self._write(call)
        return name != "exit_group" and self._rename(call)

    def _open(self, call: Call) -> bool:
        path = call.opened
        if path is None or not self._inside(path):
            return False
        # every open begins at the file's beginning
        self._places[call.pid, path] = 0
        number = self._find(path)
        if number is None:
            if "O_CREAT" not in call.words and call.name != "creat":
                return False
            self._change(call.begun, [(*self._named(path), self._new())])
            return True
        if "O_TRUNC" in call.words and self._sizes.get(number):
            self._resize(number, 0, call.begun)
            return True
        if "O_APPEND" in call.words:
            self._places[call.pid, path] = -1
        return False

    def _resize(self, number: int, size: int, begun: float) -> None:
        self._sizes[number] = size
        self.pending.append(_Pending(begun, file=number, size=size))

    def _write(self, call: Call) -> bool:
        path = call.descriptor
        number = self._find(path) if path is not None and self._inside(path) else None
        if path is None or number is None:
            return False
        numbers = [int(one) for one in re.findall(r", (-?\d+)(?=,|$)", call.words)]
        place = self._places.get((call.pid, path), self._place_of_another(path))
        if call.name == "lseek":
            self._places[call.pid, path] = int(call.result.split()[0])
            return False
        if call.name == "fallocate":
            assert "KEEP_SIZE" in call.words or numbers[-1] + numbers[-2] <= self._sizes[number], call
            return False
        if call.name == "ftruncate":
            self._resize(number, numbers[-1], call.begun)
            return True
        data = b"".join(call.strings)[: int(call.result.split()[0])]
        if call.name.startswith("p"):
            at = numbers[-1]
        else:
            at = self._sizes[number] if place < 0 else place
            self._places[call.pid, path] = -1 if place < 0 else at + len(data)
        self._sizes[number] = max(self._sizes[number], at + len(data))
        self.pending.append(_Pending(call.begun, file=number, at=at, data=data))
        return True

    def _place_of_another(self, path: str) -> int:
        """A thread writes where another one has opened the file."""
        return next((at for (_, name), at in self._places.items() if name == path), 0)

    def _rename(self, call: Call) -> bool:
        paths = _arguments(call)
        if not any(map(self._inside, paths)):
            return False
        if call.name.startswith("mkdir"):
            self._change(call.begun, [(*self._named(paths[0]), self._new(directory=True))])
            return True
        if call.name.startswith(("unlink", "rmdir")):
            self._change(call.begun, [(*self._named(paths[0]), None)])
            return True
        assert call.name.startswith("rename"), f"not followed: {call.name} of {paths}"
        source, target = paths
        assert self._inside(source) and self._inside(target), f"not followed: {call.name} of {paths}"
        self._change(
            call.begun,
            [(*self._named(source), None), (*self._named(target), self._find(source))],
        )
        for (pid, path), at in [*self._places.items()]:
            if path == source:
                self._places[pid, target] = at
        return True

    def _sync(self, number: int, before: float) -> None:
        """A sync of a file or a directory that began at this time has ended."""
        wanted = {number}
        kept = []
        for change in self.pending:
            if change.file == number and change.begun < before and not change.entries:
                self.files[number] = _written(self.files[number], change)
            else:
                kept.append(change)
        self.pending = kept
        synced: list[_Pending] = []
        # the changes that name it, and those that name the directories above
        for change in reversed(self.pending):
            if change.entries and change.begun < before:
                named = {inode for _, _, inode in change.entries}
                inside = any(directory == number for directory, _, _ in change.entries)
                if inside or named & wanted:
                    synced.append(change)
                    wanted |= {directory for directory, _, inode in change.entries if inode in wanted}
        for change in reversed(synced):
            _apply(self.directories, change.entries)
            earlier = self.pending[: self.pending.index(change)]
            names = {(directory, name) for directory, name, _ in change.entries}
            self.pending.remove(change)
            for other in earlier:
                # a later change of the same name is on the disk already
                other.entries = tuple(one for one in other.entries if one[:2] not in names)
        self.pending = [one for one in self.pending if one.entries or one.file >= 0]

    # -- possible disks

    def possible(self, seed: int) -> Iterator[Tree]:
        """The disks that a power cut now may leave, each once."""
        names = [change for change in self.pending if change.entries]
        datas = [change for change in self.pending if not change.entries]
        seen = set()
        for some, how in self._choices(names, datas, random.Random(seed)):
            tree = {number: dict(entries) for number, entries in self.directories.items()}
            for change in some:
                _apply(tree, change.entries)
            files = dict(self.files)
            for change, part in zip(datas, how, strict=True):
                files[change.file] = _written(files[change.file], change, part)
            made = _tree(tree, files, 0, "")
            mark = hashlib.sha256(repr(sorted(made.items())).encode()).digest()
            if mark not in seen:
                seen.add(mark)
                yield made

    @staticmethod
    def _choices(
        names: list[_Pending], datas: list[_Pending], chance: random.Random
    ) -> Iterator[tuple[list[_Pending], Sequence[str]]]:
        parts = ("none", "whole", "half", "zeros", "gap")
        every = 2 ** len(names) * len(parts) ** len(datas)
        if every <= _MOST:
            for kept in itertools.product((False, True), repeat=len(names)):
                for how in itertools.product(parts, repeat=len(datas)):
                    yield list(itertools.compress(names, kept)), how
            return
        subsets = [[], names]
        if len(names) <= _FEW:
            subsets += [[one] for one in names] + [[o for o in names if o is not one] for one in names]
        for some in subsets:
            for part in parts:
                yield some, [part] * len(datas)
        for _ in range(_MOST):
            yield (
                [one for one in names if chance.random() < 0.5],
                [chance.choice(parts) for _ in datas],
            )

    def killed(self) -> Iterator[Tree]:
        """The disks that a kill now leaves: every change, but of the last write perhaps a part."""
        tree = {number: dict(entries) for number, entries in self._seen.items()}
        for part in ("whole", "half") if self.pending and not self.pending[-1].entries else ("whole",):
            files = dict(self.files)
            for change in self.pending:
                if not change.entries:
                    last = change is self.pending[-1]
                    files[change.file] = _written(files[change.file], change, part if last else "whole")
            yield _tree(tree, files, 0, "")


#: path -> bytes; None for a directory
Tree = Mapping[str, bytes | None]


def _arguments(call: Call) -> list[str]:
    """The paths that a call names, whole."""
    paths = []
    text = call.words
    for found in re.finditer(r'(?:(?:AT_FDCWD|\d+)(<[^>]*>), )?"((?:\\x[0-9a-f]{2})*)"', text):
        name = os.fsdecode(_bytes(found[2]))
        base = _path(found[1]) if found[1] else None
        paths.append(os.path.normpath(os.path.join(base or "/", name)))
    return paths


def _apply(tree: dict[int, dict[str, int]], entries: Iterable[tuple[int, str, int | None]]) -> None:
    for directory, name, inode in entries:
        if inode is None:
            tree[directory].pop(name, None)
        else:
            tree[directory][name] = inode


def _written(before: bytes, change: _Pending, part: str = "whole") -> bytes:
    """A file's bytes with a write or a change of its size."""
    if part == "none":
        return before
    if change.data is None:
        return before[: change.size or 0].ljust(change.size or 0, b"\0")
    data = change.data
    if part == "half":
        data = data[: len(data) // 2]
    elif part in ("zeros", "gap"):
        # of an overwritten block the disk has the old bytes or the new ones
        begin = len(data) // 2 if part == "gap" else 0
        data = data[:begin] + before[change.at + begin : change.at + len(data)].ljust(
            len(data) - begin, b"\0"
        )
    before = before.ljust(change.at, b"\0")
    return before[: change.at] + data + before[change.at + len(data) :]


def _tree(
    directories: Mapping[int, Mapping[str, int]], files: Mapping[int, bytes], number: int, path: str
) -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {}
    for name, inode in directories[number].items():
        if inode in directories:
            found[f"{path}{name}"] = None
            found |= _tree(directories, files, inode, f"{path}{name}/")
        else:
            found[f"{path}{name}"] = files[inode]
    return found


@dataclass(frozen=True)
class Cut:
    """A moment right after a call, and a disk that a power cut then may leave."""

    number: int
    call: Call
    tree: Tree


def cuts(disk: Disk, calls: Sequence[Call]) -> Iterator[Cut]:
    """Each possible disk after each call that changes one of its files or acknowledges something."""
    for number, call in enumerate(calls):
        if disk.apply(call) or call.name == "exit_group":
            for tree in disk.possible(number):
                yield Cut(number, call, tree)


def kills(disk: Disk, calls: Sequence[Call]) -> Iterator[tuple[Call, list[Tree]]]:
    """The disks that a kill of the program in each of its calls, or after it, leaves on a living machine."""
    for call in calls:
        if disk.apply(call):
            yield call, list(disk.killed())


@contextlib.contextmanager
def made(tree: Tree) -> Iterator[Path]:
    """The files of a disk in a new directory, in memory where that can be."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        root = Path(name)
        for path, data in tree.items():
            if data is None:
                (root / path).mkdir(mode=0o700)
            else:
                (root / path).write_bytes(data)
        yield root
