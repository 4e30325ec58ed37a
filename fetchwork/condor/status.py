"""condor_status: the slots that fetch work, as their agents last reported them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from fetchwork.condor import texts
from fetchwork.condor.arguments import Usage, Words, is_colon_option, is_option
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.octets import octets
from fetchwork.condor.printedad import PrintedAd
from fetchwork.condor.printf import format_time
from fetchwork.condor.selection import Selection
from fetchwork.errors import ClassAdError, FetchworkError, one_line

_STATES = ("Owner", "Claimed", "Unclaimed", "Matched", "Preempting", "Drained", "Backfill")
_HEADINGS = ("Total", "Owner", "Claimed", "Unclaimed", "Matched", "Preempting", "Drain", "Backfill", "BkIdle")
_WIDTHS = (5, 5, 7, 9, 7, 10, 6, 8, 6)

#: which of HTCondor's daemons there are
_CONDITIONS = {
    "available": 'State == "Unclaimed"',
    "claimed": 'State == "Claimed"',
    "run": 'State == "Claimed"',
    "cod": "false",
}


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    words = Words(run.argv[1:])
    selection = Selection()
    names: list[str] = []
    totals = wants_totals = False
    wants_totals = True
    which = "slots"
    try:
        for word in words:
            if selection.take(word, words):
                continue
            if texts.tell(run, word):
                return 0
            if is_option(word, "totals", 1):
                totals = True
            elif is_option(word, "nototal", 3):
                wants_totals = False
            elif is_option(word, "pool", 1) or is_option(word, "name", 1) or is_option(word, "sort", 2):
                words.take()
            elif is_option(word, "schedd", 2):
                which = "schedd"
            elif is_option(word, "submitters", 3):
                which = "submitters"
            elif condition := next((c for c, _ in _CONDITIONS.items() if is_option(word, c, 2)), None):
                selection.constraints.append(f"({_CONDITIONS[condition]})")
            elif any(
                is_colon_option(word, name, 2)[0]
                for name in (
                    "compact",
                    "state",
                    "server",
                    "startd",
                    "slot",
                    "wide",
                    "natural",
                    "debug",
                    "expert",
                )
            ):
                continue
            elif word.startswith("-"):
                raise Usage(f"Error:  unknown option {word}", help=True)
            else:
                names.append(word)
    except Usage as problem:
        run.complain(problem.text + (texts.help_of(run.name) if problem.help else ""))
        return 1
    try:
        if which != "slots":
            return _of_queue(run, selection, which)
        return _slots(run, selection, names, only_totals=totals, totals=wants_totals)
    except ClassAdError:
        run.complain("Error:  bad constraint: " + " && ".join(selection.constraints) + "\n")
        return 1
    except FetchworkError as problem:
        run.complain(f"Error: {one_line(str(problem))}\n")
        return 1


def _slots(
    run: Invocation, selection: Selection, names: Sequence[str], *, only_totals: bool, totals: bool
) -> int:
    conditions = list(selection.constraints)
    if names:
        parts = []
        for name in names:
            quoted = name.replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'Name == "{quoted}" || Machine == "{quoted}"')
        conditions.append(f"({' || '.join(parts)})")
    constraint = " && ".join(conditions) or "true"
    slots = run.session.items("view", name="slots", constraint=constraint, limit=selection.limit)
    found = [PrintedAd(ad) for ad in slots]
    if selection.prints():
        selection.print(run, found)
        return 0
    if not found:
        return 0
    if not only_totals:
        _print_table(run, found)
    if totals:
        _print_totals(run, found)
    return 0


def _print_table(run: Invocation, slots: Sequence[PrintedAd]) -> None:
    names = [slot.string("Name") or "" for slot in slots]
    width = max(18, *(len(name) for name in names))
    header = f"{'Name'.ljust(width)} {'OpSys':<10} {'Arch':<6} {'State':<9} {'Activity':<8}"
    run.write(f"{header} LoadAv Mem     ActvtyTime\n\n")
    now = time.time()
    for name, slot in zip(names, slots, strict=True):
        since = slot.integer("EnteredCurrentActivity")
        load = slot.real("LoadAvg")
        row = (
            f"{name.ljust(width)} {slot.string('OpSys') or '':<10} {slot.string('Arch') or '':<6}"
            f" {slot.string('State') or '':<9} {slot.string('Activity') or '':<8}"
        )
        shown = "  [???]" if load is None else f"{load:6.3f}"
        used = "" if since is None else format_time(max(0, int(now) - since))
        run.write(f"{row} {shown} {slot.integer('Memory') or 0:>6} {used:>11}".rstrip() + "\n")
    run.write("\n")


def _print_totals(run: Invocation, slots: Sequence[PrintedAd]) -> None:
    by_platform: dict[str, Counter[str]] = {}
    for slot in slots:
        platform = f"{slot.string('Arch') or '?'}/{slot.string('OpSys') or '?'}"
        by_platform.setdefault(platform, Counter())[slot.string("State") or "Owner"] += 1
    titles = " ".join(title.rjust(width) for title, width in zip(_HEADINGS, _WIDTHS, strict=True))
    run.write(f"{'':>14} {titles}\n\n")
    whole: Counter[str] = Counter()
    for platform in sorted(by_platform):
        whole += by_platform[platform]
        run.write(_totals_line(platform, by_platform[platform]))
    run.write("\n" + _totals_line("Total", whole))


def _totals_line(title: str, counts: Counter[str]) -> str:
    numbers = [sum(counts.values()), *(counts[state] for state in _STATES), 0]
    shown = " ".join(str(number).rjust(width) for number, width in zip(numbers, _WIDTHS, strict=True))
    return f"{octets(title):>14} {shown}\n"


def _of_queue(run: Invocation, selection: Selection, which: str) -> int:
    """The queue as a schedd, or its submitters."""
    from fetchwork.condor.qsource import host_name

    name = host_name()
    rows = run.session.perform("totals", by="owner")
    if which == "schedd":
        held, idle, running = (sum(int(row[key]) for row in rows) for key in ("held", "idle", "running"))
        found = [{"MyType": "Scheduler", "Name": name, "Machine": name, "TotalRunningJobs": running}]
        found[0] |= {"TotalIdleJobs": idle, "TotalHeldJobs": held, "TotalJobAds": idle + running + held}
        counts = ("TotalRunningJobs", "TotalIdleJobs", "TotalHeldJobs")
    else:
        found = [
            {
                "MyType": "Submitter",
                "Name": row["owner"],
                "Machine": name,
                "ScheddName": name,
                "RunningJobs": int(row["running"]),
                "IdleJobs": int(row["idle"]),
                "HeldJobs": int(row["held"]),
            }
            for row in rows
        ]
        counts = ("RunningJobs", "IdleJobs", "HeldJobs")
    ads = [PrintedAd(ad) for ad in found]
    if selection.prints():
        selection.print(run, ads)
        return 0
    width = max([4, *(len(str(ad["Name"])) for ad in found)])
    machine = max(7, len(name))
    run.write(f"{'Name'.ljust(width)} {'Machine'.ljust(machine)} RunningJobs   IdleJobs   HeldJobs\n\n")
    for ad in found:
        numbers = " ".join(f"{ad[key]:>{size}}" for key, size in zip(counts, (11, 10, 10), strict=True))
        run.write(f"{octets(str(ad['Name'])).ljust(width)} {octets(name).ljust(machine)} {numbers}\n")
    return 0
