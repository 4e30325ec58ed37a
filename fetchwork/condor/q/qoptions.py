"""The options of condor_q: which jobs it shows, and in which form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from fetchwork.condor import texts
from fetchwork.condor.arguments import (
    Action,
    Given,
    OptionTable,
    Usage,
    ignores,
    ignores_value,
    job_id,
    joined,
    leading_number,
    refuses,
    sets,
    text_of,
)
from fetchwork.condor.printing.adforms import Form

_RUNNING = "JobStatus == 2 || JobStatus == 6 || JobStatus == 7"

#: refused options -> the reason
REFUSED = {
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
    """The options of a command line."""

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
    running_time_said: bool = False
    stream: bool = False
    wide: bool = False
    width: int = 0
    global_: bool = False
    autoclusters: bool = False
    group_by: bool = False
    ads_file: str | None = None
    ads_form: str = "auto"
    analyze: bool = False
    verbose: bool = False
    partial: bool = False
    #: no title, and no totals of all users
    alone: bool = False
    constraint: str | None = None


def _wide(asked: QOptions, given: Given) -> None:
    asked.wide, asked.width = given.more is None, leading_number(given.more or "")


def _long(asked: QOptions, given: Given) -> None:
    asked.form = asked.form or "long"
    for option in re.split(r"[,\s]+", given.more or ""):
        if option in ("long", "xml", "json", "new", "auto", "jsonl"):
            asked.form = "long" if option == "auto" else option  # type: ignore[assignment]


def _form(form: Form) -> Action[QOptions]:
    def action(asked: QOptions, given: Given) -> None:
        if asked.form in ("xml", "json") and asked.form != form:
            raise Usage("Error: Cannot print as both XML and JSON")
        asked.form = form

    return action


def _limit(asked: QOptions, given: Given) -> None:
    text = given.value("Error: -limit requires the max number of results as an argument.")
    if not re.fullmatch(r"\s*[+-]?\d+", text):
        raise Usage(f"Error: Unable to convert ({text_of(text)}) to a number for -limit.")
    asked.limit = int(text)
    if asked.limit <= 0:
        raise Usage(f"Error: {asked.limit} is not a valid for -limit.")


def _name(asked: QOptions, given: Given) -> None:
    if asked.submitters:
        raise Usage("Cannot query both schedd's and submitters")
    given.value("Error: -name requires the name of a schedd as an argument.")


def _direct(asked: QOptions, given: Given) -> None:
    if given.value("Error: -direct requires [schedd]").lower() != "schedd":
        raise Usage("Error: -direct may only take 'schedd' as an option.")


def _submitter(asked: QOptions, given: Given) -> None:
    name = given.value("Error: -submitter requires the name of a user.")
    asked.mine = False
    asked.submitters.append(name)
    asked.any_of.append(f"(AccountingGroup?:Owner)=={_quoted(name.partition('@')[0])}")


def _constraint(asked: QOptions, given: Given) -> None:
    asked.constraint = given.value("Error: -constraint requires another parameter")
    asked.partial = True
    asked.all_of.append(asked.constraint)


def _attributes(asked: QOptions, given: Given) -> None:
    text = given.value("Error: -attributes requires a list of attributes to show")
    asked.attributes += [name for name in re.split(r"[,\s]+", text) if name]


def _format(asked: QOptions, given: Given) -> None:
    format, attribute = given.words.take(), given.words.take()
    if format is None or attribute is None:
        raise Usage("Error: -format requires format and attribute parameters")
    asked.formats.append(("format", format, attribute))
    asked.custom = True


def _autoformat(asked: QOptions, given: Given) -> None:
    asked.formats.append(("af", given.more or "", *_names(given, "-autoformat")))
    asked.custom = True


def _append(asked: QOptions, given: Given) -> None:
    asked.appended.append(("aaf", given.more or "", *_names(given, "-aaf")))


def _names(given: Given, option: str) -> list[str]:
    names = given.plain(f"Error: {option} requires at least one attribute parameter")
    if given.words.following == "-":
        # it ends the names
        given.words.take()
    return names


def _print_format(asked: QOptions, given: Given) -> None:
    message = "Error: -print-format requires a filename argument"
    file = given.value(message)
    if file.startswith("-") and file != "-":
        raise Usage(message)
    if file != "!":
        asked.print_format, asked.custom = file, True
        asked.format_width = asked.wide, asked.width


def _schedd_constraint(asked: QOptions, given: Given) -> None:
    given.value("Error: -schedd-constraint requires a constraint argument")
    asked.global_ = True


_ONE_STATE = "-run and -hold/held or -idle are incompatible"


def _run(asked: QOptions, given: Given) -> None:
    _exclusive(asked.hold or asked.idle, _ONE_STATE)
    asked.all_of.append(_RUNNING)
    asked.run = asked.partial = True


def _idle(asked: QOptions, given: Given) -> None:
    _exclusive(asked.run or asked.hold, _ONE_STATE)
    asked.all_of.append("JobStatus == 1")
    asked.idle = asked.partial = True


def _hold(asked: QOptions, given: Given) -> None:
    _exclusive(asked.run or asked.idle, _ONE_STATE)
    _add_hold(asked, given.more)


def _hold_codes(asked: QOptions, given: Given) -> None:
    _exclusive(asked.run or asked.idle, "-hold-codes incompatible with -idle or -run")
    _add_hold(asked, given.more)
    asked.table = asked.table or "holdcodes"


def _running_time(asked: QOptions, given: Given) -> None:
    if asked.running_time_said:
        other = "cumulative-time" if given.name == "currentrun" else "currentrun"
        raise Usage(f"Error: -{given.name} can't be used with -{other}")
    asked.current_run, asked.running_time_said = given.name == "currentrun", True


def _grid(asked: QOptions, given: Given) -> None:
    asked.table = "grid:ec2" if given.more == "ec2" else "grid"
    asked.all_of.append("JobUniverse == 9")


def _dag(asked: QOptions, given: Given) -> None:
    _exclusive(asked.stream, "-stream-results and -dag are incompatible")
    asked.dag = True


def _batch(asked: QOptions, given: Given) -> None:
    _exclusive(asked.stream, "-stream-results and -batch are incompatible")
    asked.batch = True
    for option in re.split("[,:]", given.more or ""):
        if option[:1] in tuple("b?*.-_#z"):
            asked.zero = option[0]


def _stream(asked: QOptions, given: Given) -> None:
    _exclusive(asked.dag or asked.batch, "-stream-results and -dag or -batch are incompatible")
    asked.stream = True


def _job_ads(asked: QOptions, given: Given) -> None:
    asked.ads_file = given.value("Error: -jobads requires a filename")
    if given.more in ("long", "xml", "json", "new"):
        asked.ads_form = given.more


_OPTIONS: OptionTable[QOptions] = OptionTable(
    ("wide:", 1, _wide),
    ("long:", 1, _long),
    ("xml", 3, _form("xml")),
    ("json", 2, _form("json")),
    ("jsonl", 5, sets(form="jsonl")),
    ("limit", 3, _limit),
    ("pool", 1, ignores_value("Error: -pool requires a hostname as an argument.")),
    ("D", 1, ignores_value("Error: {word} requires a list of flags as an argument.")),
    ("name", 1, _name),
    ("direct", 1, _direct),
    ("submitter", 1, _submitter),
    ("constraint", 1, _constraint),
    ("mconstraint machine", 2, ignores_value("Error: {word} requires another parameter")),
    ("slotconstraint", 5, ignores_value("Error: {word} requires another parameter")),
    ("address", 1, ignores_value("Error: -address requires another parameter")),
    ("autocluster:", 2, sets(autoclusters=True)),
    ("group-by:", 2, sets(group_by=True)),
    ("attributes", 2, _attributes),
    ("format", 1, _format),
    ("aaf:", 3, _append),
    ("autoformat:", 5, _autoformat),
    ("af:", 2, _autoformat),
    ("print-format:", 2, _print_format),
    ("global", 1, sets(global_=True)),
    ("allusers all-users", 2, sets(mine=False)),
    ("schedd-constraint", 5, _schedd_constraint),
    ("help", 1, texts.print_help),
    ("better-analyze: better-analyse: analyze: analyse:", 2, sets(analyze=True)),
    ("verbose", 4, sets(verbose=True)),
    ("run", 1, _run),
    ("hold: held:", 2, _hold),
    ("hold-codes:", 6, _hold_codes),
    ("holdcodes:", 5, _hold_codes),
    ("idle", 3, _idle),
    ("cputime", 2, sets(cputime=True)),
    ("currentrun cumulative-time", 3, _running_time),
    ("grid:", 2, _grid),
    ("debug:", 3, ignores),
    ("io", 2, sets(table="io")),
    ("factory", 1, sets(table="factory", batch=False)),
    ("dag", 2, _dag),
    ("batch:", 2, _batch),
    ("progress:", 3, _batch),
    ("nobatch", 3, sets(batch=False)),
    ("totals", 3, sets(table="totals", totals=True)),
    ("expert", 1, ignores),
    ("jobads:", 1, _job_ads),
    ("version", 1, texts.print_version),
    ("profile:", 4, ignores),
    ("nouserprios:", 7, ignores),
    ("stream-results", 2, _stream),
    *((f"{name}:", 3, refuses(REFUSED)) for name in REFUSED),
)


def parse(words: Iterable[str]) -> QOptions:
    """Read the words, which are in octets; raises Usage in HTCondor's words."""
    return _OPTIONS.read(QOptions(), words, "condor_q", _add_name, text_of)


def _exclusive(conflict: object, message: str) -> None:
    if conflict:
        raise Usage(message, help=True)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def _add_name(asked: QOptions, given: Given) -> None:
    if given.word.startswith("-"):
        raise given.wrong("Error: unrecognized argument {word}", help=True)
    id = job_id(given.word)
    if id is not None:
        asked.ids.append(id)
        return
    asked.any_of.append(f"Owner=={_quoted(given.word)}")
    asked.mine = False


def _add_hold(asked: QOptions, codes: str | None) -> None:
    asked.all_of.append("JobStatus == 5")
    asked.hold = asked.partial = True
    parts = []
    for option in (codes or "").split(","):
        match = re.match(r"\s*(-?\d+)(?:/(\d+))?", option)
        if match is None:
            continue
        code, subcode = match.groups()
        both = f"(HoldReasonCode=={code} && HoldReasonSubCode=={subcode})"
        parts.append(f"HoldReasonCode=={code}" if subcode is None else both)
    if parts:
        asked.all_of.append(" || ".join(parts))


def constraint_of(options: QOptions) -> str:
    """The constraint that the options mean, in octets; '' is all jobs."""
    any_of = list(options.any_of)
    for cluster, proc in options.ids:
        same = f"ClusterId == {cluster}"
        any_of.append(same if proc < 0 else f"{same} && ProcId == {proc}")
        if (options.dag or options.batch) and proc < 1:
            any_of.append(f"DAGManJobId == {cluster}")
            # an error for a job without JobBatchId, which no later id can select then; so in HTCondor
            any_of.append(f'int(split(JobBatchId, ".")[0]) == {cluster}')
    return joined(options.all_of, any_of)
