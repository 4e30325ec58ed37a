"""condor_status: the slots that fetch work, as their agents last reported them."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence

from fetchwork.condor import texts
from fetchwork.condor.arguments import Usage, Words, is_colon_option, is_option
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.octets import octets
from fetchwork.condor.printedad import NotAnExpression, PrintedAd, accepting, expression
from fetchwork.condor.printf import format_time
from fetchwork.condor.selection import Selection
from fetchwork.errors import ClassAdError, FetchworkError, one_line

_STATES = ("Owner", "Claimed", "Unclaimed", "Matched", "Preempting", "Drained", "Backfill")
_HEADINGS = ("Total", "Owner", "Claimed", "Unclaimed", "Matched", "Preempting", "Drain", "Backfill", "BkIdle")
_WIDTHS = (5, 5, 7, 9, 7, 10, 6, 8, 6)

_CONDITIONS = {
    "available": 'State == "Unclaimed"',
    "claimed": 'State == "Claimed"',
    "run": 'State == "Claimed"',
    "gpus": "TotalGPUs > 0",
    "java": "HasJava",
    "vm": "HasVM",
    "annex-slots": "IsAnnex",
    "broken": "size(BrokenReasons) > 0",
    "absent": "false",
    "cod": "false",
}
#: daemons and records of HTCondor's that there are none of: nothing is shown
_NONE = (
    *("ckptsrvr", "collector", "data", "defrag", "license", "master", "grid", "generic", "negotiator"),
    "storage",
)
#: options that are refused by name -> why
_REFUSED = {
    "diagnose": "there is no collector that would get the query",
    "healthy": "'fetchwork doctor' checks a host",
    "merge": "compare the output of two calls",
    "statistics": "there are no daemons with statistics; 'fetchwork exporter' has the pool's",
    "target": "'fetchwork match' shows which waiting jobs a slot would get",
    "aaf": "use -af",
    "print-format": "use -af, -format or -attributes",
}


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    words = Words(run.argv[1:])
    selection = Selection(run.name)
    names: list[str] = []
    totals = wants_totals = False
    wants_totals = True
    which = "slots"
    file: str | None = None
    ads_form = "auto"
    sort_by: list[str] = []
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
            elif is_option(word, "pool", 1) or is_option(word, "name", 1):
                words.take()
            elif is_option(word, "sort", 2):
                by = words.take()
                if by is None:
                    raise Usage(f"{run.name}: -sort requires another argument{selection.help}")
                try:
                    expression(octets(by))
                except NotAnExpression:
                    raise Usage(f"Error:  Parse error of: {by}") from None
                sort_by.append(by)
            elif (form := is_colon_option(word, "ads", 2))[0]:
                file = words.take()
                if file is None:
                    raise Usage(f"{run.name}: -ads requires a filename argument{selection.help}")
                ads_form = form[1] or "auto"
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
            elif any(is_option(word, name, 3) for name in _NONE):
                which = "none"
            elif is_option(word, "any", 2):
                continue
            elif is_option(word, "annex-name", 6):
                selection.constraints.append(f'(AnnexName == "{words.take()}")')
            elif is_option(word, "direct", 3):
                words.take()
            elif is_option(word, "subsystem", 3):
                which = "slots" if str(words.take()).lower() == "startd" else "none"
            elif refused := next((n for n in _REFUSED if is_colon_option(word, n, 3)[0]), None):
                raise Usage(f"Error: -{refused} is not supported: {_REFUSED[refused]}")
            elif word.startswith("-"):
                raise Usage(f"Error:  Unknown option {word}", help=True)
            else:
                names.append(word)
    except Usage as problem:
        run.complain(problem.text + (texts.help_of(run.name) if problem.help else ""))
        return 1
    try:
        if which == "none":
            selection.print(run, []) if selection.prints() else None
            return 0
        if which != "slots":
            return _of_queue(run, selection, which)
        slots = _of_file(run, file, ads_form) if file is not None else None
        return _slots(run, selection, names, slots, sort_by, only_totals=totals, totals=wants_totals)
    except ClassAdError:
        run.complain(f"Invalid constraint expression : ( {' && '.join(selection.constraints)} )\n")
        return 0
    except FetchworkError as problem:
        run.complain(f"Error: {one_line(str(problem))}\n")
        return 1


def _of_file(run: Invocation, file: str, form: str) -> list[PrintedAd]:
    """The ads of a file, or of stdin."""
    from fetchwork.condor import adfiles

    try:
        data = run.stdin.read() if file == "-" else run.path(file).read_bytes()
    except OSError:
        # HTCondor's ends as if it were empty
        run.complain(f"Can't open file of ClassAds: {file}\n")
        return []
    return list(adfiles.read(data.decode("utf-8", "replace"), form))


def _slots(
    run: Invocation,
    selection: Selection,
    names: Sequence[str],
    slots: list[PrintedAd] | None,
    sort_by: Sequence[str],
    *,
    only_totals: bool,
    totals: bool,
) -> int:
    conditions = list(selection.constraints)
    if names:
        parts = []
        for name in names:
            quoted = name.replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'Name == "{quoted}" || Machine == "{quoted}"')
        conditions.append(f"({' || '.join(parts)})")
    constraint = " && ".join(conditions) or "true"
    if slots is None:
        asked = run.session.items("view", name="slots", constraint=constraint, limit=selection.limit)
        found = [PrintedAd(ad) for ad in asked]
    else:
        try:
            accepts = accepting(octets(constraint))
        except NotAnExpression:
            raise ClassAdError(constraint) from None
        found = list(filter(accepts, slots))
        found = found[: selection.limit] if selection.limit > 0 else found
    found = _sorted(found, sort_by)
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


def _sorted(slots: list[PrintedAd], by: Sequence[str]) -> list[PrintedAd]:
    """In HTCondor's natural order, or by the values of expressions; 'no': as they came."""
    if not by:
        return sorted(slots, key=_order)
    for text in reversed(by):
        if text == "no":
            continue
        tree = expression(octets(text))
        slots = sorted(slots, key=lambda slot: _rank(slot.value_of_expression(tree)))
    return slots


def _rank(value: object) -> tuple[int, float, str]:
    if isinstance(value, bool | int | float):
        return (0, float(value), "")
    return (1, 0.0, value.lower()) if isinstance(value, str) else (2, 0.0, "")


def _order(slot: PrintedAd) -> list[tuple[int, int, str]]:
    """HTCondor's natural order of slots: by machine and name, numbers in them as numbers."""
    parts = re.split(r"(\d+)", f"{slot.string('Machine') or ''} {slot.string('Name') or ''}")
    return [(0, int(part), "") if part.isdigit() else (1, 0, part.lower()) for part in parts]


def _print_table(run: Invocation, slots: Sequence[PrintedAd]) -> None:
    names = [slot.string("Name") or "" for slot in slots]
    states = [slot.string("State") or "" for slot in slots]
    width = max(18 if run.columns > 0 else 34, *(len(name) for name in names))
    of_state = max(5, *(len(state) for state in states))
    header = f"{'Name'.ljust(width)} {'OpSys':<10} {'Arch':<8} {'State'.ljust(of_state)} {'Activity':<8}"
    run.write(f"{header} LoadAv Mem     ActvtyTime\n\n")
    for name, state, slot in zip(names, states, slots, strict=True):
        now = slot.integer("MyCurrentTime") or int(time.time())
        since = slot.integer("EnteredCurrentActivity")
        load = slot.real("CondorLoadAvg")
        row = (
            f"{name.ljust(width)} {slot.string('OpSys') or '':<10} {slot.string('Arch') or '':<8}"
            f" {state.ljust(of_state)} {slot.string('Activity') or '':<8}"
        )
        shown = "  [???]" if load is None else f"{load:6.3f}"
        used = "" if since is None else format_time(max(0, now - since)).strip()
        memory = slot.integer("Memory") or 0
        run.write(f"{row} {shown} {memory:>6} {used:>11}".rstrip() + "\n")


def _print_totals(run: Invocation, slots: Sequence[PrintedAd]) -> None:
    by_platform: dict[str, Counter[str]] = {}
    for slot in slots:
        platform = f"{slot.string('Arch') or '?'}/{slot.string('OpSys') or '?'}"
        by_platform.setdefault(platform, Counter())[slot.string("State") or "Owner"] += 1
    titles = " ".join(title.rjust(width) for title, width in zip(_HEADINGS, _WIDTHS, strict=True))
    # the column of platforms is 14 wide, where nobody widens the table
    run.write(f"\n{'':>14} {titles}\n\n")
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
