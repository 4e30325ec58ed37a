"""Print format files (``-print-format FILE``): SELECT, WHERE, GROUP BY and SUMMARY, as HTCondor has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fetchwork.condor.arguments import leading_number
from fetchwork.condor.printing.columns import ALTERNATIVES, Column, PrintMask, is_expression
from fetchwork.condor.printing.printf import collapse_escapes
from fetchwork.condor.printing.renderers import PRINT_AS, PrintAs

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


#: words of a column -> the fields that they set
_FLAGS = {
    "NOSUFFIX": {"suffix": False},
    "NOPREFIX": {"prefix": False},
    "LEFT": {"left": True},
    "RIGHT": {"left": False},
    "FIT": {"whole": True},
    "TRUNCATE": {"whole": False, "truncate": True},
    "ALWAYS": {"always": True},
}
#: words of a column that a value follows -> how messages call the value
_VALUES = {
    "AS": "column name",
    "PRINTF": "format",
    "PRINTAS": "function name",
    "RENDERAS": "function name",
    "OR": "? or ??",
    "WIDTH": "number or AUTO",
}
#: words of SELECT -> the fields that they set
_OF_SELECT: dict[str, dict[str, bool | None]] = {
    "UNIQUE": {"unique": True},
    "BARE": {"title": False, "header": False},
    "NOTITLE": {"title": False},
    "NOHEADER": {"header": False},
    "NOSUMMARY": {"summary": None},
}


@dataclass
class PrintFormat:
    """The parts of a print format other than the columns, which go to masks."""

    title: bool = True
    header: bool = True
    #: None: no line of totals; else whether it is the standard one
    summary: bool | None = None
    where: str = ""
    group_by: list[str] = field(default_factory=list)
    #: the ads are counted by the values of the columns
    unique: bool = False
    autoclusters: bool = False
    #: errors, one a line; HTCondor prints them and goes on
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
    mask.separate("", " ", "", "\n")
    reader = _Reader(mask, summary, {**PRINT_AS, **(local or {})}, texts_alone)
    for number, raw in enumerate(lines, 1):
        line = raw.strip()
        words = list(tokens(line))
        if words and words[0].text != "#":
            reader.read(number, line, words)
    return reader.format


@dataclass
class _Reader:
    mask: PrintMask
    summary: PrintMask
    functions: dict[str, PrintAs]
    texts_alone: bool
    format: PrintFormat = field(default_factory=PrintFormat)
    section: str = "SELECT"
    #: between heading and value of a column, if LABEL was said
    label: str | None = None
    separators: dict[str, str] = field(
        default_factory=lambda: {
            "RECORDPREFIX": "",
            "FIELDPREFIX": " ",
            "FIELDSUFFIX": "",
            "RECORDSUFFIX": "\n",
        }
    )

    def read(self, number: int, line: str, words: list[Token]) -> None:
        """Read a line that has words."""
        first = words[0].text
        start = 0
        if first == "SELECT":
            self._select(number, line, iter(words[1:]))
            return
        if first == "SUMMARY":
            self._summary(words[1:])
            return
        if first in ("JOIN", "WHERE", "AND", "GROUP"):
            self.section = first
            words = words[1:]
            if first == "GROUP" and words and words[0].text == "BY":
                words = words[1:]
            if not words:
                return
            start = words[0].start - words[0].quoted
        if self.section in ("SELECT", "SUMMARY"):
            self._column(number, line, words)
        elif self.section == "WHERE":
            self.format.where = line[start:].strip()
        elif self.section == "GROUP":
            end = next((word.start for word in words if word.text in ("AS", "ASCENDING", "DESCENDING")), None)
            self._group(line[start:end].strip())

    def _select(self, number: int, line: str, rest: Iterator[Token]) -> None:
        self.section = "SELECT"
        for word in rest:
            if word.text == "FROM":
                name = next(rest, None)
                if name is None:
                    self._expected("data set name after FROM", number, line)
                else:
                    self.format.autoclusters = name.text == "AUTOCLUSTER"
            elif word.text in _OF_SELECT:
                vars(self.format).update(_OF_SELECT[word.text])
            elif word.text == "LABEL":
                self.label = " = "
            elif word.text == "SEPARATOR" and self.label is not None:
                self.label = collapse_escapes(_text(next(rest, None)))
            elif word.text in self.separators:
                self.separators[word.text] = collapse_escapes(_text(next(rest, None)))
            else:
                self.format.messages.append(f"Warning: Unknown header argument {word.text} for SELECT")
        self.mask.separate(*self.separators.values())

    def _summary(self, words: list[Token]) -> None:
        self.section = "SUMMARY"
        self.format.summary = False
        for word in words:
            if word.text in ("STANDARD", "NONE"):
                self.format.summary = True if word.text == "STANDARD" else None
            else:
                self.format.messages.append(f"Unknown argument {word.text} for SELECT")

    def _group(self, key: str) -> None:
        if not key or key.startswith("#"):
            return
        if is_expression(key):
            self.format.group_by.append(key)
        else:
            self.format.messages.append(f"GROUP BY expression is not valid: {key}")

    def _column(self, number: int, line: str, words: list[Token]) -> None:
        attribute: str | None = None
        said = _Words(self)
        rest = iter(words)
        for word in rest:
            if word.text not in _FLAGS and word.text not in _VALUES and word.text != "AUTO":
                continue
            if attribute is None:
                attribute = line[: word.start - word.quoted].strip()
            if word.text in _FLAGS:
                vars(said).update(_FLAGS[word.text])
            elif word.text == "AUTO":
                message = f"{word.text} was unexpected at line {number} offset {word.start} in SELECT"
                self.format.messages.append(message)
            elif (value := next(rest, None)) is None:
                self._expected(f"{_VALUES[word.text]} after {word.text}", number, line)
            else:
                said.take(word.text, value)
        attribute = line.strip() if attribute is None else attribute
        if attribute and not attribute.startswith("#"):
            mask = self.mask if self.section == "SELECT" else self.summary
            mask.columns.append(said.column(attribute, mask))
            if not is_expression(attribute):
                self.format.messages.append(f"attribute or expression is not valid: {attribute}")

    def _expected(self, something: str, number: int, line: str) -> None:
        self.format.messages.append(f"expected {something} at line {number} offset {len(line)} in SELECT")


def _text(token: Token | None) -> str:
    return "" if token is None else token.text


@dataclass
class _Words:
    """The words of a column."""

    reader: _Reader
    name: str = ""
    format: str | None = "%v"
    print_as: PrintAs | None = None
    width: int = 0
    own_width: bool = False
    left: bool = False
    truncate: bool = False
    always: bool = False
    prefix: bool = True
    suffix: bool = True
    alternative: str = " "
    wide: bool = False
    #: WIDTH AUTO, and no WIDTH with a number
    auto: bool = False
    grows: bool = True
    whole: bool = True

    def take(self, word: str, value: Token) -> None:
        """Take a word that has a value."""
        text = value.text
        if word == "AS":
            self.name = collapse_escapes(text) if value.quoted else text
        elif word == "PRINTF":
            self.format = text
        elif word == "OR" and text[:1] in tuple(ALTERNATIVES):
            self.alternative = text[0]
            self.wide = self.wide or text[1:2] == text[0]
        elif word == "WIDTH":
            self._take_width(text)
        elif word in ("PRINTAS", "RENDERAS") and text in self.reader.functions:
            self.print_as = self.reader.functions[text]
            if word == "PRINTAS" or (self.format == "%v" and self.print_as.format is not None):
                self.format = self.print_as.format
        else:
            self.reader.format.messages.append(f"Unknown argument {text} for {word}")

    def _take_width(self, text: str) -> None:
        if text == "AUTO":
            self.auto = self.whole = True
            return
        self.width, self.own_width = leading_number(text), True
        self.grows, self.whole = False, self.reader.texts_alone
        if self.format == "%v":
            self.format = None

    def column(self, attribute: str, mask: PrintMask) -> Column:
        """The column of an attribute; its heading is added to the mask."""
        format, width = self.format, self.width
        heading = self.name or attribute
        if self.reader.label is not None:
            if format is None:
                shown = f"{width}.{abs(width)}" if width and not self.whole else f"{width or ''}"
                format = f"%{shown}" + ("s" if self.print_as is not None else "v")
            format = heading + self.reader.label + format
            width = 0
        else:
            if not self.own_width:
                width = -len(heading)
            mask.headings.append(heading)
            if self.print_as is None and format is None and not self.reader.texts_alone:
                format = f"%{width}{'' if self.whole else f'.{abs(width)}'}v" if width else "%v"
        column = Column(
            attribute,
            format,
            width,
            left=self.left,
            truncate=self.truncate or not self.whole,
            grows=self.auto or self.grows,
            prefix=self.prefix,
            suffix=self.suffix,
            always=self.always,
            alternative=self.alternative,
            wide_alternative=self.wide,
        )
        if self.print_as is not None:
            self.print_as.apply(column)
        return column
