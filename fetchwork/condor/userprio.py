"""condor_userprio: who uses how much, and who is served next."""

from __future__ import annotations

from fetchwork.condor import texts
from fetchwork.condor.arguments import Usage, Words, is_option, octets
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.printedad import PrintedAd
from fetchwork.condor.selection import Selection
from fetchwork.errors import FetchworkError, one_line

_CHANGES = ("setprio", "setfactor", "setfloor", "setceil", "resetusage", "resetall", "delete", "setaccum")


#: what there is nothing of here -> why
REFUSED = {
    **dict.fromkeys(
        ("setbegin", "setlast", "setceiling", "cancelceilinglease", "cancelfactorlease", "cancelfloorlease"),
        "'fetchwork prio SUBMITTER' sets a factor or a limit",
    ),
    **dict.fromkeys(
        ("flat", "hierarchical", "grouprollup", "groupid", "surplus"), "there is no hierarchy of groups"
    ),
    **dict.fromkeys(("negotiator", "collector", "inputfile", "legacy", "modular"), "there is no negotiator"),
    "activefrom": "'fetchwork submitters --json' has who used how much",
    "getreslist": "'fetchwork slots' shows who has which slot",
}
#: options with a value that choose and sort columns of HTCondor's table
_COLUMNS = ("sortkey", "order", "duration")


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    words = Words(run.argv[1:])
    selection = Selection(run.name)
    names: list[str] = []
    try:
        for word in words:
            change = next((name for name in _CHANGES if is_option(word, name, 4)), None)
            if change is not None:
                raise Usage(
                    f"{run.name}: -{change} is not supported:"
                    " 'fetchwork prio SUBMITTER' sets a factor or a limit"
                )
            if is_option(word, "help", 1):
                run.say(texts.help_of(run.name))
                return 0
            if selection.take(word, words):
                continue
            if is_option(word, "name", 1) or is_option(word, "pool", 1):
                words.take()
            elif any(
                is_option(word, name, 1)
                for name in ("allusers", "usage", "quotas", "grouporder", "most", "debug")
            ):
                continue
            elif any(is_option(word, name, 4) for name in _COLUMNS):
                words.take()
            elif is_option(word, "priority", 4):
                continue
            elif (refused := next((name for name in REFUSED if is_option(word, name, 4)), None)) is not None:
                raise Usage(f"{run.name}: -{refused} is not supported: {REFUSED[refused]}")
            elif word.startswith("-"):
                raise Usage("", help=True, newline=False)
            else:
                names.append(word)
    except Usage as problem:
        run.complain(problem.text + (texts.help_of(run.name) if problem.help else ""))
        return 1
    try:
        _show(run, selection, names)
    except FetchworkError as problem:
        run.complain(f"{run.name}: {one_line(str(problem))}\n")
        return 1
    return 0


def _show(run: Invocation, selection: Selection, names: list[str]) -> None:
    found = list(
        run.session.items("view", name="submitters", constraint=" && ".join(selection.constraints) or "true")
    )
    if names:
        wanted = {name.partition("@")[0] for name in names}
        found = [ad for ad in found if ad["Name"] in wanted]
    if selection.prints():
        selection.print(run, [PrintedAd(ad) for ad in found])
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
