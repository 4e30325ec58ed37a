"""condor_userprio: the usage and priority of submitters and accounting groups."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fetchwork.condor import selection, texts
from fetchwork.condor.arguments import (
    Action,
    Given,
    OptionTable,
    Usage,
    ignores,
    ignores_value,
    leading_number,
    octets,
    refuses,
    sets,
)
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.printing import priotable
from fetchwork.condor.printing.adforms import AdList
from fetchwork.condor.printing.printedad import NotAnExpression, PrintedAd, accepting
from fetchwork.condor.selection import Selection
from fetchwork.errors import FetchworkError, one_line

if TYPE_CHECKING:
    from fetchwork.queue.reading.views import Json

_SETS = "'fetchwork prio SUBMITTER' sets a factor or a limit"
#: options of things that do not exist here -> why
REFUSED = {
    **dict.fromkeys(
        ("setbegin", "setlast", "setceiling", "cancelceilinglease", "cancelfactorlease", "cancelfloorlease"),
        _SETS,
    ),
    "getreslist": "'fetchwork slots' shows who has which slot",
}
_CHANGES = dict.fromkeys(
    ("setprio", "setfactor", "setfloor", "setaccum", "resetusage", "resetall", "delete"), _SETS
)
_REFUSAL = "{command}: -{name} is not supported: {why}"
#: by default submitters are shown that were active since
_ACTIVE_S = 86400
_NUMBERED = re.compile(r"(.*\D)(\d+)", re.DOTALL)


@dataclass
class _Asked(Selection):
    names: list[str] = field(default_factory=list)
    columns: set[str] = field(default_factory=set)
    hierarchical: bool | None = None
    group_order: bool = False
    rollup: bool = False
    #: quotas, or a part of them, were asked for by name
    quotas: bool = False
    modular: bool = False
    #: local time from which on a submitter was active; None: a day ago
    active_from: int | None = None
    file: str | None = None

    def table(self) -> priotable.Table:
        since = int(time.time()) - _ACTIVE_S if self.active_from is None else self.active_from
        return priotable.Table(
            columns=frozenset(self.columns),
            hierarchical=self.hierarchical,
            group_order=self.group_order,
            quotas=self.quotas,
            rollup=self.rollup,
            active_from=-1 if self.names else since,
        )


def _shows(columns: Iterable[str], *, quotas: bool = False) -> Action[_Asked]:
    """An action that adds columns."""

    def action(asked: _Asked, given: Given) -> None:
        asked.columns |= set(columns)
        asked.quotas |= quotas

    return action


def _active_from(asked: _Asked, given: Given) -> None:
    words = [given.words.take() for _ in range(3)]
    if None in words:
        raise given.wrong("", help=True)
    month, day, year = (leading_number(word or "") for word in words)
    # as 49 is 2049 and 99 is 1999
    year += 1900 if 50 <= year < 1900 else 2000 if year < 50 else 0
    try:
        asked.active_from = int(time.mktime((year, month, day, 0, 0, 0, 0, 0, -1)))
    except (OverflowError, ValueError):
        raise given.wrong("", help=True) from None


def _file(asked: _Asked, given: Given) -> None:
    asked.file = given.value("", help=True)


_OPTIONS: OptionTable[_Asked] = OptionTable(
    *((name, 1, refuses(_CHANGES, _REFUSAL)) for name in ("setprio", "setfactor", "setfloor")),
    ("setceiling", 1, refuses(REFUSED, _REFUSAL)),
    ("duration", 2, ignores_value()),
    *((f"cancel{name}lease", 3, refuses(REFUSED, _REFUSAL)) for name in ("ceiling", "floor", "factor")),
    ("setbegin", 4, refuses(REFUSED, _REFUSAL)),
    ("setaccum", 4, refuses(_CHANGES, _REFUSAL)),
    ("setlast", 4, refuses(REFUSED, _REFUSAL)),
    ("resetusage", 1, refuses(_CHANGES, _REFUSAL)),
    ("delete", 3, refuses(_CHANGES, _REFUSAL)),
    ("resetall", 6, refuses(_CHANGES, _REFUSAL)),
    # of "-long", as the queue's ads are one each anyway
    ("legacy", 3, ignores),
    ("modular", 3, sets(modular=True)),
    ("help", 3, texts.print_help),
    ("hierarchical", 2, sets(hierarchical=True)),
    ("heir", 1, sets(hierarchical=True)),
    ("flat", 2, sets(hierarchical=False)),
    ("grouprollup", 1, sets(rollup=True)),
    ("grouporder", 6, sets(hierarchical=False, group_order=True)),
    ("quotas", 1, _shows(priotable.QUOTAS, quotas=True)),
    ("surplus", 2, _shows({"surplus"}, quotas=True)),
    ("sortkey", 2, _shows({"sortkey"})),
    ("all", 1, _shows(priotable.ALL)),
    ("most", 2, _shows(priotable.MOST)),
    ("groupid", 6, _shows({"groupid"})),
    ("order", 1, _shows({"order"})),
    ("activefrom", 2, _active_from),
    ("allusers", 4, sets(active_from=-1)),
    ("usage", 2, _shows(priotable.USAGE)),
    ("priority", 4, _shows(priotable.PRIORITIES)),
    ("getreslist", 6, refuses(REFUSED, _REFUSAL)),
    ("inputfile", 2, _file),
    ("pool name", 1, ignores_value()),
    ("collector", 3, ignores),
    ("negotiator", 3, ignores),
    ("debug:", 1, ignores),
    *selection.OPTIONS,
)


def _add_name(asked: _Asked, given: Given) -> None:
    if given.word.startswith("-"):
        raise Usage("", help=True, newline=False)
    asked.names.append(given.word)


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    asked = _OPTIONS.read(_Asked(), run.argv[1:], run.name, _add_name)
    try:
        if asked.file is not None:
            return _show_file(run, asked, asked.file)
        ads = [PrintedAd(ad) for ad in _of_queue(run, asked)]
        _show(run, asked, _selected(asked, ads))
    except NotAnExpression:
        run.complain(f"Error:  could not parse constraint ( {' && '.join(asked.constraints)} )\n")
        return 1
    except FetchworkError as problem:
        run.complain(f"{run.name}: {one_line(str(problem))}\n")
        return 1
    return 0


def _selected(asked: _Asked, ads: Iterable[PrintedAd]) -> list[PrintedAd]:
    return list(filter(accepting(octets(" && ".join(asked.constraints))), ads))


def _show(run: Invocation, asked: _Asked, ads: Sequence[PrintedAd], updated: int | None = None) -> None:
    """Print accounting ads in the form that was asked for."""
    if asked.mask.columns:
        if asked.mask.headings:
            run.write(asked.mask.heading_line())
        for ad in ads:
            # as HTCondor's: a column grows from the first row that needs it
            run.write("".join(asked.mask.lines([asked.mask.row(ad)])))
    elif asked.modular and asked.form == "long":
        run.write("".join("\n" + AdList("long").ad(ad)[:-1] for ad in ads))
    elif asked.prints():
        asked.print(run, ads)
    else:
        if updated is None:
            updated = (ads[0].integer("LastUpdate") if ads else None) or 0
        run.write(priotable.text(asked.table(), ads, updated))


# from the queue


def _of_queue(run: Invocation, asked: _Asked) -> list[Json]:
    """The ads of groups, and behind them those of submitters."""
    ads: list[Json] = list(run.session.items("view", name="accounting"))
    if asked.rollup:
        for group in ads:
            if group["IsAccountingGroup"]:
                _roll_up(group, [ad for ad in ads if not ad["IsAccountingGroup"]])
    if asked.names:
        # submitters of a queue have no domain
        wanted = {name.partition("@")[0] for name in asked.names}
        ads = [ad for ad in ads if ad["Name"] in wanted]
    return ads


def _roll_up(group: Json, users: Iterable[Json]) -> None:
    """Give a group the usage of all submitters in it and below it."""
    name = group["Name"].lower()
    within = [
        user
        for user in users
        if name == priotable.NONE or f"{user['AccountingGroup']}.".lower().startswith(f"{name}.")
    ]
    for attribute in ("ResourcesUsed", "WeightedResourcesUsed", "WeightedAccumulatedUsage"):
        group[attribute] = sum(user[attribute] for user in within)
    group["LastUsageTime"] = max((user["LastUsageTime"] for user in within), default=0)
    group["Priority"] = 0.0


# from a file


def _show_file(run: Invocation, asked: _Asked, file: str) -> int:
    """Show the ad of a negotiator that is in a file, whose attributes end in the numbers of ads."""
    from fetchwork.condor.printing import adfiles

    try:
        data = run.path(file).read_bytes()
    except OSError:
        run.complain(f"Can't open file of userprio ads: {file}\n")
        return 1
    whole = next(iter(adfiles.read(data.decode("utf-8", "replace"), "long")), PrintedAd({}))
    if asked.form == "long" and not asked.modular and not asked.mask.columns:
        run.write(AdList("long").ad(whole)[:-1])
        return 0
    ads = list(parts(whole))
    if asked.prints():
        _show(run, asked, _selected(asked, ads))
    else:
        _show(run, asked, ads, whole.integer("LastUpdate") or 0)
    return 0


def parts(whole: PrintedAd) -> Iterator[PrintedAd]:
    """The ads whose attributes an ad has with their numbers."""
    parts: dict[int, Json] = {}
    for name, item in whole.json.items():
        if match := _NUMBERED.fullmatch(name):
            parts.setdefault(int(match[2]), {})[match[1]] = item
    for number, part in sorted(parts.items()):
        yield PrintedAd(part | {"SubmittorId": number})
