"""The comparison of benchmarks of two commits."""

import itertools

import pytest

from tests.benchmarks.compare import compare, figures_of


def test_figures_are_in_the_last_lines() -> None:
    text = "other: 7\nsome text\nq ms: 3.5 (of 100)\nclaims per s: 1,234.5\n"
    assert figures_of(text) == {"q ms": 3.5, "claims per s": 1234.5}
    with pytest.raises(ValueError, match="not 'name: figure'"):
        figures_of("no figure\n")


def test_both_sides_run_in_turn_and_their_medians_are_compared() -> None:
    ran: list[str] = []
    figures = {"old": itertools.cycle([10.0, 12.0, 11.0]), "new": itertools.cycle([22.0, 20.0, 24.0])}

    def run(side: str, name: str) -> str:
        ran.append(side)
        return f"{name} s: {next(figures[side])}"

    (one,) = compare(["cycle"], run, rounds=3, seconds=1e9)
    assert ran == ["old", "new", "new", "old", "old", "new"]
    assert one.line().split() == ["cycle", "s", "11", "22", "2.000", "9.1", "%", "9.1", "%", "3"]


def test_a_round_that_would_end_too_late_is_not_begun() -> None:
    clock = itertools.count(step=10)
    (one,) = compare(
        ["cycle"], lambda side, name: "s: 1", rounds=9, seconds=45, now=lambda: float(next(clock))
    )
    assert len(one.new) == 2
