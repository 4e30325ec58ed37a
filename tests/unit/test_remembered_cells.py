"""Cells of a table that are cached by their attributes."""

from collections.abc import Callable

import pytest

from fetchwork.condor import rememberedcells
from fetchwork.condor.printedad import PrintedAd
from fetchwork.condor.rememberedcells import RememberedCells


class Asked:
    """A column, and the number of times that it made a cell."""

    def __init__(self, make: Callable[[PrintedAd], object]) -> None:
        self.made = 0
        self._make = make
        self._cells = RememberedCells(self._new)

    def _new(self, ad: PrintedAd) -> object:
        self.made += 1
        return self._make(ad)

    def __call__(self, **json: object) -> object:
        return self._cells.cell(PrintedAd(json), tuple(json))


def test_what_is_read_is_what_a_cell_is_remembered_by() -> None:
    asked = Asked(lambda ad: (ad.string("Owner"), "Dag" in ad, ad.integer("Prio")))
    for proc in range(20):
        assert asked(Owner="alice", ProcId=proc) == ("alice", False, None)
    assert asked.made == 2
    assert asked(Owner="alice", Dag=None) == ("alice", True, None)
    # in another spelling
    assert asked(Owner="alice", DAG=None) == ("alice", True, None)
    assert asked(OWNER="bob", prio=3) == ("bob", False, 3)


def test_what_is_read_of_some_ads_alone_counts_for_all() -> None:
    asked = Asked(lambda ad: ad.string("Node") if "Dag" in ad else ad.string("Owner"))
    ads: list[dict[str, object]] = [
        {"Owner": owner, "Node": node, **dag}
        for owner in ("alice", "bob")
        for node in ("A", "B")
        for dag in ({}, {"Dag": 1})
    ]
    for ad in ads * 3:
        assert asked(**ad) == (ad["Node"] if "Dag" in ad else ad["Owner"])
    assert asked.made < 2 * len(ads)


@pytest.mark.parametrize("values", [(1, 1.0, True), (0, 0.0, False, -0.0), ("1", 1), (None, "None")])
def test_equal_values_of_several_types_are_several(values: tuple[object, ...]) -> None:
    asked = Asked(lambda ad: repr(ad.item("X")))
    for value in values * 3:
        assert asked(X=value) == repr(value)


def test_an_expression_and_what_is_always_different_are_not_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Asked(lambda ad: ad.integer("X"))
    assert [asked(X="/Expr(Y + 1)/", Y=number) for number in (1, 2, 1)] == [2, 3, 2]
    lists = Asked(lambda ad: ad.item("X"))
    assert [lists(X=[number]) for number in (1, 2, 1)] == [[1], [2], [1]]
    monkeypatch.setattr(rememberedcells, "MOST", 3)
    different = Asked(lambda ad: ad.integer("X"))
    assert [different(X=number) for number in range(10)] == list(range(10))
    assert different._cells._cells == {}
    shapes = Asked(lambda ad: ad.string("Owner"))
    assert [shapes(**{f"A{number}": 1}, Owner="a") for number in range(10)] == ["a"] * 10
    assert shapes._cells._keys == {}
