"""The columns of a table: how HTCondor's tools turn an ad into a row and a row into a line.

A row is made first and printed later (``PrintMask.rows``, ``PrintMask.lines``), because the width of some
columns is that of their widest value.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from fetchwork.condor.printing.jobtable import JobTable, cells_of
from fetchwork.condor.printing.printedad import (
    _ATTRIBUTE,
    MISSING,
    UNDEFINED,
    NotAnExpression,
    PrintedAd,
    PrintedValue,
    Unparsed,
    choices,
    expression,
    is_plain,
    truncated,
    unparse_value,
)
from fetchwork.condor.printing.printf import (
    Conversion,
    Letter,
    collapse_escapes,
    conversion,
    format_date,
    format_integer,
    format_real,
    format_string,
    format_time,
)


class NotShown(Exception):
    """A renderer has nothing to show; the column's alternative is printed."""


#: makes what a column shows of the value of its attribute and the ad
Renderer: TypeAlias = "Callable[[PrintedValue, PrintedAd], PrintedValue]"
#: makes the text of a value
Formatter: TypeAlias = "Callable[[PrintedValue], str]"

#: the signs that may stand for a missing value
ALTERNATIVES = " ?*.-_#0"


@dataclass
class Column:
    """One column. Its width may grow with what is printed; 0 is as wide as the value."""

    attribute: str
    format: str | None = None
    width: int = 0
    left: bool = False
    truncate: bool = True
    grows: bool = False
    prefix: bool = True
    suffix: bool = True
    hidden: bool = False
    #: called for a missing value too
    always: bool = False
    alternative: str = " "
    wide_alternative: bool = False
    renderer: Renderer | None = None
    #: of a renderer that takes and gives only text, numbers: another value becomes '' or 0
    renders: type | None = None
    formatter: Formatter | None = None
    #: the attributes that the renderer reads
    reads: tuple[str, ...] = ()
    conversion: Conversion | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.width < 0:
            self.width, self.left = -self.width, True
        if self.format is not None:
            self.format = collapse_escapes(self.format)
            self.conversion = conversion(self.format)
            if not self.width and self.conversion is not None:
                self.width = self.conversion.width
                self.left = self.left or self.conversion.left

    @property
    def letter(self) -> Letter:
        """Return the type of value that is fetched."""
        if self.formatter is not None or self.renderer is not None or self.conversion is None:
            return Letter.VALUE
        return self.conversion.letter


@dataclass(slots=True)
class Cell:
    """A value of a row; not ``valid``: the column's alternative is shown."""

    value: PrintedValue
    valid: bool
    #: as it stands in a line, where its column has this width
    text: str = ""
    text_width: int = -1


Row: TypeAlias = "list[Cell]"


class PrintMask:
    """A table: its columns, their headings, and the separators."""

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self.headings: list[str] = []
        self.row_prefix = ""
        self.column_prefix = ""
        self.column_suffix = ""
        self.row_suffix = ""
        #: characters of a line; 0: as many as there are
        self.overall_width = 0

    def separate(self, row_prefix: str, column_prefix: str, column_suffix: str, row_suffix: str) -> None:
        """Set what stands around rows and columns."""
        self.row_prefix, self.column_prefix = row_prefix, column_prefix
        self.column_suffix, self.row_suffix = column_suffix, row_suffix

    def heading_line(self) -> str:
        """The line of headings."""
        line = self.row_prefix
        last = len(self.columns) - 1
        for number, (column, heading) in enumerate(zip(self.columns, self.headings, strict=False)):
            if column.hidden:
                continue
            if number and column.prefix:
                line += self.column_prefix
            line += heading.ljust(column.width)
            if number < last and column.suffix:
                line += self.column_suffix
        if self.overall_width:
            line = line[: self.overall_width]
        return line + self.row_suffix

    def row(self, ad: PrintedAd) -> Row:
        """Return the cells of an ad that is printed before the next one is known; columns may be widened."""
        return [self._cell(column, ad) for column in self.columns]

    def rows(self, table: JobTable) -> list[Row]:
        """Return the cells of each job of a table; columns that grow are widened."""
        if not self.columns:
            return [[] for _ in range(table.jobs)]
        return list(map(list, zip(*(self._cells_of(column, table) for column in self.columns), strict=True)))

    def _cells_of(self, column: Column, table: JobTable) -> Sequence[Cell]:
        values = table.column(column.attribute)
        types = {*map(type, values)}
        as_it_is = {int: (Letter.INTEGER, Letter.VALUE), str: (Letter.STRING, Letter.VALUE)}
        plain = column.conversion is not None and column.renderer is None and column.formatter is None
        if plain and len(types) == 1 and column.letter in as_it_is.get(types.pop(), ()):
            cells = {value: Cell(value, True) for value in values}
            if all(type(value) is int or is_plain(str(value)) for value in cells):
                if column.grows:
                    column.width = max(column.width, *(_width(column, value) for value in cells))
                return list(map(cells.__getitem__, values))
        return cells_of(table, functools.partial(self._cell, column))

    def _cell(self, column: Column, ad: PrintedAd) -> Cell:
        plain = column.formatter is None and column.renderer is None
        if plain and column.format is not None and column.conversion is None:
            # a format that takes no value
            if column.grows:
                column.width = max(column.width, len(column.format))
            return Cell(column.format, True)
        cell = self._value(column, ad) if plain else self._rendered(column, ad)
        if cell.valid and column.grows:
            column.width = max(column.width, _width(column, cell.value))
        return cell

    @staticmethod
    def _value(column: Column, ad: PrintedAd) -> Cell:
        letter = column.letter
        item = ad.item(column.attribute)
        if letter is Letter.INTEGER and type(item) is int:
            return Cell(item, True)
        known = item is not MISSING
        if letter is Letter.STRING and known:
            value = ad.value(item)
            if type(value) is str:
                return Cell(value, True)
            letter = Letter.RAW
        if letter is Letter.RAW:
            if known:
                return Cell(ad.unparsed(column.attribute), True)
            if _ATTRIBUTE.match(column.attribute):
                return Cell("undefined", True)
            try:
                return Cell(unparse_expression(column.attribute), True)
            except NotAnExpression:
                return Cell("", False)
        try:
            value = ad.evaluate(column.attribute)
        except NotAnExpression:
            return Cell(UNDEFINED, False)
        return _of_letter(letter, value)

    @staticmethod
    def _rendered(column: Column, ad: PrintedAd) -> Cell:
        try:
            value = ad.evaluate(column.attribute)
            valid = True
        except NotAnExpression:
            value, valid = UNDEFINED, False
        if column.renderer is None:
            # a formatter has the type of its argument
            if column.renders is not None and valid:
                number = _number(value)
                if column.renders is str:
                    return Cell(value, type(value) is str)
                if number is None:
                    return Cell(0, False)
                return Cell(number if column.renders is float else _integer(number), True)
            return Cell(value, valid)
        try:
            return Cell(column.renderer(_coerced(column, value), ad), True)
        except NotShown:
            return Cell(UNDEFINED, False)

    def lines(self, rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
        """Rows as lines."""
        parts: list[Iterable[str]] = [itertools.repeat(self.row_prefix)]
        last = len(self.columns) - 1
        for number, (column, cells) in enumerate(zip(self.columns, zip(*rows, strict=True), strict=False)):
            if column.hidden:
                continue
            if number and column.prefix and self.column_prefix:
                parts.append(itertools.repeat(self.column_prefix))
            texts = []
            for cell in cells:
                if cell.text_width != column.width:
                    _write(column, cell)
                texts.append(cell.text)
            parts.append(texts)
            if number < last and column.suffix and self.column_suffix:
                parts.append(itertools.repeat(self.column_suffix))
        # as many as there are rows: the other parts have no end
        parts.append([self.row_suffix] * len(rows) if not self.overall_width else [""] * len(rows))
        lines = map("".join, zip(*parts, strict=False))
        if not self.overall_width:
            return lines
        return (line[: self.overall_width] + self.row_suffix for line in lines)


def _write(column: Column, cell: Cell) -> None:
    """Note how a cell stands in a line; a column that grows is as wide as its widest cell."""
    text = _text(column, cell)
    if column.grows:
        column.width = max(column.width, len(text))
    width = column.width
    if width and len(text) >= width:
        text = text[:width] if column.truncate else text
    elif width:
        text = text.ljust(width) if column.left else text.rjust(width)
    cell.text, cell.text_width = text, width


def unparse_expression(text: str) -> str:
    """An expression of a command line as HTCondor prints it, in octets."""
    from fetchwork.condor.arguments import octets
    from fetchwork.condor.printing.printedad import _unparse_tree

    return octets(_unparse_tree(expression(text)))


def _number(value: PrintedValue) -> int | float | None:
    """The value as a number; a truth is 0 or 1."""
    if type(value) is int:
        return value
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float) else None


def _integer(number: float) -> int:
    return truncated(number) if isinstance(number, float) else number


def _of_letter(letter: Letter, value: PrintedValue) -> Cell:
    """A value as a conversion takes it."""
    number = _number(value)
    if letter in (Letter.INTEGER, Letter.CHARACTER, Letter.TIME, Letter.DATE):
        return Cell(_integer(number), True) if number is not None else Cell(0, False)
    if letter is Letter.REAL:
        return Cell(float(number), True) if number is not None else Cell(0.0, False)
    if letter is Letter.STRING:
        return Cell(value, type(value) is str)
    return Cell(value, True)


def _coerced(column: Column, value: PrintedValue) -> PrintedValue:
    """Return the value that a renderer of this type is given."""
    if column.renders is str:
        return value if type(value) is str else ""
    if column.renders is None:
        return value
    number = _number(value)
    if number is None:
        return column.renders(0)
    return float(number) if column.renders is float else _integer(number)


def _formatted_number(format: Conversion, value: float, column: Column) -> str:
    letter = format.letter
    if letter is Letter.REAL:
        text = format_real(format, float(value))
    elif letter is Letter.TIME:
        text = format_time(_integer(value))
    elif letter is Letter.DATE:
        text = format_date(_integer(value))
    else:
        text = format_integer(format, _integer(value))
    return text if len(text) >= column.width else text.rjust(column.width)


def _width(column: Column, value: PrintedValue) -> int:
    """The characters that a value takes, for a column that grows."""
    if type(value) is str:
        return len(value)
    format = column.conversion
    number = _number(value)
    if number is None or isinstance(value, bool) or format is None:
        return column.width
    if format.letter in (Letter.VALUE, Letter.STRING, Letter.RAW):
        # HTCondor measures a real in another form than it prints it
        measured = isinstance(value, float) and value and math.isfinite(value)
        return len(f"{value:.15E}") if measured else len(unparse_value(value))
    if format.letter is Letter.CHARACTER:
        return column.width
    return len(_formatted_number(format, number, column))


def _text(column: Column, cell: Cell) -> str:
    value, format = cell.value, column.conversion
    if column.formatter is not None and (cell.valid or column.always):
        return column.formatter(value)
    if not cell.valid:
        return _alternative(column)
    if column.format in (None, "", "%s"):
        return value if type(value) is str else ""
    if format is None:
        return column.format or ""
    letter = format.letter
    if letter is Letter.STRING:
        return format_string(format, value if type(value) is str else "")
    if letter in (Letter.RAW, Letter.VALUE):
        text = value if type(value) is str and format.char != "V" else unparse_value(value)
        return format_string(format, str(text))
    number = _number(value)
    return _formatted_number(format, number if number is not None else 0, column)


def _alternative(column: Column) -> str:
    char = column.alternative
    if not column.wide_alternative:
        return "" if char == " " else char
    width = column.width
    if not width:
        return ""
    if width < 3:
        return char
    return f"[{char * (width - 2)}]" if char == "?" else char * width


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?!\s*\(|[A-Za-z0-9_])")


def names_in(text: str) -> set[str]:
    """The names that an expression can refer to; words of texts are among them."""
    return set(_NAME.findall(text))


def names_read(columns: Iterable[Column]) -> set[str]:
    """The names of the attributes that columns show."""
    return {name for column in columns for name in (*names_in(column.attribute), *column.reads)}


def is_expression(text: str) -> bool:
    """Whether the text is an attribute's name or a ClassAd expression."""
    if _ATTRIBUTE.match(text) or choices(text):
        return True
    try:
        expression(text)
    except NotAnExpression:
        return False
    return True


__all__ = [
    "ALTERNATIVES",
    "Cell",
    "Column",
    "NotShown",
    "PrintMask",
    "Renderer",
    "Row",
    "Unparsed",
    "is_expression",
]
