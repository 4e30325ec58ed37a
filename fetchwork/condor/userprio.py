"""condor_userprio: each submitter's usage and priority."""

from __future__ import annotations

from dataclasses import dataclass, field

from fetchwork.condor import selection, texts
from fetchwork.condor.arguments import (
    Given,
    OptionTable,
    Usage,
    ignores,
    ignores_value,
    octets,
    refuses,
)
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.printing.printedad import PrintedAd
from fetchwork.condor.selection import Selection
from fetchwork.errors import FetchworkError, one_line

_NO_CHANGES = ("setprio", "setfactor", "setfloor", "setceil", "resetusage", "resetall", "delete", "setaccum")
#: options of things that do not exist here -> why
REFUSED = {
    **dict.fromkeys(
        ("setbegin", "setlast", "setceiling", "cancelceilinglease", "cancelfactorlease", "cancelfloorlease"),
        "'fetchwork prio SUBMITTER' sets a factor or a limit",
    ),
    **dict.fromkeys(
        ("flat", "hierarchical", "grouprollup", "groupid", "surplus"),
        "'fetchwork group list' shows the groups with their quotas and use",
    ),
    **dict.fromkeys(("negotiator", "collector", "inputfile", "legacy", "modular"), "there is no negotiator"),
    "activefrom": "'fetchwork submitters --json' has who used how much",
    "getreslist": "'fetchwork slots' shows who has which slot",
}
_CHANGES = dict.fromkeys(_NO_CHANGES, "'fetchwork prio SUBMITTER' sets a factor or a limit")
_REFUSAL = "{command}: -{name} is not supported: {why}"


@dataclass
class _Asked(Selection):
    names: list[str] = field(default_factory=list)


_OPTIONS: OptionTable[_Asked] = OptionTable(
    *((name, 4, refuses(_CHANGES, _REFUSAL)) for name in _CHANGES),
    ("help", 1, texts.print_help),
    *selection.OPTIONS,
    ("name pool", 1, ignores_value()),
    ("allusers usage quotas grouporder most debug", 1, ignores),
    # they choose and sort columns of HTCondor's table
    ("sortkey order duration", 4, ignores_value()),
    ("priority", 4, ignores),
    *((name, 4, refuses(REFUSED, _REFUSAL)) for name in REFUSED),
)


def _add_name(asked: _Asked, given: Given) -> None:
    if given.word.startswith("-"):
        raise Usage("", help=True, newline=False)
    asked.names.append(given.word)


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    asked = _OPTIONS.read(_Asked(), run.argv[1:], run.name, _add_name)
    try:
        _show(run, asked)
    except FetchworkError as problem:
        run.complain(f"{run.name}: {one_line(str(problem))}\n")
        return 1
    return 0


def _show(run: Invocation, asked: _Asked) -> None:
    found = list(
        run.session.items("view", name="submitters", constraint=" && ".join(asked.constraints) or "true")
    )
    if asked.names:
        wanted = {name.partition("@")[0] for name in asked.names}
        found = [ad for ad in found if ad["Name"] in wanted]
    if asked.prints():
        asked.print(run, [PrintedAd(ad) for ad in found])
        return
    width = max([29, *(len(octets(ad["Name"])) for ad in found)])
    rule = f"{'-' * width} ------------ --------- ------ ------------\n"
    run.write(f"{'':{width}} {'Effective':>11}  {'Priority':>8}  Wghted Total Usage \n")
    run.write(f"{'User Name'.ljust(width)} {'Priority':>11}  {'Factor':>7}   In Use (wghted-hrs)\n" + rule)
    used = running = 0.0
    for ad in found:
        hours = float(ad.get("AccumulatedUsage") or 0) / 3600
        jobs = int(ad.get("RunningJobs") or 0)
        used, running = used + hours, running + jobs
        run.write(
            f"{octets(ad['Name']).ljust(width)} {float(ad.get('Priority') or 0):>12.2f}"
            f" {float(ad.get('PriorityFactor') or 0):>9.2f} {jobs:>6} {hours:>12.2f}\n"
        )
    run.write(rule)
    run.write(
        f"{f'Number of users: {len(found)}'.ljust(width)} {'':>12} {'':>9} {int(running):>6} {used:>12.2f}\n"
    )
