"""The dues of accounting groups, and the order in which their submitters get slots."""

import math
import time
from collections import Counter
from dataclasses import dataclass

import pytest

from fetchwork.db.calls.matching import SubmitterShare
from fetchwork.matching.groups import NONE, GroupDues, allocations, dues
from fetchwork.matching.shares import Shares


@dataclass
class Group:
    name: str
    #: of the whole group
    quota: float
    requested: float
    accept_surplus: bool = True
    autoregroup: bool = False
    in_use: float = 0.0
    subtree_in_use: float = 0.0
    free: float = 0.0
    own_free: float = 0.0
    own_slots: float = 0.0
    age_s: float = 0.0
    pool: float = 0.0

    @property
    def parent(self) -> str | None:
        return None if self.name == NONE else self.name.rpartition(".")[0] or NONE

    @property
    def subtree_quota(self) -> float:
        return self.pool or self.quota


def root(left: float, requested: float = 0.0, in_use: float = 0.0) -> Group:
    """The submitters without a group; so much of the pool is left by the groups."""
    return Group(NONE, left, requested, in_use=in_use)


@pytest.mark.parametrize(
    ("groups", "allocated"),
    [
        # each asks for less than its quota
        ([root(5), Group("a", 10, 4), Group("b", 20, 20)], {NONE: 0, "a": 4, "b": 20}),
        # a gets the rest of b's quota and of the pool
        ([root(10), Group("a", 30, 100), Group("b", 60, 20)], {NONE: 0, "a": 80, "b": 20}),
        # surplus in the ratio of the quotas
        ([root(30), Group("a", 10, 99), Group("b", 20, 99)], {NONE: 0, "a": 20, "b": 40}),
        # one takes none, and one wants little
        (
            [root(30), Group("a", 10, 99), Group("b", 20, 99, accept_surplus=False), Group("c", 10, 15)],
            {NONE: 0, "a": 35, "b": 20, "c": 15},
        ),
        # without a quota: only what those with quotas leave, in equal parts
        (
            [root(12), Group("a", 10, 12), Group("x", 0, 99), Group("y", 0, 99)],
            {NONE: 0, "a": 12, "x": 5, "y": 5},
        ),
        # first within the subtree: physics has 6 of its own and the 4 that atlas leaves
        (
            [
                root(0),
                Group("physics", 10, 20),
                Group("physics.atlas", 10, 6),
                Group("bio", 10, 50),
            ],
            {NONE: 0, "physics": 14, "physics.atlas": 6, "bio": 10},
        ),
        ([root(10, 99), Group("a", 0, 0)], {NONE: 10, "a": 0}),
    ],
)
def test_slots_are_allocated_as_the_negotiator_does(groups: list[Group], allocated: dict[str, float]) -> None:
    assert allocations(groups) == pytest.approx(allocated)


@pytest.mark.parametrize(
    ("groups", "allocated"),
    [
        (
            [
                root(21.736, 200),
                Group("g0", 16, 0, accept_surplus=False),
                Group("g0.g1", 1.664, 0, accept_surplus=False),
                Group("g0.g4", 1.728, 0),
                Group("g2", 31, 0),
                Group("g2.g7", 15, 112),
                Group("g2.g8", 4.704, 40, accept_surplus=False),
                Group("g3", 27, 0, accept_surplus=False),
                Group("g5", 4.264, 33),
            ],
            {NONE: 39.4268, "g2.g7": 71.2307, "g2.g8": 4.704, "g5": 7.73445},
        ),
        # with more quota than the pool has, and groups that have users beside groups below them
        (
            [
                root(0, 17),
                Group("g0", 0, 7),
                Group("g0.g1", 0, 1),
                Group("g0.g1.g2", 0, 101, accept_surplus=False),
                Group("g3", 43, 100),
                Group("g3.g5", 21, 100),
                Group("g4", 46, 100, accept_surplus=False),
                Group("g6", 47, 0, accept_surplus=False),
                Group("g6.g8", 12, 100),
                Group("g6.g9", 4.55, 0),
                Group("g6.g9.g10", 1.365, 139),
            ],
            {"g3": 43, "g3.g5": 21, "g4": 46, "g6.g8": 46.0785, "g6.g9.g10": 18.8365},
        ),
        (
            [
                root(0, 105),
                Group("g0", 53.6673, 0, accept_surplus=False),
                Group("g0.g2", 0, 7),
                Group("g0.g3", 0, 100),
                Group("g1", 46.3327, 53, accept_surplus=False),
            ],
            {"g0.g2": 7, "g0.g3": 46.6673, "g1": 46.3327},
        ),
    ],
)
def test_a_real_negotiator_allocated_this(groups: list[Group], allocated: dict[str, float]) -> None:
    """From NegotiatorLog, observed on 23.9.6 (tests/benchmarks/group_trees.py has a pool that tells it)."""
    ours = allocations(groups)
    assert {name: slots for name, slots in ours.items() if slots} == pytest.approx(allocated, rel=1e-5)


def test_no_slot_is_due_beyond_a_quota_above() -> None:
    groups = [
        root(50),
        Group("a", 10, 0, accept_surplus=False, in_use=2, subtree_in_use=9),
        Group("a.b", 10, 50, in_use=7, subtree_in_use=7),
    ]
    assert dues(groups)["a.b"] == 8


def test_slots_are_dealt_until_each_group_has_its_due() -> None:
    groups = [root(8, 99), Group("a", 4, 99, accept_surplus=False), Group("b", 8, 3), Group("c", 4, 99)]
    counted = GroupDues(groups)
    got: Counter[str] = Counter()
    for _ in range(24):
        first = min(
            (counted.turn(group.name), group.name) for group in groups if got[group.name] < group.requested
        )
        got[first[1]] += 1
        counted.claimed(first[1], 1.0)
    # 5 of b are left: 8 : 4 for those who take surplus
    assert got == {NONE: 11, "a": 4, "b": 3, "c": 6}


def test_hosts_with_the_same_counts_give_no_group_more_than_its_due() -> None:
    """Four hosts fill their 25 slots each at one moment: none of them knows the others' claims."""
    groups = [root(0, 200), Group("a", 16, 200), Group("b", 24, 200), Group("c", 60, 10)]
    groups[0].pool = 100.0
    for group in groups:
        group.free, group.own_free, group.own_slots = 100.0, 25.0, 25.0
    got: Counter[str] = Counter()
    for host in range(1, 5):
        counted = GroupDues(groups, host)
        for _ in range(25):
            first = min(
                (counted.turn(group.name), group.name)
                for group in groups
                if group.name != "c" or got["c"] < 10
            )[1]
            counted.claimed(first, 1.0)
            got[first] += 1
    due = dues(groups)
    assert got["c"] == 10 and due["a"] == pytest.approx(36) and due["b"] == pytest.approx(54)
    assert abs(got["a"] - 36) <= 3 and abs(got["b"] - 54) <= 3


def test_many_hosts_that_fill_their_slots_at_one_moment_begin_with_different_groups() -> None:
    """32 hosts with four slots each: a due is less than what two hosts could claim for a group."""
    groups = [
        root(28, 400),
        Group("wide", 30, 400),
        Group("narrow", 10, 400),
        Group("unused", 24, 0),
        Group("other", 36, 400),
    ]
    groups[0].pool = 128.0
    for group in groups:
        group.free, group.own_free, group.own_slots = 128.0, 4.0, 4.0
    got: Counter[str] = Counter()
    for host in range(1, 33):
        counted, dealt = GroupDues(groups, host), Counter[str]()
        for _ in range(4):
            dealt[_first(counted, dealt, "wide", "narrow", "other", NONE)] += 1
        got += dealt
    due = dues(groups)
    assert all(abs(got[name] - due[name]) <= 4 for name in got), (got, due)


def _first(counted: GroupDues, dealt: Counter[str], *groups: str) -> str:
    return min((counted.turn(group, dealt[group]), group) for group in groups)[1]


def full(**in_use: int) -> list[Group]:
    """A pool of 100 slots, all in use; a has a quota of 60, b of 30; the host has 25 of the slots."""
    groups = [
        root(10, 99),
        Group("a", 60, 99, accept_surplus=False),
        Group("b", 30, 99, accept_surplus=False),
    ]
    for group in groups:
        group.in_use, group.own_slots = in_use.get(group.name, 100 - sum(in_use.values())), 25.0
    groups[0].pool = 100.0
    return groups


def test_a_host_gives_the_slots_that_it_frees_to_the_groups_that_had_them() -> None:
    for host in range(1, 9):
        counted = GroupDues(full(a=60, b=30), host)
        for group in ("a", "b", "b", NONE, "a", NONE):
            counted.freed(group, 1.0)
        dealt: Counter[str] = Counter()
        for _ in range(6):
            dealt[_first(counted, dealt, "a", "b", NONE)] += 1
        assert dealt == {"a": 2, "b": 2, NONE: 2}


def test_a_freed_slot_of_a_group_beyond_its_due_goes_to_one_below() -> None:
    for host in range(1, 9):
        counted = GroupDues(full(a=59, b=30), host)
        counted.freed(NONE, 1.0)
        assert _first(counted, Counter(), "a", "b", NONE) == "a"
        # the next one does not
        counted.claimed("a", 1.0)
        counted.freed("b", 1.0)
        assert _first(counted, Counter(), "a", "b", NONE) == "b"


def test_hosts_that_free_many_slots_at_once_do_not_all_fill_the_same_gap() -> None:
    """The slots of all four hosts become free at one moment; a is four slots below its due."""
    got: Counter[str] = Counter()
    for host in range(1, 5):
        counted = GroupDues(full(a=56, b=30), host)
        for group, slots in (("a", 14), ("b", 8 - host % 2), (NONE, 3 + host % 2)):
            for _ in range(slots):
                counted.freed(group, 1.0)
        dealt: Counter[str] = Counter()
        for _ in range(25):
            dealt[_first(counted, dealt, "a", "b", NONE)] += 1
        got += dealt
    # in use were 56, 30 and 14
    assert abs(got["a"] - 60) <= 2 and abs(got["b"] - 30) <= 2


def test_groups_with_a_quota_come_before_those_without_and_these_before_none() -> None:
    counted = GroupDues([root(2, 5), Group("x", 0, 99), Group("y", 9, 0), Group("a", 3, 3, in_use=2)])
    assert sorted((NONE, "x", "a"), key=counted.turn) == ["a", "x", NONE]


def test_a_group_furthest_below_its_due_is_next() -> None:
    counted = GroupDues([root(0), Group("a", 10, 20, in_use=5), Group("b", 40, 50, in_use=10)])
    assert counted.turn("b") < counted.turn("a")
    # five in a hundred more
    assert counted.turn("b", 11) > counted.turn("a")


def test_those_that_compete_for_the_rest_come_before_those_with_more_than_their_due() -> None:
    groups = [root(0, 5), Group("a", 5, 9, in_use=9), Group("b", 5, 9, autoregroup=True, in_use=9)]
    counted = GroupDues(groups)
    assert counted.turn(NONE) == counted.turn("b") < counted.turn("a")
    # "<none>" is one of them with its first slot
    counted = GroupDues([root(8, 99), Group("a", 2, 9, autoregroup=True, in_use=2)])
    assert counted.turn(NONE) == counted.turn("a")
    # without such groups, the others share it in the ratio of what is due to them
    counted = GroupDues([root(3, 9, in_use=6), Group("a", 5, 5, in_use=9)])
    assert counted.turn("a") < counted.turn(NONE)
    assert all(math.isfinite(part) for group in groups for part in counted.turn(group.name))


def test_submitters_of_a_group_are_served_by_their_need() -> None:
    shares = Shares()
    rows = [
        SubmitterShare("a.old", 1000.0, 0.0, 9.0, 9000.0, 0, "a"),
        SubmitterShare("a.new", 1000.0, 0.0, 0.5, 500.0, 0, "a"),
        SubmitterShare("carol", 1000.0, 0.0, 0.5, 500.0, 0),
    ]
    shares.update(rows, 0.0, [root(1, 1), Group("a", 9, 9)])
    assert shares.turn("a.new") < shares.turn("a.old")
    shares.claimed("carol")
    assert shares.turn("carol") > shares.turn("a.old") > shares.turn("a.new")


def test_claims_after_the_count_are_not_forgotten() -> None:
    shares = Shares()
    rows = [SubmitterShare(name, 1.0, 0.0, 1.0, 1.0, 0, name[0]) for name in ("a.x", "b.y")]
    groups = [root(0), Group("a", 10, 99), Group("b", 10, 99)]
    shares.update(rows, time.monotonic(), groups)
    shares.claimed("a.x")
    for group in groups:
        group.age_s = 60.0
    shares.update(rows, time.monotonic(), groups)
    assert shares.turn("a.x") > shares.turn("b.y")
    for group in groups:
        group.age_s = 0.0
    shares.update(rows, time.monotonic() + 1, groups)
    assert shares.turn("a.x") == shares.turn("b.y")


def test_a_freed_slot_is_its_groups_until_it_is_claimed_again() -> None:
    shares = Shares()
    rows = [SubmitterShare(name, 1.0, 0.0, 1.0, 1.0, 0, name[0]) for name in ("a.x", "b.y")]
    groups = [root(0), Group("a", 10, 99, in_use=10), Group("b", 10, 99, in_use=10)]
    now = time.monotonic()
    shares.update(rows, now, groups)
    shares.freed("b.y")
    assert shares.turn("b.y") < shares.turn("a.x")
    # a later count still has it as b's
    shares.update(rows, now + 1, groups)
    assert shares.turn("b.y") < shares.turn("a.x")
    shares.claimed("b.y")
    assert shares.turn("b.y")[0] == shares.turn("a.x")[0] == 4
    # and one after the claim has both
    shares.update(rows, now + 2, groups)
    assert shares.turn("b.y")[0] == shares.turn("a.x")[0] == 4


def test_a_claim_counts_by_its_weight() -> None:
    shares = Shares()
    rows = [SubmitterShare(name, 1.0, 0.0, 1.0, 1.0, 0, name[0]) for name in ("a.x", "b.y")]
    shares.update(rows, 0.0, [root(0), Group("a", 10, 99), Group("b", 10, 99)])
    shares.claimed("a.x", weight=6.0)
    shares.claimed("b.y", weight=2.0)
    assert shares.turn("b.y") < shares.turn("a.x")
    shares.claimed("a.x", -1.0, 6.0)
    assert shares.turn("a.x") < shares.turn("b.y")
