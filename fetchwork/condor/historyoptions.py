"""The options of condor_history: which jobs it shows, and in which form."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fetchwork.condor import texts
from fetchwork.condor.arguments import (
    Given,
    OptionTable,
    Usage,
    ignores,
    ignores_value,
    joined,
    leading_number,
    refuses,
    sets,
    takes,
    text_of,
)
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.printing import printformat
from fetchwork.condor.printing.autoformat import InvalidExpression, add_autoformat, add_format
from fetchwork.condor.printing.columns import PrintMask
from fetchwork.condor.printing.printedad import NotAnExpression, expression

#: options of sources of records that a fetchwork queue does not have
REFUSED = {
    "epochs": "'fetchwork runs JOB' shows the runs of a job",
    "startd": "'fetchwork runs JOB' shows the runs of a job",
    "transfer-history": "no record of each transfer is kept",
    "daemon": "there are no daemons' records",
    "directory": "there is no folder of records",
    "search": "there are no rotated files",
    "extract": "use -long",
    "userlog": "'fetchwork events' shows what happened to jobs",
}


@dataclass
class HistoryOptions:
    """The options of a command line."""

    run: Invocation
    form: str | None = None
    #: the forms that exclude each other, as far as they were named
    forms: set[str] = field(default_factory=set)
    attributes: list[str] = field(default_factory=list)
    all_of: list[str] = field(default_factory=list)
    any_of: list[str] = field(default_factory=list)
    backwards: bool = True
    #: -forwards was given, even if -backwards came after it
    forwards: bool = False
    limit: int = -1
    scan_limit: int = -1
    since: str | None = None
    file: str | None = None
    wide: bool = False
    width: int = 0
    custom: bool = False
    #: jobs that were named by id; each matches once
    ids: list[tuple[int, int]] = field(default_factory=list)
    mask: PrintMask = field(default_factory=PrintMask)


def _is_expression(text: str) -> bool:
    try:
        expression(text)
    except NotAnExpression:
        return False
    return True


def _read_print_format(asked: HistoryOptions, file: str) -> None:
    run = asked.run
    name = text_of(file)
    try:
        data = run.stdin.read() if file == "-" else run.path(name).read_bytes()
    except OSError:
        raise Usage(
            f"Can't open select file: {name}\nError: cannot execute print-format file {name}"
        ) from None
    if not asked.wide:
        asked.mask.overall_width = (asked.width or (run.columns if run.columns > 0 else 80)) - 1
    made = printformat.read(data.decode("latin-1").splitlines(), asked.mask, PrintMask())
    if made.unique:
        made.messages.append("UNIQUE aggregation is not supported.")
    for message in made.messages:
        run.complain(text_of(message) + "\n")
    if made.unique:
        raise Usage(f"Error: cannot execute print-format file {name}")
    if made.where:
        asked.all_of.append(made.where)
    asked.custom = True


def constraint_of(options: HistoryOptions) -> str:
    """The constraint that the options mean, in octets; '' is all jobs."""
    return joined(options.all_of, options.any_of)


def _form(asked: HistoryOptions, given: Given) -> None:
    asked.form = given.name
    asked.forms.add(given.name)


def _long(asked: HistoryOptions, given: Given) -> None:
    asked.form = asked.form or "long"


_NO_SINCE = "Error: Argument -forwards cannot be combined with -since."


def _forwards(asked: HistoryOptions, given: Given) -> None:
    if asked.since is not None:
        raise Usage(_NO_SINCE)
    asked.backwards, asked.forwards = False, True


def _wide(asked: HistoryOptions, given: Given) -> None:
    asked.wide = True
    if given.more is not None:
        asked.width = leading_number(given.more)
        if asked.mask.columns:
            asked.mask.overall_width = (asked.width or 80) - 1
        if asked.width <= 80:
            asked.wide = False


def _limit(asked: HistoryOptions, given: Given) -> None:
    text = given.value("Error: Argument -match requires a number value as a parameter.")
    asked.limit = leading_number(text)


def _scan_limit(asked: HistoryOptions, given: Given) -> None:
    text = given.value("Error: Argument {word} requires a number value  as a parameter.")
    asked.scan_limit = leading_number(text)


def _file(asked: HistoryOptions, given: Given) -> None:
    file = given.words.take()
    if file is None or asked.file is not None:
        raise Usage("", help=True, newline=False)
    asked.file = file


def _attributes(asked: HistoryOptions, given: Given) -> None:
    text = given.value("Error: Argument -attributes must be followed by a list of attributes", dash=False)
    asked.attributes = [name for name in re.split(r"[,\s]+", text) if name]


def _format(asked: HistoryOptions, given: Given) -> None:
    format, attribute = given.words.take(), given.words.take()
    if format is None or attribute is None:
        raise Usage(
            "Error: Argument -format requires a spec and classad attribute name as parameters.\n"
            "\t\te.g. condor_history -format '%d' ClusterId"
        )
    add_format(asked.mask, format, attribute)
    asked.custom = True


_UNKNOWN = "Error: Unknown argument {word}"


def _autoformat(asked: HistoryOptions, given: Given) -> None:
    if given.word.startswith("--"):
        # HTCondor's takes this option with one dash alone
        raise given.wrong(_UNKNOWN, help=True)
    names = given.plain(
        "Error: Argument {word} requires at least one attribute parameter\n"
        "\t\te.g. condor_history {word} ClusterId"
    )
    try:
        add_autoformat(asked.mask, given.more or "", names)
    except InvalidExpression as problem:
        raise Usage(f"Error: invalid expression : {text_of(str(problem))}") from None
    asked.custom = True


def _print_format(asked: HistoryOptions, given: Given) -> None:
    message = "Error: Argument -print-format requires a filename argument"
    file = given.value(message)
    if file.startswith("-") and file != "-":
        raise Usage(message)
    if file != "!":
        _read_print_format(asked, file)


_ANOTHER = "Error: Argument {word} requires another parameter"


def _since(asked: HistoryOptions, given: Given) -> None:
    """Take the condition that ends the list: an expression, or the job of an id."""
    if asked.forwards:
        raise Usage(_NO_SINCE)
    text = given.value(_ANOTHER)
    if id := re.fullmatch(r"(\d+)(?:\.(\d+)?)?", text):
        cluster, proc = id.groups()
        asked.since = f"ClusterId == {cluster}" + (f" && ProcId == {proc}" if proc else "")
        return
    literal = re.fullmatch(r"\s*(?:-?[\d.]+|\"[^\"]*\"|true|false|undefined|error)\s*", text, re.I)
    if literal or not _is_expression(text):
        raise Usage(
            f"Error: invalid -since constraint: {text_of(text)}\n"
            "\tconstraint must be a job-id, or expression.",
            newline=False,
        )
    asked.since = text


def _completed_since(asked: HistoryOptions, given: Given) -> None:
    text = given.value("Error: Argument -completedsince requires another parameter.")
    asked.since = f"CompletionDate <= {text}"
    if not _is_expression(asked.since):
        message = f"Error: '{text_of(text)}' not valid parameter for -completedsince "
        raise Usage(message, newline=False)


_NO_NAME = (
    "Error: Argument -name requires name of a remote schedd\n"
    "\t\te.g. condor_history -name submit.example.com "
)
_JOB = re.compile(r"([+-]?\d+)(?:\.([+-]?\d+))?")

_OPTIONS: OptionTable[HistoryOptions] = OptionTable(
    ("long", 1, _long),
    ("xml", 3, _form),
    ("jsonl", 5, _form),
    ("json", 4, _form),
    ("backwards", 1, sets(backwards=True)),
    ("nobackwards", 3, _forwards),
    ("forwards", 4, _forwards),
    ("wide:", 1, _wide),
    ("match", 1, _limit),
    ("limit", 3, _limit),
    ("scanlimit", 4, _scan_limit),
    ("file", 2, _file),
    ("local", 2, ignores),
    # of versions that kept history in a database
    ("no-librarian", 5, ignores),
    ("schedd", 3, ignores),
    ("stream-results:", 6, ignores),
    ("attributes", 2, _attributes),
    ("help", 1, texts.print_help),
    ("format", 1, _format),
    ("af:", 2, _autoformat),
    ("autoformat:", 5, _autoformat),
    ("print-format:", 2, _print_format),
    ("constraint", 1, takes("all_of", _ANOTHER)),
    ("since", 4, _since),
    ("completedsince", 3, _completed_since),
    ("debug:", 3, ignores),
    ("diagnostic", 4, ignores),
    ("name pool", 1, ignores_value(_NO_NAME)),
    *((f"{name}:", 2, refuses(REFUSED)) for name in REFUSED),
)


def _add_job(asked: HistoryOptions, given: Given) -> None:
    # some ids begin with a sign
    if (id := _JOB.match(given.word)) is not None:
        cluster, proc = int(id[1]), id[2]
        same = f"ClusterId == {cluster}"
        asked.any_of.append(same if proc is None else f"{same} && ProcId == {int(proc)}")
        asked.ids.append((cluster, -1 if proc is None else int(proc)))
    elif given.word.startswith("-"):
        raise given.wrong(_UNKNOWN, help=True)
    else:
        quoted = given.word.replace('"', '\\"')
        asked.any_of.append(f'Owner == "{quoted}"')


def parse(run: Invocation) -> HistoryOptions:
    """Read the options; raises Usage in HTCondor's words."""
    asked = _OPTIONS.read(HistoryOptions(run), run.words(), run.name, _add_job, text_of)
    if len(asked.forms) > 1:
        raise Usage("Error: Cannot use more than one of XML and JSON[L]")
    return asked
