"""The words of condor_history: which jobs it is to show, and how."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fetchwork.condor import printformat, texts
from fetchwork.condor.arguments import Usage, is_colon_option, is_option, leading_number, text_of
from fetchwork.condor.autoformat import InvalidExpression, add_autoformat, add_format
from fetchwork.condor.columns import PrintMask
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.printedad import NotAnExpression, expression

#: options of other sources of records, which a fetchwork queue has not
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
    """What the words say."""

    form: str | None = None
    attributes: list[str] = field(default_factory=list)
    all_of: list[str] = field(default_factory=list)
    any_of: list[str] = field(default_factory=list)
    backwards: bool = True
    limit: int = -1
    scan_limit: int = -1
    since: str | None = None
    file: str | None = None
    wide: bool = False
    width: int = 0
    custom: bool = False
    #: whether the last jobs were named one by one, each found once
    ids: list[tuple[int, int]] = field(default_factory=list)
    mask: PrintMask = field(default_factory=PrintMask)
    names: set[str] = field(default_factory=set)


def constraint_of(options: HistoryOptions) -> str:
    """The constraint that the options mean, in octets; '' is all jobs."""
    parts = []
    for conditions, operator in ((options.all_of, " && "), (options.any_of, " || ")):
        once = list(dict.fromkeys(conditions))
        if once:
            parts.append("( " + operator.join(f"({condition})" for condition in once) + " )")
    return " && ".join(parts)


def parse(run: Invocation) -> HistoryOptions | None:
    """The options; None where there is nothing more to do."""
    found = HistoryOptions()
    words = run.words()
    given = list(run.argv[1:])
    number = -1
    forms: set[str] = set()
    hasforwards = False
    while number + 1 < len(words):
        number += 1
        word, shown = words[number], given[number]

        def value(message: str, number: int = number) -> str:
            if number + 1 >= len(words):
                raise Usage(message)
            return words[number + 1]

        another = f"Error: Argument {shown} requires another parameter"
        if is_option(word, "long", 1):
            found.form = found.form or "long"
        elif is_option(word, "xml", 3):
            found.form = "xml"
            forms.add("xml")
        elif is_option(word, "jsonl", 5):
            found.form = "jsonl"
            forms.add("jsonl")
        elif is_option(word, "json", 4):
            found.form = "json"
            forms.add("json")
        elif is_option(word, "backwards", 1):
            found.backwards = True
        elif is_option(word, "nobackwards", 3) or is_option(word, "forwards", 4):
            if found.since is not None:
                raise Usage("Error: Argument -forwards cannot be combined with -since.")
            found.backwards, hasforwards = False, True
        elif is_colon_option(word, "wide", 1)[0]:
            more = is_colon_option(word, "wide", 1)[1]
            found.wide = True
            if more is not None:
                found.width = leading_number(more)
                if found.mask.columns:
                    found.mask.overall_width = (found.width or 80) - 1
                if found.width <= 80:
                    found.wide = False
        elif is_option(word, "match", 1) or is_option(word, "limit", 3):
            text = value("Error: Argument -match requires a number value as a parameter.")
            found.limit = leading_number(text)
            number += 1
        elif is_option(word, "scanlimit", 4):
            text = value(f"Error: Argument {shown} requires a number value  as a parameter.")
            found.scan_limit = leading_number(text)
            number += 1
        elif is_option(word, "file", 2):
            if number + 1 == len(words) or found.file is not None:
                raise Usage("", help=True, newline=False)
            number += 1
            found.file = words[number]
        elif (
            is_option(word, "local", 2)
            # of versions that kept history in a database
            or is_option(word, "no-librarian", 5)
            or is_option(word, "schedd", 3)
            or is_colon_option(word, "stream-results", 6)[0]
        ):
            pass
        elif is_option(word, "attributes", 2):
            if number + 1 >= len(words) or words[number + 1].startswith("-"):
                raise Usage("Error: Argument -attributes must be followed by a list of attributes")
            number += 1
            found.attributes = [name for name in re.split(r"[,\s]+", words[number]) if name]
        elif is_option(word, "help", 1):
            run.say(texts.help_of("condor_history"))
            return None
        elif is_option(word, "format", 1):
            if number + 2 >= len(words):
                raise Usage(
                    "Error: Argument -format requires a spec and classad attribute name as parameters.\n"
                    "\t\te.g. condor_history -format '%d' ClusterId"
                )
            add_format(found.mask, words[number + 1], words[number + 2])
            found.names.update(_names(words[number + 2]))
            found.custom = True
            number += 2
        elif word.startswith("-") and (_af := _autoformat(word)) is not None:
            if number + 1 >= len(words) or words[number + 1].startswith("-"):
                raise Usage(
                    f"Error: Argument {shown} requires at least one attribute parameter\n"
                    f"\t\te.g. condor_history {shown} ClusterId"
                )
            taken = []
            while number + 1 < len(words) and not words[number + 1].startswith("-"):
                number += 1
                taken.append(words[number])
            try:
                add_autoformat(found.mask, _af, taken)
            except InvalidExpression as problem:
                raise Usage(f"Error: invalid expression : {text_of(str(problem))}") from None
            found.names.update(*map(_names, taken))
            found.custom = True
        elif is_colon_option(word, "print-format", 2)[0]:
            if number + 1 >= len(words) or (words[number + 1].startswith("-") and words[number + 1] != "-"):
                raise Usage("Error: Argument -print-format requires a filename argument")
            number += 1
            if words[number] != "!":
                _print_format(run, found, words[number])
        elif is_option(word, "constraint", 1):
            found.all_of.append(value(another))
            number += 1
        elif is_option(word, "since", 4):
            if hasforwards:
                raise Usage("Error: Argument -forwards cannot be combined with -since.")
            found.since = _since(value(another))
            number += 1
        elif is_option(word, "completedsince", 3):
            text = value("Error: Argument -completedsince requires another parameter.")
            number += 1
            found.since = f"CompletionDate <= {text}"
            if not _is_expression(found.since):
                message = f"Error: '{text_of(text)}' not valid parameter for -completedsince "
                raise Usage(message, newline=False)
        elif id := re.match(r"([+-]?\d+)(?:\.([+-]?\d+))?", word):
            cluster, proc = int(id[1]), id[2]
            same = f"ClusterId == {cluster}"
            found.any_of.append(same if proc is None else f"{same} && ProcId == {int(proc)}")
            found.ids.append((cluster, -1 if proc is None else int(proc)))
        elif is_colon_option(word, "debug", 3)[0] or is_option(word, "diagnostic", 4):
            pass
        elif is_option(word, "name", 1) or is_option(word, "pool", 1):
            value(
                "Error: Argument -name requires name of a remote schedd\n"
                "\t\te.g. condor_history -name submit.example.com "
            )
            number += 1
        elif refused := next((name for name in REFUSED if is_colon_option(word, name, 2)[0]), None):
            raise Usage(f"Error: -{refused} is not supported: {REFUSED[refused]}")
        elif word.startswith("-"):
            raise Usage(f"Error: Unknown argument {shown}", help=True)
        else:
            quoted = word.replace('"', '\\"')
            found.any_of.append(f'Owner == "{quoted}"')
    if len(forms) > 1:
        raise Usage("Error: Cannot use more than one of XML and JSON[L]")
    return found


def _autoformat(word: str) -> str | None:
    """The letters of ``-af``, where the word is that option."""
    for name, least in (("af", 2), ("autoformat", 5)):
        matches, more = is_colon_option(word, name, least)
        if matches and not word.startswith("--"):
            return more or ""
    return None


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _names(text: str) -> set[str]:
    return set(_WORD.findall(text))


def _is_expression(text: str) -> bool:
    try:
        expression(text)
    except NotAnExpression:
        return False
    return True


def _since(text: str) -> str:
    """The condition that ends the list: an expression, or the job of an id."""
    if id := re.fullmatch(r"(\d+)(?:\.(\d+)?)?", text):
        cluster, proc = id.groups()
        return f"ClusterId == {cluster}" + (f" && ProcId == {proc}" if proc else "")
    literal = re.fullmatch(r"\s*(?:-?[\d.]+|\"[^\"]*\"|true|false|undefined|error)\s*", text, re.I)
    if literal or not _is_expression(text):
        raise Usage(
            f"Error: invalid -since constraint: {text_of(text)}\n"
            "\tconstraint must be a job-id, or expression.",
            newline=False,
        )
    return text


def _print_format(run: Invocation, found: HistoryOptions, file: str) -> None:
    name = text_of(file)
    try:
        data = run.stdin.read() if file == "-" else run.path(name).read_bytes()
    except OSError:
        raise Usage(
            f"Can't open select file: {name}\nError: cannot execute print-format file {name}"
        ) from None
    if not found.wide:
        found.mask.overall_width = (found.width or (run.columns if run.columns > 0 else 80)) - 1
    made = printformat.read(data.decode("latin-1").splitlines(), found.mask, PrintMask())
    if made.unique:
        made.messages.append("UNIQUE aggregation is not supported.")
    for message in made.messages:
        run.complain(text_of(message) + "\n")
    if made.unique:
        raise Usage(f"Error: cannot execute print-format file {name}")
    if made.where:
        found.all_of.append(made.where)
    found.custom = True
