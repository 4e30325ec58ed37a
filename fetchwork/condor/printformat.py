"""Print format files (``-print-format FILE``): SELECT, WHERE, GROUP BY and SUMMARY, as HTCondor has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fetchwork.condor.columns import ALTERNATIVES, Column, PrintMask, is_expression
from fetchwork.condor.printf import collapse_escapes
from fetchwork.condor.renderers import PRINT_AS, PrintAs

_BLANKS = " \t\r\n"


@dataclass(frozen=True)
class Token:
    """A word of a line, or a text in quotes, and where it begins and ends."""

    text: str
    start: int
    end: int
    quoted: bool


def tokens(line: str) -> Iterator[Token]:
    """The words of a line; those in quotes, which can't be escaped, without these."""
    position = 0
    while True:
        while position < len(line) and line[position] in _BLANKS:
            position += 1
        if position >= len(line):
            return
        if line[position] in "'\"":
            start = position + 1
            end = line.find(line[position], start)
            if end < 0:
                yield Token(line[start:], start, len(line), True)
                return
            yield Token(line[start:end], start, end + 1, True)
            position = end + 1
            continue
        end = position
        while end < len(line) and line[end] not in _BLANKS:
            end += 1
        yield Token(line[position:end], position, end, False)
        position = end


_COLUMN_WORDS = {
    *("ALWAYS", "AS", "AUTO", "FIT", "LEFT", "NOPREFIX", "NOSUFFIX", "OR"),
    *("PRINTAS", "PRINTF", "RENDERAS", "RIGHT", "TRUNCATE", "WIDTH"),
}


@dataclass
class PrintFormat:
    """What a print format says, beside the columns of the masks that it fills."""

    title: bool = True
    header: bool = True
    #: None: no line of totals; else whether it is the standard one
    summary: bool | None = None
    where: str = ""
    group_by: list[str] = field(default_factory=list)
    #: the ads are counted by the values of the columns
    unique: bool = False
    autoclusters: bool = False
    #: what is wrong, a line each; HTCondor prints these and goes on
    messages: list[str] = field(default_factory=list)


def read(
    lines: Iterable[str],
    mask: PrintMask,
    summary: PrintMask,
    local: dict[str, PrintAs] | None = None,
    *,
    texts_alone: bool = False,
) -> PrintFormat:
    """Fill the masks with what the lines say; ``local`` are further functions for PRINTAS.

    ``texts_alone``: as condor_status reads it, which shows texts alone, and uncut, where a WIDTH stands
    without a PRINTF.
    """
    found = PrintFormat()
    functions = {**PRINT_AS, **(local or {})}
    separators = {"RECORDPREFIX": "", "FIELDPREFIX": " ", "FIELDSUFFIX": "", "RECORDSUFFIX": "\n"}
    mask.separate("", " ", "", "\n")
    label: str | None = None
    section = "SELECT"
    columns_of = mask
    for number, raw in enumerate(lines, 1):
        line = raw.strip()
        words = list(tokens(line))
        if not words or words[0].text == "#":
            continue
        first = words[0].text
        rest = iter(words[1:])
        start = 0
        if first == "SELECT":
            section, columns_of = "SELECT", mask
            for word in rest:
                text = word.text
                if text == "FROM":
                    name = next(rest, None)
                    if name is None:
                        found.messages.append(_expected("data set name after FROM", number, len(line)))
                    else:
                        found.autoclusters = name.text == "AUTOCLUSTER"
                elif text == "UNIQUE":
                    found.unique = True
                elif text == "BARE":
                    found.title = found.header = False
                elif text == "NOTITLE":
                    found.title = False
                elif text == "NOHEADER":
                    found.header = False
                elif text == "NOSUMMARY":
                    found.summary = None
                elif text == "LABEL":
                    label = " = "
                elif text == "SEPARATOR" and label is not None:
                    label = collapse_escapes(_text(next(rest, None)))
                elif text in separators:
                    separators[text] = collapse_escapes(_text(next(rest, None)))
                else:
                    found.messages.append(f"Warning: Unknown header argument {text} for SELECT")
            mask.separate(
                separators["RECORDPREFIX"],
                separators["FIELDPREFIX"],
                separators["FIELDSUFFIX"],
                separators["RECORDSUFFIX"],
            )
            continue
        if first == "SUMMARY":
            section, columns_of = "SUMMARY", summary
            found.summary = False
            for word in rest:
                if word.text == "STANDARD":
                    found.summary = True
                elif word.text == "NONE":
                    found.summary = None
                else:
                    found.messages.append(f"Unknown argument {word.text} for SELECT")
            continue
        if first in ("JOIN", "WHERE", "AND", "GROUP"):
            section = first
            words = words[1:]
            if first == "GROUP" and words and words[0].text == "BY":
                words = words[1:]
            if not words:
                continue
            start = words[0].start - words[0].quoted
        if section in ("SELECT", "SUMMARY"):
            _add_column(
                columns_of, line, words, label, functions, number, found.messages, texts_alone=texts_alone
            )
        elif section == "WHERE":
            found.where = line[start:].strip()
        elif section == "GROUP":
            end = next((word.start for word in words if word.text in ("AS", "ASCENDING", "DESCENDING")), None)
            key = line[start:end].strip()
            if not key or key.startswith("#"):
                continue
            if is_expression(key):
                found.group_by.append(key)
            else:
                found.messages.append(f"GROUP BY expression is not valid: {key}")
    return found


def _text(token: Token | None) -> str:
    return "" if token is None else token.text


def _expected(what: str, number: int, offset: int) -> str:
    return f"expected {what} at line {number} offset {offset} in SELECT"


def _add_column(
    mask: PrintMask,
    line: str,
    words: list[Token],
    label: str | None,
    functions: dict[str, PrintAs],
    number: int,
    messages: list[str],
    *,
    texts_alone: bool,
) -> None:
    attribute: str | None = None
    name = ""
    format: str | None = "%v"
    width = 0
    own_width = False
    left = truncate = grows = always = False
    prefix = suffix = True
    alternative, wide = " ", False
    print_as: PrintAs | None = None
    grows_by_itself, whole = True, True
    rest = iter(words)
    for word in rest:
        if word.text not in _COLUMN_WORDS:
            continue
        if attribute is None:
            attribute = line[: word.start - word.quoted].strip()
        match word.text:
            case "AS":
                value = next(rest, None)
                if value is None:
                    messages.append(_expected("column name after AS", number, len(line)))
                else:
                    name = collapse_escapes(value.text) if value.quoted else value.text
            case "PRINTF":
                value = next(rest, None)
                if value is None:
                    messages.append(_expected("format after PRINTF", number, len(line)))
                else:
                    format = value.text
            case "PRINTAS" | "RENDERAS":
                value = next(rest, None)
                if value is None:
                    messages.append(_expected(f"function name after {word.text}", number, len(line)))
                elif value.text not in functions:
                    messages.append(f"Unknown argument {value.text} for {word.text}")
                else:
                    print_as = functions[value.text]
                    if word.text == "PRINTAS" or (format == "%v" and print_as.format is not None):
                        format = print_as.format
            case "OR":
                value = next(rest, None)
                if value is None:
                    messages.append(_expected("? or ?? after OR", number, len(line)))
                elif value.text and value.text[0] in ALTERNATIVES:
                    alternative = value.text[0]
                    wide = wide or value.text[1:2] == alternative
                else:
                    messages.append(f"Unknown argument {value.text} for OR")
            case "NOSUFFIX":
                suffix = False
            case "NOPREFIX":
                prefix = False
            case "LEFT":
                left = True
            case "RIGHT":
                left = False
            case "FIT":
                whole = True
            case "TRUNCATE":
                whole, truncate = False, True
            case "ALWAYS":
                always = True
            case "WIDTH":
                value = next(rest, None)
                if value is None:
                    messages.append(_expected("number or AUTO after WIDTH", number, len(line)))
                elif value.text == "AUTO":
                    grows = whole = True
                else:
                    from fetchwork.condor.arguments import leading_number

                    width, own_width = leading_number(value.text), True
                    grows_by_itself, whole = False, texts_alone
                    if format == "%v":
                        format = None
            case _:
                messages.append(f"{word.text} was unexpected at line {number} offset {word.start} in SELECT")
    attribute = line.strip() if attribute is None else attribute
    if not attribute or attribute.startswith("#"):
        return
    heading = name or attribute
    if label is not None:
        if format is not None:
            format = heading + label + format
        else:
            shown = f"%{width}.{abs(width)}" if width and not whole else f"%{width or ''}"
            format = heading + label + shown + ("s" if print_as is not None else "v")
        width = 0
    else:
        if not own_width:
            width = -len(heading)
        mask.headings.append(heading)
        if print_as is None and format is None and not texts_alone:
            format = f"%{width}{'' if whole else f'.{abs(width)}'}v" if width else "%v"
    column = Column(
        attribute,
        format,
        width,
        left=left,
        truncate=truncate or not whole,
        grows=grows or grows_by_itself,
        prefix=prefix,
        suffix=suffix,
        always=always,
        alternative=alternative,
        wide_alternative=wide,
    )
    if print_as is not None:
        print_as.apply(column)
    mask.columns.append(column)
    if not is_expression(attribute):
        messages.append(f"attribute or expression is not valid: {attribute}")
