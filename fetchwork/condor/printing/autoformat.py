"""``-af[:letters] ATTR ...`` and ``-format FORMAT ATTR``: the columns that a command line asks for."""

from __future__ import annotations

from collections.abc import Sequence

from fetchwork.condor.printing.columns import Column, PrintMask, is_expression
from fetchwork.condor.printing.renderers import render_job_id

#: the letters that choose how a value is printed: the first one given counts
_FORMATS = (("ro", "%r"), ("V", "%V"), ("Y", "%Y"), ("T", "%T"))


class InvalidExpression(ValueError):
    """A word of ``-af`` is neither an attribute nor an expression."""


def add_autoformat(mask: PrintMask, letters: str, words: Sequence[str]) -> None:
    """Add the columns of ``-af:letters words``; raises InvalidExpression."""
    row_prefix, prefix, suffix = "", " ", ""
    for letter in letters:
        if letter == "g":
            prefix, row_prefix = "", "\n"
        elif letter == "t":
            prefix = "\t"
        elif letter in ",n":
            suffix = "," if letter == "," else "\n"
    mask.separate(row_prefix, prefix, suffix, "\n")
    labels = "l" in letters
    headings = "h" in letters or bool(mask.headings)
    if "j" in letters:
        if headings:
            mask.headings.append(" ID")
        mask.columns.append(
            Column(
                "ClusterId",
                "ID = %v" if labels else "%v",
                left=True,
                truncate=False,
                grows=headings,
                renderer=render_job_id,
                renders=str,
            )
        )
    format = next((format for chars, format in _FORMATS if any(char in letters for char in chars)), "%v")
    for word in words:
        if not is_expression(word):
            raise InvalidExpression(word)
        if headings:
            # with headings of other columns' making, a long expression is not its own heading
            heading = "(expr)" if "h" not in letters and len(word) > 16 and not word.isidentifier() else word
            mask.headings.append(heading)
            mask.columns.append(Column(word, format, -len(heading), truncate=False, grows=True))
        elif labels:
            mask.columns.append(Column(word, f"{word} = {format}"))
        else:
            mask.columns.append(Column(word, format, truncate=False))


def append_autoformat(mask: PrintMask, letters: str, words: Sequence[str]) -> None:
    """Add the columns of ``-aaf:letters words`` behind those of a table; raises InvalidExpression."""
    # a print format may have no columns
    last = mask.columns[-1] if mask.columns else None
    if last is not None and not last.width and not last.grows:
        last.width, last.left, last.grows, last.truncate = 3, True, True, False
    separators = (mask.row_prefix, mask.column_prefix, mask.column_suffix, mask.row_suffix)
    add_autoformat(mask, letters + "h", words)
    mask.separate(*separators)


def add_format(mask: PrintMask, format: str, attribute: str) -> bool:
    """Add the column of ``-format``; False where the attribute is not an expression."""
    mask.columns.append(Column(attribute, format, truncate=False))
    return is_expression(attribute)
