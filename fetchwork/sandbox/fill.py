"""PREPARE_JOB's part: it brings the inputs into the sandbox, as the job's user.

The agent lists the inputs (``input_plan``) and hands out contents in chunks (``read_input``). Shared files
are copied, URLs are fetched by plugins. No file is written through a link that an input brought, nor outside
of the sandbox. At the end the notes for JOB_EXIT are written: the ad's attributes about files, and a
catalogue of the sandbox.
"""

from __future__ import annotations

import os
import stat
import time

from fetchwork.sandbox import names, outputs
from fetchwork.sandbox.failure import FileFailure, of_file, of_input, open_regular, too_large
from fetchwork.sandbox.jsontext import from_json, to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from fetchwork.sandbox import plugins

    #: asks the agent: takes a request's name and argument, returns the reply's body. Raises FetchworkError.
    Ask = Callable[[str, str], bytes]

_CHUNK = 1 << 20
_MB = 1 << 20
#: seconds after which a presigned URL, which is valid for an hour, may have expired; by any clock
_SIGNED_S = 3000.0


class Filled:
    """The filled sandbox: the changes to the ad for the starter, bytes and seconds; the ad's words on files.

    ``unused``: why the last checkpoint is not used; empty if it is used, or if the job has no checkpoint.
    """

    def __init__(self, ad: dict[str, object], changes: bytes, size: int, seconds: float, unused: str) -> None:
        self.ad = ad
        self.changes = changes
        self.size = size
        self.seconds = seconds
        self.unused = unused


def fill(sandbox: str, ask: Ask, progress: Callable[[float], None]) -> Filled:
    """Bring all inputs of the job into ``sandbox``; raises TransferFailure for one that can't be had.

    ``progress`` is called after each step, with the seconds that the next step may take without a call.
    """
    began = time.monotonic()
    plan: Any = from_json(ask("input_plan", "").decode())
    work = _Filling(sandbox, plan, ask, progress)
    work.run()
    notes = {
        "ad": plan["ad"],
        "plugins": plan["plugins"],
        "plugin_limit_s": plan["plugin_limit_s"],
        "has_key": plan["has_key"],
        # files of an earlier run's checkpoint are left out, so that they are saved again
        "before": {
            name: value for name, value in outputs.catalogue(sandbox).items() if name not in work.saved
        },
    }
    _write_notes(sandbox, notes)
    changes = ""
    if plan["executable"]:
        changes = f'Cmd = "{sandbox}/{names.EXECUTABLE}"\n'
    return Filled(plan["ad"], changes.encode(), work.size, time.monotonic() - began, work.unused)


class _Filling:
    def __init__(
        self, sandbox: str, plan: Mapping[str, object], ask: Ask, progress: Callable[[float], None]
    ) -> None:
        self._sandbox = sandbox
        self._ask = ask
        self._progress = progress
        self._ad: Mapping[str, object] = plan["ad"]  # type: ignore[assignment]
        listed: list[dict[str, object]] = plan["files"]  # type: ignore[assignment]
        # a checkpoint at its destination is fetched separately: it may turn out to be broken
        self._elsewhere = [
            one for one in listed if one["direction"] == "spool" and _is_elsewhere(one, listed)
        ]
        elsewhere = {(one["direction"], one["name"]) for one in self._elsewhere}
        self._files = [one for one in listed if (one["direction"], one["name"]) not in elsewhere]
        self._plugins: Mapping[str, list[object]] = plan["plugins"]  # type: ignore[assignment]
        self._plugin_limit_s = float(plan["plugin_limit_s"])  # type: ignore[arg-type]
        self.saved = {str(one["name"]) for one in self._files if one["direction"] == "spool"}
        self._signed_at = time.monotonic()
        self.size = 0
        self.unused = ""

    def run(self) -> None:
        self._check_size()
        urls: list[tuple[str, str, str]] = []
        directories: list[tuple[str, int]] = []
        for one in self._files:
            name, mode = str(one["name"]), int(str(one["mode"]))
            try:
                if one["source"] == "directory":
                    directories.append((self._make_directory(name), mode))
                elif one["source"] == "url":
                    urls.append((str(one["url"]), self._path(name), str(one.get("shown") or "")))
                elif one["source"] == "shared":
                    self._copy(name, str(one["path"]), mode)
                else:
                    self._fetch(name, int(str(one["content_id"])), int(str(one["size"])), mode)
                    if one.get("in_bucket"):
                        # the database could not compare the object with its hash
                        self._compare(name, str(one["sha256"]))
            except FileFailure as failure:
                raise of_input(failure.details, failure.subcode) from None
            except OSError as error:
                written = of_file("writing to file", f"{self._sandbox}/{name}", error)
                raise of_input(written.details, written.subcode) from None
        self._fetch_urls(urls)
        self._restore()
        # last, so that a directory without write permission could be filled; deepest first
        for path, mode in reversed(directories):
            os.chmod(path, mode & 0o777 | stat.S_IRWXU)

    def _check_size(self) -> None:
        limit = self._ad.get("MaxTransferInputMB")
        size = sum(
            int(str(one.get("size") or 0)) for one in self._files if one["source"] in ("content", "shared")
        )
        if type(limit) is int and limit >= 0 and size > limit * _MB:
            raise too_large("input", limit, size)

    def _path(self, name: str) -> str:
        """The path of a name in the sandbox; raises FileFailure if it would lead out, also by a link."""
        name = name.rstrip("/")
        problem = names.problem_of(name)
        if problem:
            raise FileFailure(1, f"the name of input file '{name}' {problem}")
        path = self._sandbox
        *parents, last = name.split("/")
        for part in parents:
            path = f"{path}/{part}"
            try:
                os.mkdir(path)
            except FileExistsError:
                if not stat.S_ISDIR(os.lstat(path).st_mode):
                    raise of_file("writing to directory", path, 20) from None
        return f"{path}/{last}"

    def _make_directory(self, name: str) -> str:
        path = self._path(name)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                os.unlink(path)
                os.mkdir(path, 0o700)
        return path

    def _open(self, name: str) -> int:
        """A descriptor of a new file of this name; it replaces an old one: the later of two inputs wins."""
        path = self._path(name)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def _fetch(self, name: str, content: int, size: int, mode: int) -> None:
        fd = self._open(name)
        try:
            for number in range((size + _CHUNK - 1) // _CHUNK):
                data = self._ask("read_input", f"{content} {number}")
                if len(data) != min(_CHUNK, size - number * _CHUNK):
                    raise FileFailure(5, f"reading from file {name}: chunk {number} has {len(data)} bytes")
                _write(fd, data)
                self.size += len(data)
                self._progress(0.0)
            self._set_mode(fd, name, mode)
        finally:
            os.close(fd)

    def _compare(self, name: str, sha256: str) -> None:
        from hashlib import sha256 as begin

        digest = begin()
        with open(self._path(name), "rb") as file:
            while data := file.read(_CHUNK):
                digest.update(data)
                self._progress(0.0)
        if digest.hexdigest() != sha256:
            raise FileFailure(5, f"reading from file {name}: the bucket does not have what was put there")

    def _copy(self, name: str, path: str, mode: int) -> None:
        try:
            source, _ = open_regular(path)
        except OSError as error:
            raise of_file("reading from file", path, error) from None
        try:
            fd = self._open(name)
            try:
                while data := os.read(source, _CHUNK):
                    _write(fd, data)
                    self.size += len(data)
                    self._progress(0.0)
                self._set_mode(fd, name, mode)
            finally:
                os.close(fd)
        finally:
            os.close(source)

    @staticmethod
    def _set_mode(fd: int, name: str, mode: int) -> None:
        os.fchmod(fd, 0o755 if name == names.EXECUTABLE else mode & 0o777)

    def _restore(self) -> None:
        """Fetch a checkpoint from its destination, compare it with its manifest, and put it in place."""
        manifest = next((one for one in self._elsewhere if str(one["name"]).startswith(names.MANIFEST)), None)
        if manifest is None:
            return
        from fetchwork.sandbox.destination import problem_of

        files = [one for one in self._elsewhere if one is not manifest]
        try:
            for one in files:
                self._path(f"{names.INCOMING}/{one['name']}")
            fetched = self._content(manifest)
        except FileFailure as failure:
            raise of_input(failure.details, failure.subcode) from None
        incoming = f"{self._sandbox}/{names.INCOMING}"
        os.makedirs(incoming, exist_ok=True)
        self._fetch_urls(
            [(str(one["url"]), f"{incoming}/{one['name']}", str(one.get("shown") or "")) for one in files]
        )
        self.unused = problem_of(fetched, incoming, [str(one["name"]) for one in files])
        if not self.unused:
            for one in files:
                name = str(one["name"])
                self._put(f"{incoming}/{name}", name, int(str(one["mode"])))
                self.saved.add(name)
        self._remove(incoming)

    def _content(self, one: Mapping[str, object]) -> bytes:
        size = int(str(one["size"]))
        chunks = range((size + _CHUNK - 1) // _CHUNK)
        data = b"".join(self._ask("read_input", f"{one['content_id']} {number}") for number in chunks)
        if len(data) != size:
            raise FileFailure(5, f"reading from file {one['name']}: it has {len(data)} bytes")
        return data

    def _put(self, path: str, name: str, mode: int) -> None:
        """Move a file of a checkpoint into place, over an input of that name."""
        try:
            target = self._path(name)
            if os.path.isdir(target) and not os.path.islink(target):
                raise of_file("writing to file", target, 21)
            os.chmod(path, mode & 0o777)
            os.rename(path, target)
        except FileFailure as failure:
            raise of_input(failure.details, failure.subcode) from None
        except OSError as error:
            written = of_file("writing to file", f"{self._sandbox}/{name}", error)
            raise of_input(written.details, written.subcode) from None

    @staticmethod
    def _remove(directory: str) -> None:
        for path, _, files in os.walk(directory, topdown=False):
            for name in files:
                os.unlink(f"{path}/{name}")
            os.rmdir(path)

    def _fetch_urls(self, urls: list[tuple[str, str, str]]) -> None:
        if not urls:
            return
        from fetchwork.sandbox import plugins

        moves = [plugins.Move(url, path, shown) for url, path, shown in urls]
        runner = plugins.runner(self._plugins, self._ad, self._sandbox, self._plugin_limit_s)
        late = self._move(runner, moves, try_again=True)
        if late:
            self._move(runner, self._signed_anew(late), try_again=False)

    def _move(
        self, runner: plugins.Runner, moves: list[plugins.Move], *, try_again: bool
    ) -> list[plugins.Move]:
        """Fetch files by plugins; return those whose URLs may have expired, if they may be tried again."""
        from fetchwork.sandbox.plugins import TIMED_OUT

        for move in moves:
            # HTCondor may have left an earlier file of that name
            if os.path.lexists(move.path):
                os.unlink(move.path)
        # the progress of a plugin is not visible: each run may take its time limit
        self._progress(self._plugin_limit_s * len(moves))
        late = []
        for moved in runner.move(moves, upload=False):
            self._progress(0.0)
            if moved.failure is None:
                self.size += moved.bytes
                continue
            is_old = bool(moved.move.known) and time.monotonic() - self._signed_at > _SIGNED_S
            if not is_old or not try_again or moved.failure.subcode == TIMED_OUT:
                raise of_input(moved.failure.details, moved.failure.subcode)
            late.append(moved.move)
        return late

    def _signed_anew(self, moves: list[plugins.Move]) -> list[plugins.Move]:
        """The same files with URLs that are valid for another hour."""
        plan: Any = from_json(self._ask("input_plan", "").decode())
        signed = {str(one["shown"]): str(one["url"]) for one in plan["files"] if one.get("shown")}
        return [move._replace(url=signed.get(move.known, move.url)) for move in moves]


def _is_elsewhere(one: Mapping[str, object], listed: list[dict[str, object]]) -> bool:
    """Whether a saved file is part of a checkpoint with a manifest."""
    return one["source"] == "url" or (
        str(one["name"]).startswith(names.MANIFEST)
        and any(other["direction"] == "spool" and other["source"] == "url" for other in listed)
    )


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _write_notes(sandbox: str, notes: Mapping[str, object]) -> None:
    path = f"{sandbox}/{names.NOTES}"
    try:
        with open(
            path, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)
        ) as stream:
            stream.write(to_json(notes))
    except OSError as error:
        failure = of_file("writing to file", path, error)
        raise of_input(failure.details, failure.subcode) from None
