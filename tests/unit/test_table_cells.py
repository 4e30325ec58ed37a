"""Cells of a table: each distinct one is made once, by the attributes that were read for it."""

from collections.abc import Callable

import pytest

from fetchwork.condor.printing.jobtable import JobTable, cells_of
from fetchwork.condor.printing.printedad import PrintedAd


class Asked:
    """A column, and the number of times that it made a cell."""

    def __init__(self, make: Callable[[PrintedAd], object]) -> None:
        self.made = 0
        self._make = make

    def _new(self, ad: PrintedAd) -> object:
        self.made += 1
        return self._make(ad)

    def __call__(self, *ads: dict[str, object]) -> list[object]:
        return cells_of(JobTable.of(map(PrintedAd, ads)), self._new)


def test_what_is_read_is_what_a_cell_is_remembered_by() -> None:
    asked = Asked(lambda ad: (ad.string("Owner"), "Dag" in ad, ad.integer("Prio")))
    alike = [{"Owner": "alice", "ProcId": proc} for proc in range(20)]
    # in other spellings
    others: list[dict[str, object]] = [{"Owner": "alice", "DAG": None}, {"OWNER": "bob", "prio": 3}]
    assert asked(*alike, *others) == [("alice", False, None)] * 20 + [
        ("alice", True, None),
        ("bob", False, 3),
    ]
    assert asked.made < 6


def test_what_is_read_of_some_ads_alone_counts_for_all() -> None:
    asked = Asked(lambda ad: ad.string("Node") if "Dag" in ad else ad.string("Owner"))
    ads: list[dict[str, object]] = [
        {"Owner": owner, "Node": node, **dag}
        for owner in ("alice", "bob")
        for node in ("A", "B")
        for dag in ({}, {"Dag": 1})
    ]
    assert asked(*ads * 3) == [ad["Node"] if "Dag" in ad else ad["Owner"] for ad in ads * 3]
    assert asked.made < 2 * len(ads)


@pytest.mark.parametrize("values", [(1, 1.0, True), (0, 0.0, False, -0.0), ("1", 1), (None, "None")])
def test_equal_values_of_several_types_are_several(values: tuple[object, ...]) -> None:
    asked = Asked(lambda ad: repr(ad.item("X")))
    assert asked(*({"X": value} for value in values * 3)) == [repr(value) for value in values * 3]


def test_an_expression_may_read_any_attribute() -> None:
    asked = Asked(lambda ad: ad.integer("X"))
    ads: list[dict[str, object]] = [{"X": "/Expr(Y + 1)/", "Y": number} for number in (1, 2, 1)]
    assert asked(*ads) == [2, 3, 2]
