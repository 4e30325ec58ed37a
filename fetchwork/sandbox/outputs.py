"""A job's outputs: which files of its sandbox these are, and the destination of each.

With ``transfer_output_files`` the outputs are exactly the listed files, directories with all their content;
without it they are the files at the top that are new or have changed since the inputs came. The job's output
and errors are always outputs. HTCondor's own files are not, nor is the executable.
"""

from __future__ import annotations

import os
import stat

from fetchwork.sandbox import names, remaps
from fetchwork.sandbox.failure import FileFailure, of_file, of_linked_directory, status_of

# a hook would pay for these at each start
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Literal

    #: a job's time in the sandbox ended by an exit that counts as success, by another exit, or by an eviction
    Ending = Literal["success", "failure", "evicted"]
    #: the files are delivered, kept for the next start, kept while the job goes on, or there are no files
    Use = Literal["output", "spool", "checkpoint", "nothing"]
    #: name -> (time of change in ns, bytes)
    Catalogue = dict[str, tuple[int, int]]

_MAX_DEPTH = 128


class Output:
    """One output file or directory of the sandbox: it leaves as ``name``, or by a plugin to ``url``."""

    __slots__ = ("directory", "mode", "name", "path", "size", "url")

    def __init__(
        self, name: str, path: str, mode: int, size: int = -1, *, directory: bool = False, url: str = ""
    ) -> None:
        self.name = name
        self.path = path
        self.mode = mode
        self.size = size
        self.directory = directory
        self.url = url


def catalogue(sandbox: str) -> Catalogue:
    """The regular files at the top of the sandbox as they are now."""
    seen: Catalogue = {}
    with os.scandir(sandbox) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                seen[entry.name] = (status.st_mtime_ns, status.st_size)
    return seen


def ending(ad: Mapping[str, object], report: Mapping[str, object], *, evicted: bool) -> Ending:
    """The kind of the job's end; ``report`` has the ExitCode or ExitSignal."""
    if evicted:
        return "evicted"
    if str(ad.get("WhenToTransferOutput", "")).upper() != "ON_SUCCESS":
        return "success"
    wanted = ad.get("JobSuccessExitCode", 0)
    return "success" if report.get("ExitCode") == wanted and "ExitSignal" not in report else "failure"


def use_of(ad: Mapping[str, object], how: Ending) -> Use | None:
    """The use of the files after such an end; None: they are lost."""
    if how != "evicted":
        return "output"
    return "spool" if str(ad.get("WhenToTransferOutput", "")).upper() == "ON_EXIT_OR_EVICT" else None


def streams_of(ad: Mapping[str, object]) -> Iterator[str]:
    """Yield the names of the job's output and errors, as far as they are to be transferred."""
    for name, wanted, stream in (
        ("Out", "TransferOut", names.STDOUT),
        ("Err", "TransferErr", names.STDERR),
    ):
        target = ad.get(name)
        travels = isinstance(target, str) and target not in ("", names.NULL_FILE)
        if travels and ad.get(wanted) is not False and not (name == "Err" and target == ad.get("Out")):
            yield stream


class Choice:
    """The outputs of a sandbox: ``files``, and the first ``failure``, as of a listed file that is missing."""

    def __init__(self, ad: Mapping[str, object], sandbox: str, before: Mapping[str, tuple[int, int]]) -> None:
        self._ad = ad
        self._sandbox = sandbox
        self._before = before
        self._preserve = ad.get("PreserveRelativePaths") is True
        self.files: dict[str, Output] = {}
        self.failure: FileFailure | None = None

    def choose(self, how: Ending) -> Choice:
        """Choose the files for such an end."""
        if how == "evicted":
            self._add_changed()
            # a listed output may be a directory, or not exist yet
            for name in names.words_of(self._ad.get("TransferOutput")):
                self._add(name, required=False)
            return self
        if how == "failure":
            for name in names.words_of(self._ad.get("FailureFiles")):
                self._add(name)
        elif isinstance(self._ad.get("TransferOutput"), str):
            for name in names.words_of(self._ad.get("TransferOutput")):
                self._add(name)
        else:
            self._add_changed()
        for stream in streams_of(self._ad):
            self._add(stream, required=False)
        self._send_to_urls()
        return self

    def choose_checkpoint(self) -> Choice:
        """Choose the files of a checkpoint: transfer_checkpoint_files, or else the outputs."""
        listed = self._ad.get("TransferCheckpoint")
        if not isinstance(listed, str):
            listed = self._ad.get("TransferOutput")
        if isinstance(listed, str):
            for name in names.words_of(listed):
                self._add(name)
        else:
            self._add_changed()
        for stream in streams_of(self._ad):
            self._add(stream, required=False)
        return self

    @property
    def size(self) -> int:
        """The bytes of the outputs that go through the queue."""
        return sum(max(0, output.size) for output in self.files.values() if not output.url)

    def _add_changed(self) -> None:
        with os.scandir(self._sandbox) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name in names.OF_THE_STARTER or entry.name in (
                    names.EXECUTABLE,
                    names.STDOUT,
                    names.STDERR,
                ):
                    continue
                try:
                    status = entry.stat()
                except OSError:
                    # a dangling link
                    continue
                now = (status.st_mtime_ns, status.st_size)
                if stat.S_ISREG(status.st_mode) and self._before.get(entry.name) != now:
                    self._put(Output(entry.name, entry.path, stat.S_IMODE(status.st_mode), status.st_size))

    def _add(self, listed: str, *, required: bool = True) -> None:
        path = os.path.join(self._sandbox, listed)
        try:
            self._add_tree(listed, path)
        except FileFailure as failure:
            if required or failure.subcode != 2:
                self.failure = self.failure or failure

    def _add_tree(self, listed: str, path: str) -> None:
        status = status_of(path)
        relative = self._preserve and not listed.startswith("/")
        name = os.path.normpath(listed) if relative else names.base_name(listed)
        if not stat.S_ISDIR(status.st_mode):
            self._put(_file(name, path, status))
            return
        if not listed.endswith("/") and os.path.islink(path):
            raise of_linked_directory(path)
        if listed.endswith("/") and not relative:
            self._add_entries("", path, 0)
            return
        self._put(Output(name, path, stat.S_IMODE(status.st_mode), directory=True))
        self._add_entries(name, path, 0)

    def _add_entries(self, into: str, path: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise of_file("reading from directory", path, 40)
        try:
            entries = sorted(os.listdir(path))
        except OSError as error:
            raise of_file("reading from directory", path, error) from None
        for entry in entries:
            inner, name = os.path.join(path, entry), f"{into}/{entry}" if into else entry
            try:
                status = os.lstat(inner)
                if stat.S_ISLNK(status.st_mode):
                    status = os.stat(inner)
                    if stat.S_ISDIR(status.st_mode):
                        self.failure = self.failure or of_linked_directory(inner)
                        continue
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode):
                self._put(Output(name, inner, stat.S_IMODE(status.st_mode), directory=True))
                self._add_entries(name, inner, depth + 1)
            elif stat.S_ISREG(status.st_mode):
                self._put(_file(name, inner, status))

    def _put(self, output: Output) -> None:
        problem = names.problem_of(output.name)
        if problem:
            shown = output.name.encode("utf-8", "replace").decode()
            self.failure = self.failure or FileFailure(84, f"the name of output file '{shown}' {problem}")
            return
        self.files[output.name] = output

    def _send_to_urls(self) -> None:
        """Set the URLs of outputs: ``output_destination`` sends all to URLs, else remaps, Out and Err do."""
        destination = self._ad.get("OutputDestination")
        whole = destination if isinstance(destination, str) and names.scheme_of(destination) else ""
        rules = {} if whole else remaps.parse(self._ad.get("TransferOutputRemaps"))
        for name, attribute in ((names.STDOUT, "Out"), (names.STDERR, "Err")):
            target = self._ad.get(attribute)
            if isinstance(target, str) and names.scheme_of(target):
                rules = {name: target, **rules}
        for name, output in list(self.files.items()):
            if output.directory:
                if whole:
                    # a URL has no directories
                    del self.files[name]
                continue
            try:
                target = remaps.find(rules, name)
            except remaps.RemapLoop as loop:
                self.failure = self.failure or FileFailure(40, str(loop))
                continue
            if target is None and whole and name not in (names.STDOUT, names.STDERR):
                target = f"{whole.rstrip('/')}/{name}"
            if target is not None and names.scheme_of(target):
                output.url = target


def _file(name: str, path: str, status: os.stat_result) -> Output:
    if not stat.S_ISREG(status.st_mode):
        # reading a pipe or a device may never end
        raise of_file("reading from file", path, 22)
    return Output(name, path, stat.S_IMODE(status.st_mode), status.st_size)
