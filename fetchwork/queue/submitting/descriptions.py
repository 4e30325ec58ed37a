"""Turns submit descriptions into the ads that ``fetchwork.submit_cluster`` takes.

HTCondor's own code reads descriptions (``readers``), so macros, ``queue ... from/in/matching`` and defaults
are HTCondor's. Text after the queue statement, which the bindings ignore, is refused as by condor_submit 25.

A command that fetched work can't honour must be refused by name. Most such commands leave an attribute in
the ad, which the database refuses (``fetchwork.attribute``) from any client. This module refuses the commands
that leave none.
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from fetchwork.classad.jsonform import from_json, to_json
from fetchwork.classad.values import ClassAd, evaluate
from fetchwork.codes import JobStatus
from fetchwork.errors import SubmitError
from fetchwork.queue.reading.views import Json
from fetchwork.queue.submitting import late, oauth, readers, retries
from fetchwork.queue.submitting.jobads import Jobs, without_domain
from fetchwork.queue.submitting.statements import Statement, assignments, queue_statement

# the queue sets these for each job and ignores the ads' values
_PER_JOB = ("ClusterId", "ProcId", "QDate", "EnteredCurrentStatus", "GlobalJobId", "JobStatus")

_ONE_SLOT = "a fetched job runs in one slot"

#: commands that fetched work does not honour and that leave no trace in the ad -> (harmless values, the
#: reason)
UNHONOURED: dict[str, tuple[tuple[str, ...], str]] = {
    "nice_user": (("false", "no", "0"), "use priority, or an accounting group with a large priority factor"),
    "machine_count": (("1",), _ONE_SLOT),
    "node_count": (("1",), _ONE_SLOT),
    "want_parallel_scheduling": (("false", "no", "0"), _ONE_SLOT),
    "interactive": (("false", "no", "0"), "there is no shadow to talk to"),
    "allow_startup_script": (("false", "no", "0"), "HTCondor's starter of fetched work does not do it"),
}

_DOCKER = (
    "HTCondor's starter gives a fetched docker job no limits and takes a failing image for its end: "
    "use container_image = docker://IMAGE"
)
_LATER = "it is of a later HTCondor than the one that reads descriptions here"

#: commands of HTCondor's manual that the bindings do not know, and would silently ignore -> the reason
UNREAD: dict[str, str] = {
    "container_is_common": "an image comes to each job's sandbox like its other input files",
    "docker_pull_policy": _DOCKER,
    "docker_override_entrypoint": _DOCKER,
    "wantnametag": _LATER,
    "output_directory": "the starter of fetched work does not do it",
}


def from_description(
    text: str, *, cluster_id: int, owner: str | None = None, queue: str = "1", may_be_late: bool = True
) -> Jobs:
    """The jobs of a submit description, as HTCondor's own submit code makes them.

    With max_materialize or max_idle they are the template and the items of a late cluster (``late``), unless
    ``may_be_late`` is false.

    ``queue`` are the arguments of the queue statement, for a text that has none. Paths are relative to the
    working directory. Raises SubmitError with HTCondor's reason, or for a command that can't be honoured.
    """
    statement = queue_statement(text)
    if statement is None:
        statement = Statement(text, f"queue {queue}", 0)
    read = functools.partial(_shared, cluster_id=cluster_id)
    if may_be_late and late.is_late(statement):
        jobs = late.jobs(statement, read)
    else:
        common, rest = read(statement)
        jobs = Jobs(common, itertools.chain([{}], rest))
    if owner is not None:
        jobs.common["Owner"] = owner
    return jobs


def _shared(statement: Statement, cluster_id: int) -> tuple[Json, Iterator[Json]]:
    """The attributes of a statement's first job that the queue takes, and each other job's differing ones."""
    first, rest = _read(statement, cluster_id)
    if not any(name.lower() in _DOMAIN for name, _ in assignments(statement.commands)):
        first = without_domain(first)
        rest = map(without_domain, rest)
    common = {name: value for name, value in first.items() if name not in _PER_JOB}
    if first.get("JobStatus") == JobStatus.HELD:
        common["JobStatus"] = JobStatus.HELD
    return common, rest


_DOMAIN = ("+filesystemdomain", "my.filesystemdomain")


def _read(statement: Statement, cluster_id: int) -> tuple[Json, Iterator[Json]]:
    """The whole ad of a statement's first job, and the differing attributes of each other job."""
    try:
        first, rest = _ads(f"{statement.commands}\n{statement.queue}\n", cluster_id)
    except SubmitError as error:
        where = f"queue statement of line {statement.line}: " if statement.line else ""
        raise SubmitError(f"{where}{error}") from None
    _settle_requests(first, statement.commands)
    asked = retries.settled(first)
    return first, (own for own in rest if retries.settled(own, asked) is not None)


def _ads(text: str, cluster_id: int) -> tuple[Json, Iterator[Json]]:
    try:
        with warnings.catch_warnings():
            # the warnings concern schedds
            warnings.simplefilter("ignore")
            submit = readers.read(text)
            _refuse_unhonoured(submit)
            _refuse_wrong_transfer(submit)
            for name, value in [*retries.marked(submit), *oauth.marked(submit)]:
                submit[name] = value
            if re.match(r"\s*0+(?:\s|$)", submit.getQArgs()):
                # for "queue 0" the bindings make one job
                raise StopIteration
            ads = iter(submit.procs(count=0, clusterid=cluster_id, procid=0))
            first = _to_json(next(ads))
    except readers.Refusal as error:
        reason = " ".join(str(error).split()) or _bad_line(text)
        raise SubmitError(f"HTCondor's submit refuses the description: {reason}") from None
    except StopIteration:
        raise SubmitError("queue statement makes no jobs; allowed: one or more") from None
    return first, _rest(ads)


def _rest(ads: Iterator[object]) -> Iterator[Json]:
    while True:
        try:
            ad = next(ads)
        except StopIteration:
            return
        except readers.Refusal as error:
            raise SubmitError(
                f"HTCondor's submit refuses the description: {' '.join(str(error).split())}"
            ) from None
        yield {name: value for name, value in _to_json(ad).items() if name not in _PER_JOB}


def _to_json(ad: object) -> Json:
    # the older bindings' ads become classad2's through new syntax, which can express every ad
    return to_json(ad if isinstance(ad, ClassAd) else ClassAd(repr(ad)))


def _refuse_unhonoured(submit: readers.Commands) -> None:
    for name in submit.keys():  # noqa: SIM118 - this mapping has no usable __iter__
        if name.lower() in ("+owner", "my.owner"):
            raise SubmitError(
                f"command '{name} = {submit[name].strip()[:60]}' can't be honoured:"
                " a job's Owner is its submitter; allowed: leave it out, and say --owner"
            )
        harmless, reason = UNHONOURED.get(name.lower(), ((), UNREAD.get(name.lower(), "")))
        if reason and submit[name].strip().lower() not in harmless:
            allowed = f"; allowed: {' or '.join(harmless[:1])}" if harmless else "; allowed: leave it out"
            raise SubmitError(
                f"command '{name} = {submit[name].strip()[:60]}' can't be honoured: {reason}{allowed}"
            )


def _refuse_wrong_transfer(submit: readers.Commands) -> None:
    # HTCondor's library prints its reason on stderr, and raises another
    for name in ("should_transfer_files", "shouldtransferfiles"):
        value = submit.get(name, "no").strip()
        if "$" not in value and value.lower() not in ("yes", "no", "if_needed"):
            raise SubmitError(f"command '{name} = {value[:60]}': allowed: YES, NO or IF_NEEDED")


#: the default of RequestMemory before 25
_MEMORY_OF_24 = "/Expr(ifthenelse(MemoryUsage isnt undefined,MemoryUsage,(ImageSize + 1023) / 1024))/"


def _settle_requests(ad: Json, commands: str) -> None:
    """Give the default requests of a description their numbers.

    HTCondor's defaults refer to ImageSize, MemoryUsage and DiskUsage. A schedd keeps these up to date, but
    this queue lacks them: the requests would stay undefined, and match no slot. The default of RequestMemory
    is HTCondor's from 25 on: an older version may read the description.
    """
    asked = {name.lower() for name, _ in assignments(commands)}
    if "request_memory" not in asked and ad.get("RequestMemory") == _MEMORY_OF_24:
        ad["RequestMemory"] = 128
    whole = from_json(ad)
    for name, command in (("RequestMemory", "request_memory"), ("RequestDisk", "request_disk")):
        if command in asked or not isinstance(ad.get(name), str):
            continue
        value = evaluate(whole, name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            ad[name] = max(1, int(value))


#: an include of a file: "include : FILE"; "include [into FILE] command : ..." runs a program
_INCLUDE = re.compile(r"\s*include\s*:\s*(\S.*?)\s*$", re.I)


def _bad_line(text: str) -> str:
    for number, line in enumerate(text.splitlines(), 1):
        if (included := _INCLUDE.match(line)) and "$(" not in included[1]:
            try:
                Path(included[1]).open("rb").close()
            except OSError as error:
                return f"line {number} includes '{included[1]}', which can't be read: {error.strerror}"
        if line.strip() and not re.match(
            r"\s*(?:#|\S+\s*@?=|(?:if|elif|else|endif|include|use|queue)\b)", line, re.I
        ):
            return f"line {number} is not 'command = value': '{line.strip()[:60]}'"
    return "no reason given"


def missing_executable(jobs: Jobs) -> str | None:
    """condor_submit's message about an executable that is not on this machine; None if all are there.

    As there, ``transfer_executable = false`` says that it is on the execute hosts, so it is not checked.
    """
    if jobs.common.get("TransferExecutable") is False:
        return None
    seen: set[Path] = set()
    for own in jobs.own:
        ad = {**jobs.common, **own}
        if "Cmd" not in ad:
            continue  # of a late cluster whose jobs have different executables
        path = Path(str(ad.get("Iwd", ""))) / str(ad.get("Cmd"))
        # the slot decides such a path later
        if path in seen or "$$" in str(path):
            continue
        seen.add(path)
        try:
            path.stat()
        except OSError as error:
            return f"Can't access executable file {path}: {error.strerror}"
    return None


def read_file(path: str) -> str:
    """The text of a file, or of standard input for '-': in UTF-8, in any locale."""
    try:
        if path == "-":
            stream = getattr(sys.stdin, "buffer", None)
            return sys.stdin.read() if stream is None else stream.read().decode()
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SubmitError(f"'{path}' is not text in UTF-8") from None
    except OSError as error:
        raise SubmitError(f"cannot read '{path}': {error.strerror}") from None
