"""Determines, at submit, the files that the jobs of a cluster need, by the rules of ``sandbox.inputs``."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fetchwork.errors import SubmitError
from fetchwork.queue.reading.views import Json
from fetchwork.queue.submitting.jobads import Jobs
from fetchwork.sandbox import inputs, names, offered, remaps
from fetchwork.sandbox.failure import FileFailure

__all__ = ["InputFile", "Key", "Needed", "needed", "read_key", "shared_directories"]

#: attributes that determine the files that a job needs
_DECIDE = frozenset(
    {
        "Cmd", "In", "Iwd", "TransferExecutable", "TransferIn", "ShouldTransferFiles", "TransferInput",
        "PublicInputFiles", "PreserveRelativePaths", "TransferPlugins", "OutputDestination",
        "TransferOutputRemaps", "CheckpointDestination",
        "ContainerImage", "WantSandboxImage",
        "Out", "Err", "EC2AccessKeyId", "EC2SecretAccessKey", "EC2SessionToken",
    }
)  # fmt: skip
#: the variable with the directories that this machine shares with the execute hosts, in PATH's form
VARIABLE = "FETCHWORK_SHARED"


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file or directory of a sandbox: its name there, and its source."""

    #: a directory's name ends in "/"
    name: str
    #: on this machine; None for a URL
    path: str | None
    url: str | None = None
    #: the bits of chmod
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Key:
    """The key that presigns the s3:// and gs:// URLs of jobs; never shown."""

    access_key_id: str
    secret: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Needed:
    """Jobs with their input files and the key for their URLs; the ads have the facts for matching."""

    jobs: Jobs
    #: the files of all jobs of the cluster
    common: Sequence[InputFile]
    #: the further files of single jobs, by the job's number
    own: Mapping[int, Sequence[InputFile]]
    key: Key | None = None

    @property
    def files(self) -> bool:
        """Whether the jobs need any files."""
        return bool(self.common or self.own)

    def paths(self) -> set[str]:
        """The files that are to be read, without duplicates."""
        return {
            one.path
            for files in [self.common, *self.own.values()]
            for one in files
            if one.path is not None and not one.name.endswith("/")
        }


def shared_directories() -> list[str]:
    """The directories that this machine shares with all execute hosts; by default everything.

    ``FETCHWORK_SHARED`` lists them, separated by colons; an empty value means no directory.
    """
    named = os.environ.get(VARIABLE, "/")
    return [posixpath.normpath(one) for one in named.split(":") if one.startswith("/")]


def needed(jobs: Jobs, shared: Sequence[str], *, reads: bool = True) -> Needed:
    """The files of jobs, and the jobs, with ``FetchWorkFiles`` if they have files (sandbox/FILES.md).

    Raises SubmitError if a file can't be read or stored under its name, or if jobs name several keys.
    Without ``reads`` no file of this machine is accessed, and jobs that need one are refused.
    """
    files = _Files(shared, reads=reads)
    if jobs.late is not None:
        return _of_late(jobs, jobs.late, files, reads=reads)
    own = list(jobs.own)
    first_ad = {**jobs.common, **(own[0] if own else {})}
    first, first_files = files.of(first_ad)
    if all(map(_DECIDE.isdisjoint, own)):
        return Needed(Jobs(_with(jobs.common, first), own), first_files, {}, _key_of([first_ad], reads))
    key = _key_of(({**jobs.common, **part} for part in own), reads)
    each = [files.of({**jobs.common, **part}) for part in own]
    alike = set(first_files).intersection(*(found for _, found in each))
    common = [one for one in first_files if one in alike]
    rest = {
        number: [one for one in found if one not in alike]
        for number, (_, found) in enumerate(each)
        if len(found) > len(common)
    }
    if all(says == first for says, _ in each):
        return Needed(Jobs(_with(jobs.common, first), own), common, rest, key)
    parts = [_with(part, says) for part, (says, _) in zip(own, each, strict=True)]
    return Needed(Jobs(jobs.common, parts), common, rest, key)


def _of_late(jobs: Jobs, plan: Json, files: _Files, *, reads: bool) -> Needed:
    """The files of a late cluster, which are the same for all its jobs."""
    template: Json = plan["template"]
    says, found = files.of(jobs.common)
    differing = sorted(_DECIDE & template.keys() - ({"Out", "Err"} if says != "sandbox" else set()))
    if says is not None and differing:
        raise SubmitError(
            f"attribute '{differing[0]}' differs in the jobs of a late cluster; allowed: the same files for"
            " all of them, or files that execute hosts share, which are not transferred"
        )
    common = _with(jobs.common, says)
    return Needed(Jobs(common, jobs.own), found, {}, _key_of([jobs.common], reads))


#: the attributes that name the files of a key: HTCondor's of its EC2 universe
_KEY_FILES = ("EC2AccessKeyId", "EC2SecretAccessKey", "EC2SessionToken")
#: the most bytes of a key file
_MAX_KEY = 8192


def _key_of(ads: Iterable[Json], reads: bool) -> Key | None:
    """The key that jobs with s3:// or gs:// URLs name, read from its files; None if they name no key."""
    named = {
        tuple(str(ad[name]) if ad.get(name) else None for name in (*_KEY_FILES, "Iwd"))
        for ad in ads
        if any(ad.get(name) for name in _KEY_FILES[:2]) and not _stays(ad) and _has_object_url(ad)
    }
    if len(named) > 1:
        raise SubmitError("jobs name several keys for their URLs; allowed: one key for each submission")
    for *paths, iwd in named:
        if not reads:
            raise _not_read(str(paths[0] or paths[1]))
        if paths[0] is None or paths[1] is None:
            raise SubmitError(
                "the key for s3:// and gs:// URLs is not complete; allowed: both aws_access_key_id_file and"
                " aws_secret_access_key_file"
            )
        words = [None if path is None else read_key(posixpath.join(iwd or "/", path)) for path in paths]
        return Key(words[0] or "", words[1] or "", words[2])
    return None


def _has_object_url(ad: Json) -> bool:
    urls = [*_listed(ad), _stdin(ad) or "", inputs.executable_of(ad) or "", *_targets(ad)]
    return any(names.scheme_of(url) in names.PRESIGNED for url in urls)


def read_key(path: str) -> str:
    """The word in a key file, one half of the key; raises SubmitError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            text = os.read(descriptor, _MAX_KEY + 1).decode("ascii").strip()
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SubmitError(f"cannot open key file '{path}': {error.strerror}") from None
    except UnicodeDecodeError:
        text = ""
    if not text or len(text) > _MAX_KEY or any(char.isspace() for char in text):
        raise SubmitError(f"key file '{path}' holds no key; allowed: one word")
    return text


def _with(ad: Json, says: str | None) -> Json:
    return ad if says is None else {**ad, "FetchWorkFiles": says}


class _Files:
    """The files of one job after the other; each path is examined once."""

    def __init__(self, shared: Sequence[str], *, reads: bool = True) -> None:
        self._shared = list(shared)
        self._reads = reads
        self._seen: dict[tuple[str, str, bool], list[InputFile]] = {}

    def of(self, ad: Json) -> tuple[str | None, list[InputFile]]:
        """The job's value of FetchWorkFiles, and the files to store for the job."""
        says = self._says(ad)
        if says is None or says.startswith("shared:"):
            return says, []
        found: dict[str, InputFile] = {}
        for one in self._all(ad):
            # a later file replaces an earlier one, and stands in its own place
            found.pop(one.name, None)
            found[one.name] = one
        return says, list(found.values())

    def _says(self, ad: Json) -> str | None:
        if _stays(ad):
            return None
        should = str(ad.get("ShouldTransferFiles")).upper()
        named = [*_listed(ad), *filter(None, (_stdin(ad), inputs.executable_of(ad)))]
        unknown = next((name for name in named if "$$(" in name), None)
        image = str(ad.get("ContainerImage") or "")
        if should == "YES" or any(map(names.scheme_of, (*named, image))) or _leaves_for_url(ad):
            if unknown is not None:
                raise _decided_by_slot(unknown)
            return "sandbox"
        iwd = str(ad.get("Iwd") or "/")
        paths = [posixpath.normpath(posixpath.join(iwd, name)) for name in ("", *named)]
        if not all(offered.lies_under(path, self._shared) for path in paths):
            if unknown is not None:
                raise _decided_by_slot(unknown)
            return "stored"
        return None if "/" in self._shared else "shared:" + ",".join(self._shared)

    def _all(self, ad: Json) -> Iterator[InputFile]:
        iwd = str(ad.get("Iwd") or "/")
        preserve = ad.get("PreserveRelativePaths") is True
        for name in _listed(ad):
            yield from self._expanded(name, iwd, preserve)
        if (stdin := _stdin(ad)) is not None:
            yield from self._expanded(stdin, iwd, False)
        if (executable := inputs.executable_of(ad)) is not None:
            for one in self._expanded(executable, iwd, False):
                yield InputFile(names.EXECUTABLE, one.path, one.url, 0o755)

    def _expanded(self, name: str, iwd: str, preserve: bool) -> list[InputFile]:
        key = (name, iwd, preserve)
        if key not in self._seen:
            if not self._reads and not names.scheme_of(name):
                raise _not_read(name)
            try:
                found = inputs.expand([name], iwd, preserve=preserve)
            except FileFailure as failure:
                raise SubmitError(f"input '{name}' can't be transferred: {failure.details}") from None
            self._seen[key] = [
                InputFile(one.name, None, one.source)
                if one.is_url
                else InputFile(
                    f"{one.name}/" if one.directory else one.name, one.source, mode=one.mode & 0o777
                )
                for one in found
            ]
            if any(not one.name for one in self._seen[key]):
                raise SubmitError(f"input '{name}' has no file name; allowed: a URL that ends in one")
        return self._seen[key]


def _not_read(name: str) -> SubmitError:
    return SubmitError(
        f"file '{name}' can't be read here: it is of another machine; allowed: URLs, and"
        " transfer_executable = false"
    )


def _decided_by_slot(name: str) -> SubmitError:
    return SubmitError(
        f"input '{name}' can't be transferred: files are stored at submit, and $$(...) is known when a slot "
        "gets the job; allowed: should_transfer_files = NO, or a path that execute hosts share"
    )


def _stays(ad: Json) -> bool:
    """Whether the job runs in its submit directory or its RemoteIwd, and transfers no files."""
    should = str(ad.get("ShouldTransferFiles")).upper()
    return should == "NO" or (should != "YES" and ad.get("RemoteIwd") is not None)


def _listed(ad: Json) -> Iterator[str]:
    """The files that the ad lists, and the job's own plugins."""
    image = ad.get("ContainerImage") if ad.get("WantSandboxImage") is True else None
    for name in names.words_of(ad.get("TransferInput")):
        # condor_submit lists "image/", but runs the job in "image"
        yield name.rstrip("/") if image and names.base_name(name) == image else name
    yield from names.words_of(ad.get("PublicInputFiles"))
    for _, _, path in (one.partition("=") for one in str(ad.get("TransferPlugins") or "").split(";")):
        if path.strip():
            yield path.strip()


def _stdin(ad: Json) -> str | None:
    name = ad.get("In")
    if not isinstance(name, str) or name in ("", names.NULL_FILE) or ad.get("TransferIn") is False:
        return None
    return name


def _leaves_for_url(ad: Json) -> bool:
    """Whether outputs or checkpoints go to a URL, which requires a sandbox."""
    return any(map(names.scheme_of, _targets(ad)))


def _targets(ad: Json) -> list[str]:
    """The destinations of outputs and checkpoints that the ad names."""
    named = [str(ad.get(name) or "") for name in ("OutputDestination", "CheckpointDestination", "Out", "Err")]
    return [*remaps.parse(ad.get("TransferOutputRemaps")).values(), *named]
