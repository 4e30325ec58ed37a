"""The tables of condor_status, as HTCondor 25.14 prints them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from fetchwork.condor.invocation import Invocation
from fetchwork.condor.octets import octets
from fetchwork.condor.printedad import PrintedAd
from fetchwork.condor.printf import format_time

_STATES = ("Owner", "Claimed", "Unclaimed", "Matched", "Preempting", "Drained", "Backfill")
_HEADINGS = ("Total", "Owner", "Claimed", "Unclaimed", "Matched", "Preempting", "Drain", "Backfill", "BkIdle")
_WIDTHS = (5, 5, 7, 9, 7, 10, 6, 8, 6)
#: the same where they are the totals of activities
_STATES_OF_ACTIVITIES = ("Owner", "Unclaimed", "Claimed", "Preempting", "Matched", "Drained", "Backfill")
_HEADINGS_OF_ACTIVITIES = (
    *("Total", "Owner", "Unclaimed", "Claimed", "Preempting", "Matched", "Drain", "Backfill", "BkIdle"),
)
_WIDTHS_OF_ACTIVITIES = (5, 5, 9, 7, 10, 7, 6, 8, 6)
#: states in which a slot has room, or works
_AVAILABLE = ("Unclaimed", "Claimed")

#: of a table: the line of headings behind that of the name, and what a slot shows there
_Rows: TypeAlias = "Callable[[Sequence[PrintedAd]], tuple[str, Iterator[str]]]"
#: of the totals: their heading, the line of some slots, and what these have in common that share a line
_Totals: TypeAlias = "tuple[str, Callable[[Sequence[PrintedAd]], str], Callable[[PrintedAd], str]]"


def show(run: Invocation, slots: Sequence[PrintedAd], table: str, *, only_totals: bool, totals: bool) -> None:
    """Print slots as a table ("", "server" or "claimed"), and what they come to."""
    rows, summary, counted = _TABLES[table]
    if not only_totals:
        _print_table(run, slots, rows)
    if totals:
        _print_totals(run, slots, *summary)
        left_out = sum(any(slot.integer(name) is None for name in counted) for slot in slots)
        if left_out:
            # HTCondor's words: they are ads without a figure that is added up
            run.write(f"\n{'':14}(Omitted {left_out} malformed ads in computed attribute totals)\n\n")


def _print_table(run: Invocation, slots: Sequence[PrintedAd], rows: _Rows) -> None:
    names = [slot.string("Name") or "" for slot in slots]
    width = max(18 if run.columns > 0 else 34, *(len(name) for name in names))
    heading, more = rows(slots)
    run.write(f"{'Name'.ljust(width)} {heading}\n\n")
    for name, rest in zip(names, more, strict=True):
        run.write(f"{name.ljust(width)} {rest}\n")


def _with_system(rows: _Rows) -> _Rows:
    """The rows with the system and the architecture before them."""

    def table(slots: Sequence[PrintedAd]) -> tuple[str, Iterator[str]]:
        heading, more = rows(slots)

        def row(slot: PrintedAd, rest: str) -> str:
            return f"{slot.string('OpSys') or '':<10} {slot.string('Arch') or '':<8} {rest}"

        return f"{'OpSys':<10} {'Arch':<8} {heading}", map(row, slots, more)

    return table


def _states(slots: Sequence[PrintedAd]) -> tuple[str, Iterator[str]]:
    states = [slot.string("State") or "" for slot in slots]
    width = max(5, *(len(state) for state in states))

    def row(state: str, slot: PrintedAd) -> str:
        now = slot.integer("MyCurrentTime") or int(time.time())
        since = slot.integer("EnteredCurrentActivity")
        used = "" if since is None else format_time(max(0, now - since)).strip()
        memory = slot.integer("Memory") or 0
        activity = slot.string("Activity") or ""
        return f"{state.ljust(width)} {activity:<8} {_load(slot)} {memory:>6} {used:>11}".rstrip()

    return f"{'State'.ljust(width)} {'Activity':<8} LoadAv Mem     ActvtyTime", map(row, states, slots)


def _state(slots: Sequence[PrintedAd]) -> tuple[str, Iterator[str]]:
    activities = [slot.string("Activity") or "" for slot in slots]
    width = max(5, *(len(activity) for activity in activities))

    def since(slot: PrintedAd, name: str) -> str:
        moment = slot.integer(name)
        now = slot.integer("LastHeardFrom") or slot.integer("MyCurrentTime") or int(time.time())
        return f"[{'?' * 10}]" if moment is None else format_time(max(0, now - moment))

    def row(activity: str, slot: PrintedAd) -> str:
        cpus, idle = slot.integer("Cpus"), slot.integer("KeyboardIdle")
        cells = [
            f"{'' if cpus is None else cpus:<3}",
            # HTCondor leaves the memory out
            " " * 5,
            _load(slot).rjust(6),
            f"[{'?' * 10}]" if idle is None else format_time(idle),
            (slot.string("State") or "").ljust(7),
            since(slot, "EnteredCurrentState"),
            activity.ljust(width),
            since(slot, "EnteredCurrentActivity"),
        ]
        return " ".join(cells)

    heading = f"Cpu  Mem  LoadAv   KbdIdle    State     StateTime  {'Activ'.ljust(width)}   ActvtyTime"
    return heading, map(row, activities, slots)


def _server(slots: Sequence[PrintedAd]) -> tuple[str, Iterator[str]]:
    def row(slot: PrintedAd) -> str:
        cells = ((8, "Memory"), (9, "Disk"), (7, "Mips"), (9, "KFlops"))
        return " ".join([_load(slot), *(_number(slot, name, width) for width, name in cells)])

    heading = f"LoadAv {'Memory':<8} {'Disk':<9} {'Mips':<7} {'KFlops':<9}"
    return heading, map(row, slots)


def _claimed(slots: Sequence[PrintedAd]) -> tuple[str, Iterator[str]]:
    def row(slot: PrintedAd) -> str:
        user, machine = slot.string("RemoteUser") or "", slot.string("ClientMachine") or ""
        return f"{_load(slot)} {user[:20]:<20} {machine[:16]:<16}"

    return f"LoadAv {'RemoteUser':<20} {'ClientMachine':<16}", map(row, slots)


def _load(slot: PrintedAd) -> str:
    load = slot.real("CondorLoadAvg")
    return "  [???]" if load is None else f"{load:6.3f}"


def _number(slot: PrintedAd, name: str, width: int) -> str:
    value = slot.integer(name)
    return f"[{'?' * (width - 2)}]" if value is None else f"{value:>{width}}"


def _print_totals(
    run: Invocation,
    slots: Sequence[PrintedAd],
    heading: str,
    line: Callable[[Sequence[PrintedAd]], str],
    key: Callable[[PrintedAd], str],
) -> None:
    by_key: dict[str, list[PrintedAd]] = {}
    for slot in slots:
        by_key.setdefault(key(slot), []).append(slot)
    # the column of platforms is 14 wide, where nobody widens the table
    run.write(f"\n{'':>14} {heading}\n\n")
    for name in sorted(by_key):
        run.write(f"{octets(name):>14} {line(by_key[name])}\n")
    run.write(f"\n{'Total':>14} {line(slots)}\n")


def _platform(slot: PrintedAd) -> str:
    return f"{slot.string('Arch') or '?'}/{slot.string('OpSys') or '?'}"


def _of_activities(slots: Sequence[PrintedAd]) -> str:
    counts = Counter(slot.string("State") or "Owner" for slot in slots)
    # HTCondor adds up no total here
    return _in_columns([0, *(counts[state] for state in _STATES_OF_ACTIVITIES), 0], _WIDTHS_OF_ACTIVITIES)


def _of_states(slots: Sequence[PrintedAd]) -> str:
    counts = Counter(slot.string("State") or "Owner" for slot in slots)
    numbers = [sum(counts.values()), *(counts[state] for state in _STATES), 0]
    return _in_columns(numbers, _WIDTHS)


def _of_server(slots: Sequence[PrintedAd]) -> str:
    available = sum(slot.string("State") in _AVAILABLE for slot in slots)
    sums = [_sum(slots, name) for name in ("Memory", "Disk", "Mips", "KFlops")]
    return _in_columns([len(slots), available, *sums], (8, 5, 11, 11, 11, 11))


def _of_claimed(slots: Sequence[PrintedAd]) -> str:
    numbers = [len(slots), _sum(slots, "Mips"), _sum(slots, "KFlops")]
    load = sum(slot.real("LoadAvg") or 0.0 for slot in slots) / len(slots)
    return f"{_in_columns(numbers, (8, 12, 12))}   {load:.3f}"


def _sum(slots: Iterable[PrintedAd], name: str) -> int:
    return sum(slot.integer(name) or 0 for slot in slots)


def _in_columns(cells: Sequence[object], widths: Sequence[int]) -> str:
    return " ".join(str(cell).rjust(width) for cell, width in zip(cells, widths, strict=True))


#: by name: the rows, the totals, and the figures that these take from each ad
_TABLES: dict[str, tuple[_Rows, _Totals, tuple[str, ...]]] = {
    "": (_with_system(_states), (_in_columns(_HEADINGS, _WIDTHS), _of_states, _platform), ()),
    "state": (
        _state,
        (
            _in_columns(_HEADINGS_OF_ACTIVITIES, _WIDTHS_OF_ACTIVITIES),
            _of_activities,
            lambda slot: slot.string("Activity") or "?",
        ),
        (),
    ),
    "server": (
        _with_system(_server),
        (
            f"{'Slots':>8} Avail  Memory {'Disk':>11} {'MIPS':>11} {'KFLOPS':>11}",
            _of_server,
            _platform,
        ),
        ("Memory", "Disk", "Mips", "KFlops"),
    ),
    "claimed": (
        _with_system(_claimed),
        (f"{'Machines':>8} {'MIPS':>12} {'KFLOPS':>12}   AvgLoadAvg", _of_claimed, _platform),
        ("Mips", "KFlops", "LoadAvg"),
    ),
}
