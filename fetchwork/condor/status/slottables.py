"""The tables of condor_status, as HTCondor 25.14 prints them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from fetchwork.condor.invocation import Invocation
from fetchwork.condor.printing import printformat
from fetchwork.condor.printing.columns import PrintMask
from fetchwork.condor.printing.jobtable import JobTable
from fetchwork.condor.printing.printedad import PrintedAd
from fetchwork.condor.status import slotformat

_STATES = ("Owner", "Claimed", "Unclaimed", "Matched", "Preempting", "Drained", "Backfill")
_HEADINGS = ("Total", "Owner", "Claimed", "Unclaimed", "Matched", "Preempting", "Drain", "Backfill", "BkIdle")
_WIDTHS = (5, 5, 7, 9, 7, 10, 6, 8, 6)
#: the same where they are the totals of activities
_STATES_OF_ACTIVITIES = ("Owner", "Unclaimed", "Claimed", "Preempting", "Matched", "Drained", "Backfill")
_HEADINGS_OF_ACTIVITIES = (
    "Total", "Owner", "Unclaimed", "Claimed", "Preempting", "Matched", "Drain", "Backfill", "BkIdle",
)  # fmt: skip
_WIDTHS_OF_ACTIVITIES = (5, 5, 9, 7, 10, 7, 6, 8, 6)
#: of a slot for backfill, which counts for the machine only where it works: state -> column
_IDLE_BACKFILL = "BkIdle"
_OF_BACKFILL = {"Unclaimed": _IDLE_BACKFILL, "Claimed": "Backfill"}
#: states in which a slot has room, or works
_AVAILABLE = ("Unclaimed", "Claimed")

#: the columns of tables, in the words of a print format
_NAME = "Name WIDTH -34 FIT PRINTF %s OR ??"
_SYSTEM = ("OpSys WIDTH -10 OR ??", "Arch WIDTH -8 OR ??")
_LOAD = "CondorLoadAvg AS LoadAv WIDTH 6 TRUNCATE PRINTAS LOAD_AVG OR ??"
_SINCE = "EnteredCurrentActivity AS '  ActvtyTime' WIDTH 12 NOPREFIX TRUNCATE PRINTAS ACTIVITY_TIME OR -"
#: columns that have another form where there is room
_WIDE = {_SINCE: "EnteredCurrentActivity AS ActivityTime WIDTH 12 TRUNCATE PRINTAS ACTIVITY_TIME OR -"}
_ROWS = {
    "": (
        *(
            _NAME,
            *_SYSTEM,
            "State WIDTH AUTO OR ??",
            "Activity WIDTH -8 PRINTAS ACTIVITY_OR_OCU OR ??",
            _LOAD,
        ),
        "Memory AS Mem WIDTH 6 PRINTF %6d OR ??",
        _SINCE,
    ),
    "state": (
        _NAME, "Cpus AS Cpu OR ??", "Memory AS ' Mem' WIDTH 5 OR ??", _LOAD,
        "KeyboardIdle AS '  KbdIdle' WIDTH 12 TRUNCATE PRINTAS TIME OR ??",
        "State WIDTH -7 OR ??",
        "EnteredCurrentState AS '  StateTime' WIDTH 12 TRUNCATE PRINTAS ELAPSED_TIME OR ??",
        "Activity AS Activ OR ??",
        "EnteredCurrentActivity AS '  ActvtyTime' WIDTH 12 TRUNCATE PRINTAS ELAPSED_TIME OR -",
    ),
    "server": (
        _NAME, *_SYSTEM, _LOAD, "Memory WIDTH 8 PRINTF %8d OR ??", "Disk WIDTH 9 PRINTF %9d OR ??",
        "Mips WIDTH 7 PRINTF %7d OR ??", "KFlops WIDTH 9 PRINTF %9d OR ??",
    ),
    "claimed": (_NAME, *_SYSTEM, _LOAD, "RemoteUser WIDTH -20 OR ??", "ClientMachine WIDTH -16 OR ??"),
    "gpus": (
        "Name WIDTH AUTO", "Activity AS ST WIDTH 2 PRINTAS ACTIVITY_CODE",
        "RemoteUser AS User WIDTH AUTO PRINTF %s OR _", "GPUs PRINTF %4d",
        "GPUs_GlobalMemoryMB AS GPU-Memory PRINTAS READABLE_MB OR _",
        # of a partitionable slot with several devices: all of them
        'GPUs_DeviceName?:join(",",evalInEachContext(DeviceName,AvailableGPUs))?:CUDADeviceName'
        " AS GPU-Name PRINTF %s OR *",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Counted:
    """The contribution of a slot to the totals."""

    slot: PrintedAd
    #: the line of the totals that it counts in; None: the key of the table's own totals
    key: str | None = None
    #: the states that it counts under; None: its own
    states: Sequence[str] | None = None
    backfill: bool = False

    def in_states(self) -> Iterator[str]:
        """Yield the states that it counts under, as far as columns exist for them."""
        for state in [self.slot.string("State")] if self.states is None else self.states:
            if state in _STATES:
                yield (_OF_BACKFILL.get(state, state) if self.backfill else state)


@dataclass(frozen=True)
class _Totals:
    """The totals of a table."""

    heading: str
    #: the line of some slots
    line: Callable[[Sequence[Counted]], str]
    #: the key that slots of a line share; None: the slot has no line
    key: Callable[[PrintedAd], str | None]
    #: the figures that are added up; without any, states are
    figures: tuple[str, ...] = ()
    #: a slot without a state does not count
    with_state: bool = False

    def is_malformed(self, each: Counted) -> bool:
        """Whether a figure or a state that the totals need is missing."""
        if self.with_state and each.slot.string("State") is None:
            return True
        if self.figures:
            return any(each.slot.integer(name) is None for name in self.figures)
        return each.states is None and not any(each.in_states())


def show(
    run: Invocation,
    slots: Sequence[PrintedAd],
    table: str,
    appended: slotformat.Appended,
    *,
    only_totals: bool,
    wide: bool,
) -> None:
    """Print slots as a table (a name of ``_ROWS``), and their totals."""
    if not only_totals:
        columns: Sequence[str] = _ROWS[table]
        if wide or run.columns > 100:
            columns = [_WIDE.get(column, column) for column in columns]
        _print_table(run, slots, columns, appended)
    # HTCondor takes a table for wide that has further columns
    print_totals(run, table, [Counted(slot) for slot in slots], wide=wide or bool(appended.columns))
    if table == "gpus" and any(slot.item("AvailableGPUs") for slot in slots if "AvailableGPUs" in slot):
        # HTCondor's own could name each device here
        run.write("\n")


def _print_table(
    run: Invocation, slots: Sequence[PrintedAd], columns: Sequence[str], appended: slotformat.Appended
) -> None:
    mask = PrintMask()
    printformat.read(["SELECT", *columns], mask, PrintMask(), slotformat.OF_SLOTS, texts_alone=True)
    appended.to(mask)
    if run.columns > 0 and not mask.columns[0].grows:
        mask.columns[0].width = 18
    rows = mask.rows(JobTable.of(slots))
    run.write(mask.heading_line() + "\n")
    run.write("".join(mask.lines(rows)))


def print_totals(run: Invocation, table: str, counted: Iterable[Counted], *, wide: bool = False) -> None:
    """Print the totals, a line for each key; with ``wide`` columns are only as wide as needed."""
    totals = _TOTALS[table]
    by_key: dict[str, list[Counted]] = {}
    left_out = 0
    widest = 5 if wide else 14
    for each in counted:
        own = each.key if table != "state" else None
        key = own or totals.key(each.slot)
        if key is None:
            left_out += 1
            continue
        if own or wide:
            widest = max(widest, len(key))
        line = by_key.setdefault(key, [])
        if not totals.with_state or each.slot.string("State") is not None:
            line.append(each)
        left_out += totals.is_malformed(each)
    run.write(f"\n{'':>{widest}} {totals.heading}\n\n")
    for key in sorted(by_key):
        run.write(f"{key[:widest]:>{widest}} {totals.line(by_key[key])}\n")
    run.write(f"\n{'Total':>{widest}} {totals.line([each for all in by_key.values() for each in all])}\n")
    if left_out:
        # HTCondor's words: they are ads without a figure that is added up
        run.write(f"\n{'':{widest}}(Omitted {left_out} malformed ads in computed attribute totals)\n\n")


def _platform(slot: PrintedAd) -> str | None:
    architecture, system = slot.string("Arch"), slot.string("OpSys")
    return None if architecture is None or system is None else f"{architecture}/{system}"


def _of_activities(counted: Sequence[Counted]) -> str:
    counts = _counts(counted)
    numbers = [*(counts[state] for state in _STATES_OF_ACTIVITIES), counts[_IDLE_BACKFILL]]
    # HTCondor adds up no total here
    return _in_columns([0, *numbers], _WIDTHS_OF_ACTIVITIES)


def _of_states(counted: Sequence[Counted]) -> str:
    counts = _counts(counted)
    numbers = [counts[state] for state in _STATES]
    return _in_columns([sum(numbers), *numbers, counts[_IDLE_BACKFILL]], _WIDTHS)


def _counts(counted: Iterable[Counted]) -> Counter[str]:
    return Counter(state for each in counted for state in each.in_states())


def _of_server(counted: Sequence[Counted]) -> str:
    available = sum(each.slot.string("State") in _AVAILABLE for each in counted)
    sums = [_sum(counted, name) for name in ("Memory", "Disk", "Mips", "KFlops")]
    return _in_columns([len(counted), available, *sums], (8, 5, 11, 11, 11, 11))


def _of_claimed(counted: Sequence[Counted]) -> str:
    numbers = [len(counted), _sum(counted, "Mips"), _sum(counted, "KFlops")]
    load = sum(each.slot.real("LoadAvg") or 0.0 for each in counted) / max(1, len(counted))
    return f"{_in_columns(numbers, (8, 12, 12))}   {load:.3f}"


def _sum(counted: Iterable[Counted], name: str) -> int:
    return sum(each.slot.integer(name) or 0 for each in counted)


def _in_columns(cells: Sequence[object], widths: Sequence[int]) -> str:
    return " ".join(str(cell).rjust(width) for cell, width in zip(cells, widths, strict=True))


_BY_ACTIVITY = _Totals(
    _in_columns(_HEADINGS_OF_ACTIVITIES, _WIDTHS_OF_ACTIVITIES),
    _of_activities,
    lambda slot: slot.string("Activity"),
)
#: by the same names
_TOTALS = {
    "": _Totals(_in_columns(_HEADINGS, _WIDTHS), _of_states, _platform),
    "state": _BY_ACTIVITY,
    "gpus": _BY_ACTIVITY,
    "server": _Totals(
        f"{'Slots':>8} Avail  Memory {'Disk':>11} {'MIPS':>11} {'KFLOPS':>11}",
        _of_server,
        _platform,
        ("Memory", "Disk", "Mips", "KFlops"),
        with_state=True,
    ),
    "claimed": _Totals(
        f"{'Machines':>8} {'MIPS':>12} {'KFLOPS':>12}   AvgLoadAvg",
        _of_claimed,
        _platform,
        ("Mips", "KFlops", "LoadAvg"),
    ),
}
