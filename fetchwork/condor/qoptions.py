"""The words of condor_q: what it is to show of which jobs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from fetchwork.condor.adforms import Form
from fetchwork.condor.arguments import (
    Usage,
    is_colon_option,
    is_option,
    is_prefix,
    job_id,
    leading_number,
    text_of,
)

_RUNNING = "JobStatus == 2 || JobStatus == 6 || JobStatus == 7"

#: what is refused, with the reason
REFUSED = {
    "factory": "there are no job factories: what the jobs of a cluster share is kept once anyway",
    "jobset": "there are no job sets",
    "unmatchable": "'condor_q -better-analyze JOB' says why a job does not run",
    "userlog": "'fetchwork events' shows what happened to jobs",
    "slotads": "the slots are those of the queue's hosts",
    # of versions up to 23
    "goodput": "there are no checkpoints of the standard universe",
    "userprios": "'condor_userprio' shows priorities",
    "dry-run": "there is no schedd to ask",
    "capture-raw-results": "there is no schedd to ask",
    "reverse-analyze": "'fetchwork match SLOT' says which jobs a slot would get",
}


@dataclass
class QOptions:
    """What the words say."""

    #: conditions that must all hold, and those of which one must; in octets
    all_of: list[str] = field(default_factory=list)
    any_of: list[str] = field(default_factory=list)
    ids: list[tuple[int, int]] = field(default_factory=list)
    #: the table: '' is the default one
    table: str = ""
    custom: bool = False
    form: Form | None = None
    attributes: list[str] = field(default_factory=list)
    #: -format and -af, in order: ("format", format, attribute), ("af", letters, word, ...)
    formats: list[tuple[str, ...]] = field(default_factory=list)
    appended: list[tuple[str, ...]] = field(default_factory=list)
    print_format: str | None = None
    #: -wide and its width, as far as they stand before -print-format
    format_width: tuple[bool, int] = (False, 0)
    limit: int = -1
    mine: bool = True
    submitters: list[str] = field(default_factory=list)
    batch: bool | None = None
    zero: str = ""
    dag: bool = False
    totals: bool = False
    run: bool = False
    hold: bool = False
    idle: bool = False
    cputime: bool = False
    current_run: bool = True
    stream: bool = False
    wide: bool = False
    width: int = 0
    global_: bool = False
    autoclusters: bool = False
    group_by: bool = False
    ads_file: str | None = None
    ads_form: str = "auto"
    analyze: bool = False
    version: bool = False
    help: bool = False
    verbose: bool = False
    partial: bool = False
    constraint: str | None = None


def _value(words: Sequence[str], number: int, message: str) -> str:
    if number + 1 >= len(words):
        raise Usage(message)
    return words[number + 1]


def parse(words: Sequence[str]) -> QOptions:
    """Read the words, which are in octets; raises Usage in HTCondor's words."""
    found = QOptions()
    number = -1
    running_time_set = False
    while number + 1 < len(words):
        number += 1
        word = words[number]
        if not word.startswith("-"):
            _add_name(found, word)
            continue
        colon = _Colon(word)
        if colon("wide", 1):
            found.wide, found.width = colon.more is None, leading_number(colon.more or "")
        elif colon("long", 1):
            found.form = found.form or "long"
            for option in re.split(r"[,\s]+", colon.more or ""):
                if option in ("long", "xml", "json", "new", "auto", "jsonl"):
                    found.form = "long" if option == "auto" else option  # type: ignore[assignment]
        elif is_option(word, "xml", 3) or is_option(word, "json", 2):
            form: Form = "xml" if "x" in word.lstrip("-")[:1] else "json"
            if found.form in ("xml", "json") and found.form != form:
                raise Usage("Error: Cannot print as both XML and JSON")
            found.form = form
        elif is_option(word, "jsonl", 5):
            found.form = "jsonl"
        elif is_option(word, "limit", 3):
            text = _value(words, number, "Error: -limit requires the max number of results as an argument.")
            number += 1
            if not re.fullmatch(r"\s*[+-]?\d+", text):
                raise Usage(f"Error: Unable to convert ({text_of(text)}) to a number for -limit.")
            found.limit = int(text)
            if found.limit <= 0:
                raise Usage(f"Error: {found.limit} is not a valid for -limit.")
        elif is_option(word, "pool", 1):
            _value(words, number, "Error: -pool requires a hostname as an argument.")
            number += 1
        elif is_prefix(word[1:], "D", 1):
            _value(words, number, f"Error: {word} requires a list of flags as an argument.")
            number += 1
        elif is_option(word, "name", 1):
            if found.submitters:
                raise Usage("Cannot query both schedd's and submitters")
            _value(words, number, "Error: -name requires the name of a schedd as an argument.")
            number += 1
        elif is_option(word, "direct", 1):
            if _value(words, number, "Error: -direct requires [schedd]").lower() != "schedd":
                raise Usage("Error: -direct may only take 'schedd' as an option.")
            number += 1
        elif is_option(word, "submitter", 1):
            name = _value(words, number, "Error: -submitter requires the name of a user.")
            number += 1
            found.mine = False
            found.submitters.append(name)
            found.any_of.append(f"(AccountingGroup?:Owner)=={_quoted(name.partition('@')[0])}")
        elif is_option(word, "constraint", 1):
            text = _value(words, number, "Error: -constraint requires another parameter")
            number += 1
            found.constraint, found.partial = text, True
            found.all_of.append(text)
        elif (
            is_option(word, "mconstraint", 2)
            or is_option(word, "slotconstraint", 5)
            or is_option(word, "machine", 2)
        ):
            _value(words, number, f"Error: {word} requires another parameter")
            number += 1
        elif is_option(word, "address", 1):
            _value(words, number, "Error: -address requires another parameter")
            number += 1
        elif colon("autocluster", 2):
            found.autoclusters = True
        elif colon("group-by", 2):
            found.group_by = True
        elif is_option(word, "attributes", 2):
            text = _value(words, number, "Error: -attributes requires a list of attributes to show")
            number += 1
            found.attributes += [name for name in re.split(r"[,\s]+", text) if name]
        elif is_option(word, "format", 1):
            if number + 2 >= len(words):
                raise Usage("Error: -format requires format and attribute parameters")
            found.formats.append(("format", words[number + 1], words[number + 2]))
            found.custom = True
            number += 2
        elif colon("aaf", 3):
            number, taken = _taken(words, number, "Error: -aaf requires at least one attribute parameter")
            found.appended.append(("aaf", colon.more or "", *taken))
        elif colon("autoformat", 5) or colon("af", 2):
            number, taken = _taken(
                words, number, "Error: -autoformat requires at least one attribute parameter"
            )
            found.formats.append(("af", colon.more or "", *taken))
            found.custom = True
        elif colon("print-format", 2):
            file = _value(words, number, "Error: -print-format requires a filename argument")
            if file.startswith("-") and file != "-":
                raise Usage("Error: -print-format requires a filename argument")
            number += 1
            if file != "!":
                found.print_format, found.custom = file, True
                found.format_width = found.wide, found.width
        elif is_option(word, "global", 1):
            found.global_ = True
        elif is_option(word, "allusers", 2) or is_option(word, "all-users", 2):
            found.mine = False
        elif is_option(word, "schedd-constraint", 5):
            _value(words, number, "Error: -schedd-constraint requires a constraint argument")
            number += 1
            found.global_ = True
        elif is_option(word, "help", 1):
            found.help = True
            return found
        elif any(colon(name, 2) for name in ("better-analyze", "better-analyse", "analyze", "analyse")):
            found.analyze = True
        elif is_option(word, "verbose", 4):
            found.verbose = True
        elif is_option(word, "run", 1):
            _exclusive(found.hold or found.idle, "-run and -hold/held or -idle are incompatible")
            found.all_of.append(_RUNNING)
            found.run = found.partial = True
        elif colon("hold", 2) or colon("held", 2):
            _exclusive(found.run or found.idle, "-run and -hold/held or -idle are incompatible")
            _add_hold(found, colon.more)
            found.hold = True
        elif colon("hold-codes", 6) or colon("holdcodes", 5):
            _exclusive(found.run or found.idle, "-hold-codes incompatible with -idle or -run")
            _add_hold(found, colon.more)
            found.hold, found.table = True, found.table or "holdcodes"
        elif is_option(word, "idle", 3):
            _exclusive(found.run or found.hold, "-run and -hold/held or -idle are incompatible")
            found.all_of.append("JobStatus == 1")
            found.idle = found.partial = True
        elif is_option(word, "cputime", 2):
            found.cputime = True
        elif is_option(word, "currentrun", 3) or is_option(word, "cumulative-time", 3):
            current = word.lstrip("-").startswith("cur")
            if running_time_set:
                one, other = ("currentrun", "cumulative-time")[:: 1 if current else -1]
                raise Usage(f"Error: -{one} can't be used with -{other}")
            found.current_run = current
            running_time_set = True
        elif colon("grid", 2):
            found.table = "grid:ec2" if colon.more == "ec2" else "grid"
            found.all_of.append("JobUniverse == 9")
        elif colon("debug", 3):
            pass
        elif is_option(word, "io", 2):
            found.table = "io"
        elif is_option(word, "dag", 2):
            _exclusive(found.stream, "-stream-results and -dag are incompatible")
            found.dag = True
        elif colon("batch", 2) or colon("progress", 3):
            _exclusive(found.stream, "-stream-results and -batch are incompatible")
            found.batch = True
            for option in re.split("[,:]", colon.more or ""):
                if option[:1] in tuple("b?*.-_#z"):
                    found.zero = option[0]
        elif is_option(word, "nobatch", 3):
            found.batch = False
        elif is_option(word, "totals", 3):
            found.table, found.totals = "totals", True
        elif is_option(word, "expert", 1):
            pass
        elif colon("jobads", 1):
            found.ads_file = _value(words, number, "Error: -jobads requires a filename")
            number += 1
            if colon.more in ("long", "xml", "json", "new"):
                found.ads_form = colon.more
        elif is_option(word, "version", 1):
            found.version = True
            return found
        elif colon("profile", 4) or colon("nouserprios", 7):
            pass
        elif is_option(word, "stream-results", 2):
            _exclusive(found.dag or found.batch, "-stream-results and -dag or -batch are incompatible")
            found.stream = True
        elif refused := next((name for name in REFUSED if colon(name, min(len(name), 3))), None):
            raise Usage(f"Error: -{refused} is not supported: {REFUSED[refused]}")
        else:
            raise Usage(f"Error: unrecognized argument {text_of(word)}", help=True)
    return found


class _Colon:
    """Matches an option that may have a colon, and keeps what is behind that."""

    def __init__(self, word: str) -> None:
        self._word = word
        self.more: str | None = None

    def __call__(self, name: str, least: int) -> bool:
        matches, self.more = is_colon_option(self._word, name, least)
        return matches


def _exclusive(conflict: object, message: str) -> None:
    if conflict:
        raise Usage(message, help=True)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def _add_name(found: QOptions, word: str) -> None:
    id = job_id(word)
    if id is not None:
        found.ids.append(id)
        return
    found.any_of.append(f"Owner=={_quoted(word)}")
    found.mine = False


def _taken(words: Sequence[str], number: int, message: str) -> tuple[int, list[str]]:
    """The words up to the next option; a lone dash, which ends them, is passed over."""
    if number + 1 >= len(words) or words[number + 1].startswith("-"):
        raise Usage(message)
    taken = []
    while number + 1 < len(words) and not words[number + 1].startswith("-"):
        number += 1
        taken.append(words[number])
    if number + 1 < len(words) and words[number + 1] == "-":
        number += 1
    return number, taken


def _add_hold(found: QOptions, codes: str | None) -> None:
    found.all_of.append("JobStatus==5")
    found.partial = True
    parts = []
    for option in (codes or "").split(","):
        match = re.match(r"\s*(-?\d+)(?:/(\d+))?", option)
        if match is None:
            continue
        code, subcode = match.groups()
        both = f"(HoldReasonCode=={code} && HoldReasonSubCode=={subcode})"
        parts.append(f"HoldReasonCode=={code}" if subcode is None else both)
    if parts:
        found.all_of.append(" || ".join(parts))


def constraint_of(options: QOptions) -> str:
    """The constraint that the options mean, in octets; '' is all jobs."""
    any_of = list(options.any_of)
    for cluster, proc in options.ids:
        same = f"ClusterId == {cluster}"
        any_of.append(same if proc < 0 else f"{same} && ProcId == {proc}")
        if (options.dag or options.batch) and proc < 1:
            any_of.append(f"DAGManJobId == {cluster}")
            any_of.append(f'int(split(JobBatchId, ".")[0]) == {cluster}')
    parts = []
    for conditions, operator in ((options.all_of, " && "), (any_of, " || ")):
        once = list(dict.fromkeys(conditions))
        if once:
            parts.append("( " + operator.join(f"({condition})" for condition in once) + " )")
    return " && ".join(parts)
