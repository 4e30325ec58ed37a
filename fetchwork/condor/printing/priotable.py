"""The table of condor_userprio: submitters below their accounting groups, in columns that are chosen."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from fetchwork.condor.printing.printedad import PrintedAd
from fetchwork.condor.printing.printf import format_date

#: the root group: submitters without a group
NONE = "<none>"
#: columns in their order: width, and both lines of the heading
_COLUMNS = {
    "groupid": (5, "Group", "Id"),
    "order": (9, "Group", "Order"),
    "sortkey": (9, "Group", "Sort Key"),
    "effective": (9, "Effective", "Quota"),
    "config": (9, "Config", "Quota"),
    "surplus": (7, "Use", "Surplus"),
    "subtree": (9, "Subtree", "Quota"),
    "priority": (12, "Effective", "Priority"),
    "real": (8, "Real", "Priority"),
    "factor": (9, "Priority", "Factor"),
    "used": (6, "Wghted", "In Use"),
    "total": (12, "Total Usage", "(wghted-hrs)"),
    "begun": (16, "Usage", "Start Time"),
    "last": (16, "Last", "Usage Time"),
    "since": (10, "Time Since", "Last Usage"),
    "requested": (10, "Weighted", "Requested"),
    "floor": (9, "Submitter", "Floor"),
    "ceiling": (9, "Submitter", "Ceiling"),
}
PRIORITIES = frozenset({"priority", "factor", "real"})
QUOTAS = frozenset({"effective", "config", "subtree", "surplus", "requested"})
MOST = frozenset(
    {"config", "surplus", "priority", "factor", "used", "total", "since", "requested", "ceiling", "floor"}
)
USAGE = frozenset({"used", "total", "begun", "last"})
ALL = MOST | QUOTAS | PRIORITIES | USAGE

_USED = frozenset({"used", "total"})
_POLICIES = {"regroup": "Regroup", "byquota": "ByQuota", "no": "no"}
_FLT_MAX = 3.4028234663852886e38
#: from this sort key on, a group is one of the last
_LAST = 3.40282001e38
_LONGEST_NAME = 99
#: the number of a user's group before it is found
_UNKNOWN = -1


@dataclass
class Table:
    """The columns and rows that are asked for."""

    columns: Collection[str] = ()
    #: users below their groups; None: yes, unless only columns of priorities are shown
    hierarchical: bool | None = None
    group_order: bool = False
    #: quotas were asked for by name
    quotas: bool = False
    rollup: bool = False
    #: submitters that used no slot since then are left out
    active_from: int = -1


@dataclass
class _Row:
    """A submitter, or a group."""

    name: str
    group: str
    is_group: bool
    index: int
    numbers: dict[str, float]
    last: int
    #: columns that have a value
    has: set[str]
    policy: str = ""
    #: 0: of the root group
    group_id: int = 0
    order: float = 0.0

    def number(self, column: str) -> float:
        return self.numbers.get(column, 0.0)


#: the attribute of each number
_NUMBERS = {
    "priority": "Priority",
    "factor": "PriorityFactor",
    "total": "WeightedAccumulatedUsage",
    "ceiling": "Ceiling",
    "floor": "Floor",
    "requested": "Requested",
    "effective": "EffectiveQuota",
    "config": "ConfigQuota",
    "begun": "BeginUsageTime",
    "last": "LastUsageTime",
    "resources": "ResourcesUsed",
    "used": "WeightedResourcesUsed",
}
_OF_GROUPS = {"sortkey": "GroupSortKey", "subtree": "SubtreeQuota"}


def text(table: Table, ads: Sequence[PrintedAd], updated: int) -> str:
    """The table of accounting ads; '' without any. ``updated`` is the time to which their numbers belong."""
    if not ads:
        return ""
    return _Printed(table, [_row(ad, index, table) for index, ad in enumerate(ads)]).text(updated)


def _row(ad: PrintedAd, index: int, table: Table) -> _Row:
    is_group = ad.truth("IsAccountingGroup")
    attributes = _NUMBERS | (_OF_GROUPS if is_group else {})
    found = {column: ad.real(attribute) for column, attribute in attributes.items()}
    numbers = {column: number for column, number in found.items() if number is not None}
    row = _Row(
        name=ad.string("Name") or "",
        group=ad.string("AccountingGroup") or NONE,
        is_group=is_group,
        index=index,
        numbers=numbers,
        last=int(numbers.get("last", 0)) or -1,
        has=set(numbers) - {"used"},
    )
    if "used" in numbers:
        row.has.add("total")
    if row.has & {"total", "resources"}:
        row.has |= _USED
    numbers.setdefault("used", numbers.get("resources", 0.0))
    if row.number("factor") > 0:
        row.has.add("real")
    if "last" in numbers:
        row.has.add("since")
    if is_group:
        _note_group(row, ad, table)
    elif row.group not in (NONE, "."):
        row.group_id = _UNKNOWN
    if row.group_id:
        row.has.add("groupid")
    return row


def _note_group(row: _Row, ad: PrintedAd, table: Table) -> None:
    row.group_id = 0 if row.name in (NONE, ".") else -1 - row.index
    policy = ad.string("SurplusPolicy")
    row.policy = "no" if policy is None else _POLICIES.get(policy.lower(), "n/a")
    if policy is not None:
        row.has.add("surplus")
    if table.rollup and "effective" not in row.has:
        row.has -= PRIORITIES
    # a group's priority decides nothing
    row.has.discard("priority")


class _Printed:
    """The table's rows in their order, and the columns that are left of those that were asked for."""

    def __init__(self, table: Table, rows: list[_Row]) -> None:
        self.table, self.rows = table, rows
        self.columns = set(table.columns or MOST)
        self.has = {column for row in rows for column in row.has}
        for row in rows:
            if row.group_id == _UNKNOWN and not row.is_group:
                row.group_id = -2 * len(rows)
        self.policy = next((row.policy for row in reversed(rows) if row.policy in ("Regroup", "ByQuota")), "")
        hierarchical = table.hierarchical is not False
        self.hide_groups = False
        if self.columns <= PRIORITIES:
            hierarchical = hierarchical and table.hierarchical is not None
            self.hide_groups = not hierarchical
        self._drop_columns_without_data()
        if any(not row.is_group and row.group_id < 0 for row in rows):
            self._number_groups()
        grouped = any(row.group_id > 0 for row in rows if row.last >= table.active_from)
        self.hide_none = not grouped
        self.hierarchical = hierarchical and "groupid" in self.has and grouped
        users_have_quotas = any(not row.is_group and row.has & {"effective", "config"} for row in rows)
        if (self.hide_groups or not grouped) and not table.quotas and not users_have_quotas:
            self.columns -= QUOTAS
        self.hide_users = bool(self.columns) and self.columns <= QUOTAS and not users_have_quotas
        self.rows.sort(key=self._key())

    def _drop_columns_without_data(self) -> None:
        if not self.has & _USED:
            self.columns -= _USED
        self.columns -= {"factor", "begun"} - self.has
        if "last" not in self.has:
            self.columns -= {"last", "since"}
        if not self.table.quotas and not self.has & QUOTAS:
            self.columns -= QUOTAS

    def _number_groups(self) -> None:
        """Number the groups by their names, and give users the number of their group."""
        groups = sorted(
            (row for row in self.rows if row.is_group), key=lambda row: (not row.group_id, row.name)
        )
        for number, row in enumerate(groups, 1):
            if row.group_id < 0:
                row.group_id = number
            row.order = self._order(row)
            row.has.add("order")
        known = {row.name: row for row in groups}
        for row in self.rows:
            group = known.get(NONE if not row.group_id else row.group)
            if not row.is_group and group is not None:
                row.group_id, row.order = group.group_id, group.order
                row.has.add("order")
        # rows that are equal in the order of the table stay in this order
        self.rows = groups + sorted((row for row in self.rows if not row.is_group), key=self._of_column)

    def _order(self, group: _Row) -> float:
        if "priority" in self.columns:
            if "sortkey" in self.has:
                return group.number("sortkey")
            return group.number("priority") if group.group_id else _FLT_MAX
        if self.columns & _USED:
            return group.number("total") / 3600.0
        return float(group.group_id) if group.group_id else _FLT_MAX

    def _of_column(self, row: _Row) -> float | str:
        if "priority" in self.columns:
            return row.number("priority")
        return row.number("total") if self.columns & _USED else row.name

    def _key(self) -> Callable[[_Row], tuple[object, ...]]:
        def below_groups(row: _Row) -> tuple[object, ...]:
            last = self.policy == "Regroup" and not row.group_id
            order = row.order if self.columns & (_USED | {"priority"}) else row.group_id
            return last, order, row.group_id, not row.is_group, self._of_column(row)

        def groups_first(row: _Row) -> tuple[object, ...]:
            return (0, row.index) if row.is_group else (1, self._of_column(row))

        if self.hierarchical:
            return below_groups
        return groups_first if self.table.group_order else lambda row: (self._of_column(row),)

    # text

    def text(self, updated: int) -> str:
        shown = [row for row in self.rows if row.last >= self.table.active_from]
        width = self._width(shown)
        lines = []
        for row in shown:
            if row.is_group:
                if self.hide_groups or (not self.hierarchical and self.hide_none and not row.group_id):
                    continue
                # beside another group, the root group is shown too
                self.hide_none = False
            elif self.hide_users:
                continue
            lines.append(self._line(width, self._name(row), functools.partial(_cell, row, updated=updated)))
        rule = self._line(width, "-" * width, lambda name: "-" * _COLUMNS[name][0])
        names = "User Name" if not self.hide_users else "Name" if self.hierarchical else "Group Name"
        if self.hierarchical and not self.hide_users:
            names = "  " + names
        users = [row for row in shown if not row.is_group]
        return (
            f"Last Priority Update: {format_date(updated)}\n"
            + self._line(
                width, "Group" if self.hierarchical else "", functools.partial(_heading, second=False)
            )
            + self._line(width, names, functools.partial(_heading, second=True))
            + rule
            + "".join(lines)
            + rule
            + self._line(
                width, f"Number of users: {len(users)}", lambda name: self._total(users, name, updated)
            )
        )

    def _width(self, shown: list[_Row]) -> int:
        """The width of the names."""
        longest = 10
        for row in shown:
            length = len(row.name)
            if self.hierarchical and not row.is_group:
                length += 2 - (len(row.group) if row.group_id else 0)
            longest = max(longest, length)
        width = max(min(longest, _LONGEST_NAME), len(f"Number of users: {len(self.rows)}"))
        return width + 2 if self.hierarchical else width

    def _line(self, width: int, name: str, cell: Callable[[str], str]) -> str:
        cells = (
            f" {cell(column)[: _COLUMNS[column][0]]:{_COLUMNS[column][0]}}"
            for column in _COLUMNS
            if column in self.columns
        )
        return f"{name[:width]:{width}}{''.join(cells)}\n"

    def _name(self, row: _Row) -> str:
        if not self.hierarchical or row.is_group:
            return row.name
        return "  " + (row.name[len(row.group) + 1 :] if row.group_id > 0 else row.name)

    def _total(self, users: list[_Row], column: str, updated: int) -> str:
        width, since = _COLUMNS[column][0], self.table.active_from
        if column == "surplus":
            return self.policy
        if column == "used":
            return _number(width, 0, sum(row.number("used") for row in users))
        if column == "total":
            return _number(width, 2, sum(row.number("total") for row in users) / 3600.0)
        if column == "last":
            return _date(since).rjust(width)
        if column == "since":
            return _duration(updated - since).rjust(width) if since > 0 else ""
        return ""


def _cell(row: _Row, column: str, *, updated: int) -> str:
    """A value as its column shows it."""
    width, number = _COLUMNS[column][0], row.number(column)
    if column not in row.has:
        return "n/d".rjust(width) if row.is_group and column in (*QUOTAS, "sortkey") else ""
    if column in ("groupid", "order"):
        return _number(width, 0, row.group_id) if column == "groupid" else _number(width, 2, row.order)
    if column == "surplus":
        return row.policy if row.group_id else "yes"
    if column == "sortkey" and number >= _LAST:
        return "<last>".rjust(width)
    if column == "real":
        return _number(width, 2, row.number("priority") / row.number("factor"))
    if column == "total":
        return _number(width, 2, number / 3600.0)
    if column in ("begun", "last"):
        return _date(row.last if column == "last" else int(number)).rjust(width)
    if column == "since":
        return _duration(updated - row.last).rjust(width)
    if (column in ("factor", "floor") and number <= 0) or (column == "ceiling" and number <= -1):
        return ""
    return _number(width, 0 if column in ("used", "requested") else 2, number)


def _heading(column: str, *, second: bool) -> str:
    width, above, below = _COLUMNS[column]
    text = below if second else above
    return " " * ((width - len(text)) // 2) + text


def _number(width: int, decimals: int, value: float) -> str:
    text = f"{value:{width}.{decimals}f}"
    return text if len(text) <= width else f"{value:.{max(0, width - 6)}g}".rjust(width)


def _date(moment: int) -> str:
    if moment <= 0:
        return ""
    at = time.localtime(moment)
    return f"{at.tm_mon:2d}/{at.tm_mday:02d}/{at.tm_year:<4d} {at.tm_hour:02d}:{at.tm_min:02d}"


def _duration(seconds: int) -> str:
    if seconds <= 0:
        return "<now>"
    minutes = seconds // 60
    return f"{minutes // 1440:3d}+{minutes // 60 % 24:02d}:{minutes % 60:02d}"
