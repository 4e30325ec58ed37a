"""The options that condor_status and condor_userprio share: which ads, and in which form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from fetchwork.condor.arguments import (
    Given,
    Row,
    Usage,
    leading_number,
    octets,
    sets,
    text_of,
)
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.printing.adforms import AdList, Form
from fetchwork.condor.printing.autoformat import InvalidExpression, add_autoformat, add_format
from fetchwork.condor.printing.columns import PrintMask
from fetchwork.condor.printing.jobtable import JobTable
from fetchwork.condor.printing.printedad import PrintedAd

#: the end of a message about an option
MORE = '\nUse "{command} -help" for details'

_FORMS: dict[str, Form] = {"long": "long", "xml": "xml", "json": "json", "jsonl": "jsonl", "new": "new"}


@dataclass
class Selection:
    """The options that both commands take."""

    form: Form | None = None
    attributes: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    mask: PrintMask = field(default_factory=PrintMask)
    limit: int = -1

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
        rows = self.mask.rows(JobTable.of(ads))
        if self.mask.headings and rows:
            run.write(self.mask.heading_line())
        run.write("".join(self.mask.lines(rows)))


def _long(selection: Selection, given: Given) -> None:
    selection.form = _FORMS.get(given.more or "long", "long")


def _attributes(selection: Selection, given: Given) -> None:
    names = given.value(f"{{command}}: -attributes requires one additional argument{MORE}")
    selection.attributes = [name for name in re.split(r"[,\s]+", names) if name]


def _constraint(selection: Selection, given: Given) -> None:
    constraint = given.value(f"{{command}}: -constraint requires another argument{MORE}")
    selection.constraints.append(f"({constraint})")


def _limit(selection: Selection, given: Given) -> None:
    selection.limit = leading_number(
        given.value(f"{{command}}: -limit requires one additional argument{MORE}")
    )


def _format(selection: Selection, given: Given) -> None:
    printed, attribute = given.words.take(), given.words.take()
    if printed is None or attribute is None:
        raise given.wrong(f"{{command}}: -format requires two other arguments{MORE}")
    add_format(selection.mask, octets(printed), octets(attribute))


def _autoformat(selection: Selection, given: Given) -> None:
    names = given.plain(f"Error: Argument {{word}} requires at least one attribute parameter{MORE}")
    try:
        add_autoformat(selection.mask, given.more or "", [octets(name) for name in names])
    except InvalidExpression as problem:
        raise Usage(f"Error: invalid expression : {text_of(str(problem))}") from None


OPTIONS: tuple[Row[Selection], ...] = (
    ("long:", 1, _long),
    ("xml", 3, sets(form="xml")),
    ("json", 2, sets(form="json")),
    ("attributes", 2, _attributes),
    ("constraint", 3, _constraint),
    ("limit", 3, _limit),
    ("format", 1, _format),
    ("af:", 2, _autoformat),
    ("autoformat:", 5, _autoformat),
)
