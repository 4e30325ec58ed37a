"""The options that condor_status and condor_userprio share: which ads, and in which form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from fetchwork.condor.adforms import AdList, Form
from fetchwork.condor.arguments import (
    Usage,
    Words,
    is_colon_option,
    is_option,
    leading_number,
    octets,
    text_of,
)
from fetchwork.condor.autoformat import InvalidExpression, add_autoformat, add_format
from fetchwork.condor.columns import PrintMask
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.printedad import PrintedAd

_FORMS: dict[str, Form] = {"long": "long", "xml": "xml", "json": "json", "jsonl": "jsonl", "new": "new"}


@dataclass
class Selection:
    """What the words say that both commands take."""

    #: the command's name
    command: str
    form: Form | None = None
    attributes: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    mask: PrintMask = field(default_factory=PrintMask)
    limit: int = -1

    def take(self, word: str, words: Words) -> bool:
        """Take an option, with those of the words behind it that are its own; False: it is none of these."""
        if (long := is_colon_option(word, "long", 1))[0]:
            self.form = _FORMS.get(long[1] or "long", "long")
        elif is_option(word, "xml", 3):
            self.form = "xml"
        elif is_option(word, "json", 2):
            self.form = "json"
        elif is_option(word, "attributes", 2):
            names = words.take()
            if names is None:
                raise Usage(f"{self.command}: -attributes requires one additional argument{self.help}")
            self.attributes = [name for name in re.split(r"[,\s]+", names) if name]
        elif is_option(word, "constraint", 3):
            constraint = words.take()
            if constraint is None:
                raise Usage(f"{self.command}: -constraint requires another argument{self.help}")
            self.constraints.append(f"({constraint})")
        elif is_option(word, "limit", 3):
            most = words.take()
            if most is None:
                raise Usage(f"{self.command}: -limit requires one additional argument{self.help}")
            self.limit = leading_number(most)
        elif is_option(word, "format", 1):
            printed, attribute = words.take(), words.take()
            if printed is None or attribute is None:
                raise Usage(f"{self.command}: -format requires two other arguments{self.help}")
            add_format(self.mask, octets(printed), octets(attribute))
        elif (letters := _letters(word)) is not None:
            taken = [octets(attribute) for attribute in words.take_plain()]
            if not taken:
                raise Usage(f"Error: Argument {word} requires at least one attribute parameter{self.help}")
            try:
                add_autoformat(self.mask, letters, taken)
            except InvalidExpression as problem:
                raise Usage(f"Error: invalid expression : {text_of(str(problem))}") from None
        else:
            return False
        return True

    @property
    def help(self) -> str:
        """What ends a message about an option."""
        return f'\nUse "{self.command} -help" for details'

    def prints(self) -> bool:
        """Is the form another than the command's own table?"""
        return self.form is not None or bool(self.mask.columns)

    def print(self, run: Invocation, ads: Iterable[PrintedAd]) -> None:
        """Print the ads in the form that was asked for."""
        if self.form is not None:
            made = AdList(self.form)
            # condor_status has an empty line behind each
            after = "\n" if self.form == "xml" else ""
            for ad in ads:
                run.write(made.ad(ad, self.attributes or None) + after)
            run.write(made.footer())
            return
        rows = [self.mask.row(ad) for ad in ads]
        if self.mask.headings and rows:
            run.write(self.mask.heading_line())
        for row in rows:
            run.write(self.mask.line(row))


def _letters(word: str) -> str | None:
    for name, least in (("af", 2), ("autoformat", 5)):
        matches, more = is_colon_option(word, name, least)
        if matches:
            return more or ""
    return None
