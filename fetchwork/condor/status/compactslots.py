"""condor_status -compact: a line for each machine and slot type, as HTCondor 25.14 prints them.

Dynamic slots are left out: a partitionable slot's ad describes them (``NumDynamicSlots``, ``ChildState``...).
Other slots of one machine and type are added up into the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from fetchwork.classad.exprform import expr_text
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.printing import printformat
from fetchwork.condor.printing.columns import Cell, PrintMask
from fetchwork.condor.printing.jobtable import JobTable
from fetchwork.condor.printing.printedad import PrintedAd
from fetchwork.condor.status import slotformat, slottables

#: the slots that tables show
_NOT_DYNAMIC = "(PartitionableSlot =?= true || DynamicSlot =!= true)"
#: the slots that -avail and -claimed select
CONDITIONS = {
    "available": '(State == "Unclaimed" && Cpus > 0 && Memory > 0)',
    "claimed": (
        '((State == "Claimed" && DynamicSlot =!= true)'
        " || (NumDynamicSlots isnt undefined && NumDynamicSlots > 0))"
    ),
}

#: columns, in the words of a print format
_COLUMNS = {
    "machine": "Machine WIDTH AUTO",
    "platform": "OpSys AS Platform PRINTAS PLATFORM",
    "slots": "NumDynamicSlots AS Slot PRINTF %4d OR ' '",
    # its heading ends that of the column before
    "tag": "SlotType AS s NOPREFIX PRINTAS SLOT_COUNT_TAG",
    "cpus": "TotalSlotCpus AS Cpus PRINTF %4d",
    "gpus": "TotalSlotGpus AS Gpus PRINTF %4d",
    "memory": "TotalSlotMemory/1024.0 AS ' TotalGb' PRINTF %8.2f",
    "free cpus": "Cpus AS FreCpu PRINTF %6d",
    "free memory": "Memory/1024.0 AS ' FreeGb ' PRINTF %8.2f",
    "mips": "Mips AS ' Mips  ' PRINTF %7d OR -",
    "kflops": "KFlops AS ' KFlops  ' PRINTF %9d OR -",
    "load": "TotalLoadAvg*1.0/TotalCpus AS CpuLoad PRINTF %7.2f",
    "code": "Activity AS ST WIDTH 2 PRINTAS ACTIVITY_CODE",
    "starts": "RecentJobStarts/20.0 AS Jobs/Min PRINTF %8.2f OR _",
    "largest": "Max(ChildMemory)/1024.0 AS MaxSlotGb PRINTF %9.2f OR *",
    "users": "ChildRemoteUser AS Users PRINTAS UNIQUE",
}
_SIZES = ("machine", "platform", "slots", "tag", "cpus", "gpus", "memory")
_TABLES: dict[str, tuple[str, ...]] = {
    "": (*_SIZES, "free cpus", "free memory", "load", "code", "starts", "largest"),
    "server": (*_SIZES, "mips", "kflops", "load", "code", "starts"),
    "state": (*_SIZES, "load", "code", "starts"),
    "claimed": ("machine", "platform", "slots", "tag", "users"),
}
#: the names of busy states
_BUSY = ("matched", "claimed", "preempting")


def conditions(modes: Iterable[str], table: str | None) -> list[str]:
    """Return the conditions of slots for modes of ``CONDITIONS`` and a table, if one is shown."""
    found = [CONDITIONS[mode] for mode in modes if mode in CONDITIONS]
    if not found or table not in (None, "claimed"):
        found.append(_NOT_DYNAMIC)
    return found


def in_order(slots: Sequence[PrintedAd]) -> list[PrintedAd]:
    """The slots by machine and slot type; of equal ones, the order stays."""
    return sorted(slots, key=lambda slot: natural(_key(slot)))


def first_of_each(slots: Sequence[PrintedAd]) -> list[PrintedAd]:
    """Return the first slot of each machine and type, of slots in order."""
    keys = [None, *map(_key, slots)]
    return [slot for slot, (before, key) in zip(slots, pairwise(keys), strict=True) if key != before]


def natural(text: str) -> list[tuple[int, int, str]]:
    """Return a sort key for HTCondor's natural order, in which numbers are compared as numbers."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part.lower()) for part in parts]


def show(
    run: Invocation, slots: Sequence[PrintedAd], table: str, appended: slotformat.Appended, *, wide: bool
) -> None:
    """Print slots, which are in order, as a table (a name of ``_TABLES``), and their totals."""
    mask = PrintMask()
    names = list(_TABLES[table])
    lines = ["SELECT", *(_COLUMNS[name] for name in names)]
    printformat.read(lines, mask, PrintMask(), slotformat.OF_SLOTS, texts_alone=True)
    appended.to(mask)
    names += [f"appended {number}" for number in range(len(mask.columns) - len(names))]
    if not table:
        mask.columns[0].width = 12
    if run.columns > 0 and not wide:
        mask.overall_width = run.columns - 1
    rows = [
        # cells are shared with rows that look the same
        _Row(slot, dict(zip(names, (replace(cell, text_width=-1) for cell in cells), strict=True)))
        for slot, cells in zip(slots, mask.rows(JobTable.of(slots)), strict=True)
    ]
    counted = _counted(rows)
    for row in rows:
        row.take_children()
    shown = _folded(rows)
    written = [list(row.cells.values()) for row in shown]
    run.write(mask.heading_line() + "\n")
    run.write("".join(mask.lines(written)))
    slottables.print_totals(run, table, counted, wide=wide or bool(appended.columns))


def _key(slot: PrintedAd) -> str:
    """Return machine and slot type, which the slots of one line share."""
    machine, number = slot.string("Machine"), slot.integer("SlotTypeId")
    return ":".join(
        part for part in (machine, None if number is None else str(abs(number))) if part is not None
    )


def _same_machine(key: str, other: str) -> bool:
    """Whether keys differ only in a digit after the colon; longer numbers are other machines to HTCondor."""
    return len(key) == len(other) and all(
        own == their or (before == ":" and own.isdigit() and their.isdigit())
        for before, own, their in zip(" " + key, key, other, strict=False)
    )


def _children(slot: PrintedAd, name: str) -> list[str]:
    """The texts of a list of the dynamic slots' values."""
    found = slot.item(name)
    members = found if isinstance(found, list) else []
    return [member for member in members if isinstance(member, str) and expr_text(member) is None]


@dataclass
class _Row:
    """A slot's cells by the names of their columns; those of other slots may be added to them."""

    slot: PrintedAd
    cells: dict[str, Cell]
    #: whether its cells are sums
    begun: bool = False

    def __post_init__(self) -> None:
        self.partitionable = self.slot.truth("PartitionableSlot")
        self.backfill = self.slot.truth("BackfillSlot")
        state = (self.slot.string("State") or "").lower()
        self.busy = state in _BUSY and not (self.partitionable and state == "claimed")
        cpus = self.slot.real("Cpus")
        self.exhausted = self.partitionable and cpus is not None and cpus < 0.1

    def number(self, name: str) -> float:
        """Return the number in a column; 0 if the column is missing or has none."""
        cell = self.cells.get(name)
        if cell is None or not cell.valid or not isinstance(cell.value, int | float):
            return 0
        return cell.value

    def code(self) -> str:
        """Return the letters of state and activity, which may be missing."""
        cell = self.cells["code"]
        return cell.value if cell.valid and isinstance(cell.value, str) else ""

    def set(self, name: str, value: float | str, *, valid: bool | None = None) -> None:
        """Put a value into a column, if the table has it; ``valid``: None leaves whether it is shown."""
        if name in self.cells:
            cell = self.cells[name]
            self.cells[name] = Cell(value, cell.valid if valid is None else valid)

    def take_children(self) -> None:
        """Let a partitionable slot's letters be those of its dynamic slots too."""
        if not self.partitionable or "code" not in self.cells:
            return
        state = _consensus(_children(self.slot, "ChildState"), slotformat.STATES, "P")
        activity = _consensus(_children(self.slot, "ChildActivity"), slotformat.ACTIVITIES, "v")
        before = (self.code() + "\0\0")[:2]
        own, does = before[0], before[1]
        if before == "Ui" and self.exhausted:
            own, does = state or " ", activity or " "
        elif own == "D" and state == "C":
            own = state
        own = state if state == "P" else own
        does = activity if activity == "v" else does
        if state and own != state:
            own = "*"
        if activity and does != activity:
            does = "*"
        if own + does != before:
            self.set("code", (own + does).partition("\0")[0])

    def begin(self) -> None:
        """Turn the cells of a slot that is not partitionable into sums."""
        if self.partitionable or self.begun:
            return
        if "largest" in self.cells:
            self.set("largest", float(self.number("free memory")), valid=True)
        if self.busy:
            self.set("free cpus", 0)
            self.set("free memory", 0.0)
        self.set("slots", 1, valid=True)
        self.begun = True

    def add(self, other: _Row) -> None:
        """Add a slot of the same machine and type."""
        self.begin()
        # HTCondor adds to the free memory what it compares here: a slot's own, or that of its largest child
        memory = other.number("largest" if other.partitionable else "free memory")
        self.set("largest", float(max(self.number("largest"), memory)))
        if other.partitionable or not other.busy:
            self.set("free memory", float(self.number("free memory") + memory))
            self.set("free cpus", int(self.number("free cpus")) + int(other.number("free cpus")))
        known = self.cells["slots"].valid
        more = int(other.number("slots")) if other.partitionable else 1
        self.set("slots", (int(self.number("slots")) if known else 1) + more, valid=True)
        self.set("starts", float(self.number("starts") + other.number("starts")))
        if "code" in self.cells:
            before, their = (self.code() + "\0\0")[:2], (other.code() + "\0\0")[:2]
            letters = "".join(
                own if own == letter else "*" for own, letter in zip(before, their, strict=True)
            )
            if letters != before:
                self.set("code", letters.partition("\0")[0])


def _consensus(words: Iterable[str], letters: dict[str, str], wins: str) -> str:
    """Return the letter of all words, or '#' if they differ, unless a later word ``wins``."""
    by_word = {word.lower(): letter for word, letter in letters.items()}
    found = ""
    for word in words:
        letter = by_word.get(word.lower())
        if letter is None or letter == found:
            continue
        if found and letter == wins:
            return wins
        found = "#" if found else letter
    return found


def _folded(rows: Sequence[_Row]) -> list[_Row]:
    """Return the displayed rows, with the figures of hidden slots added in."""
    shown: list[_Row] = []
    key = ""
    for row in rows:
        other = _key(row.slot)
        if shown and key == other:
            shown[-1].add(row)
            continue
        if shown:
            shown[-1].begin()
        if shown and _same_machine(other, key) and (name := row.slot.string("Name")):
            row.set("machine", "   " + name.partition("@")[0])
        shown.append(row)
        key = other
    if len(rows) > 1 and shown[-1].slot is rows[-1].slot:
        shown[-1].begin()
    return shown


def _counted(rows: Iterable[_Row]) -> list[slottables.Counted]:
    """Return the slots that totals count; a partitionable slot has the states of its dynamic slots."""
    counted = []
    for row in rows:
        cell = row.cells["platform"]
        key = str(cell.value) if cell.valid else None
        dynamic = not row.partitionable and row.slot.truth("DynamicSlot")
        states: list[str] | None = None
        if row.partitionable:
            states = _children(row.slot, "ChildState")
        elif dynamic:
            states = []
        counted.append(slottables.Counted(row.slot, key, states, row.backfill))
        if row.partitionable and not row.exhausted and not row.backfill:
            counted.append(slottables.Counted(row.slot, key, None, False))
    return counted
