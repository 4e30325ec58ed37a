"""The options that condor_status and condor_userprio share: which ads, and in which form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from fetchwork.condor.adforms import AdList, Form
from fetchwork.condor.arguments import Usage, is_colon_option, is_option, leading_number
from fetchwork.condor.autoformat import InvalidExpression, add_autoformat, add_format
from fetchwork.condor.columns import PrintMask
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.octets import octets, text_of
from fetchwork.condor.printedad import PrintedAd


@dataclass
class Selection:
    """What the words say that both commands take."""

    form: Form | None = None
    attributes: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    mask: PrintMask = field(default_factory=PrintMask)
    limit: int = -1

    def take(self, words: list[str], number: int) -> int | None:
        """Take the option at a position; returns that of its last word, None where it is none of these."""
        word = words[number]
        following = words[number + 1] if number + 1 < len(words) else None
        if is_colon_option(word, "long", 1)[0]:
            self.form = "long"
        elif is_option(word, "xml", 3):
            self.form = "xml"
        elif is_option(word, "json", 2):
            self.form = "json"
        elif is_option(word, "attributes", 2):
            if following is None:
                raise Usage("Error: -attributes requires a list of attributes to show")
            self.attributes = [name for name in re.split(r"[,\s]+", following) if name]
            number += 1
        elif is_option(word, "constraint", 3):
            if following is None:
                raise Usage("Error: -constraint requires another parameter")
            self.constraints.append(f"({following})")
            number += 1
        elif is_option(word, "limit", 3):
            if following is None:
                raise Usage("Error: -limit requires an integer argument")
            self.limit = leading_number(following)
            number += 1
        elif is_option(word, "format", 1):
            if number + 2 >= len(words):
                raise Usage("Error: -format requires two other parameters")
            add_format(self.mask, octets(words[number + 1]), octets(words[number + 2]))
            number += 2
        elif (letters := _letters(word)) is not None:
            if following is None or following.startswith("-"):
                raise Usage(f"Error: {word} requires at least one attribute parameter")
            taken = []
            while number + 1 < len(words) and not words[number + 1].startswith("-"):
                number += 1
                taken.append(octets(words[number]))
            try:
                add_autoformat(self.mask, letters, taken)
            except InvalidExpression as problem:
                raise Usage(f"Error: invalid expression : {text_of(str(problem))}") from None
        else:
            return None
        return number

    def prints(self) -> bool:
        """Is the form another than the command's own table?"""
        return self.form is not None or bool(self.mask.columns)

    def print(self, run: Invocation, ads: Iterable[PrintedAd]) -> None:
        """Print the ads in the form that was asked for."""
        if self.form is not None:
            made = AdList(self.form)
            for ad in ads:
                run.write(made.ad(ad, self.attributes or None))
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
