"""A process's copy of the demand: read data, notifications, and changes that neither must lose."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pytest

from fetchwork.matching.autoclusters import Autocluster
from fetchwork.matching.choose import Choice, Group
from fetchwork.matching.demand import (
    DISTRUST_S,
    IN_VAIN_S,
    LONGEST_CLOSED_S,
    LONGEST_IN_VAIN_S,
    LONGEST_SPREAD_S,
    REREAD_S,
    SHORTEST_RUMOUR_S,
    TAKEN_S,
    WHOLE_S,
    Demand,
)
from fetchwork.matching.rotation import Rotation, Weighed
from fetchwork.matching.shares import Shares
from fetchwork.matching.slotstate import Resources

SLOT = Resources(cpus=4.0, memory_mib=1000.0, disk_kib=None, gpus=0.0)


@dataclass
class Row:
    """An answer of read_demand: autoclusters that wait at priority 0, and ask for these cpus."""

    autoclusters: list[int]
    cpus: list[float | None] = field(default_factory=list)
    whole: bool = True
    agents: int = 1
    black_hole: bool = False
    seen: str = "100"
    resting_slots: list[str] = field(default_factory=list)
    resting_autoclusters: list[int] = field(default_factory=list)
    resting_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.prios = [0] * len(self.autoclusters)
        self.cpus = self.cpus or [1.0] * len(self.autoclusters)
        nothing: list[float | None] = [None] * len(self.autoclusters)
        self.memory_mib = self.disk_kib = self.gpus = nothing


def read(demand: Demand, row: Row, now: float = 0.0) -> None:
    demand.end_reading(demand.begin_reading(now), row, now)


def known(*autoclusters: int, live: bool = True, **row: int) -> Demand:
    """A demand that was read and gets notifications."""
    demand = Demand()
    demand.live = live
    assert demand.since(["default"], 0.0) == "0"
    read(demand, Row(list(autoclusters), **row))  # type: ignore[arg-type]
    return demand


def fitting(demand: Demand, *, now: float = 1.0, fresh: bool = True, slot: str = "slot1@h") -> list[int]:
    return sorted(one.autocluster_id for one in demand.fitting(slot, SLOT, fresh=fresh, now=now))


def came(number: int, jobs: int = 1, queue: str = "default", cpus: float | None = 1) -> str:
    return json.dumps(["+", number, 0, jobs, queue, cpus, None, None, None])


def taken(number: int) -> str:
    return json.dumps(["~", number, 0])


def ended(number: int) -> str:
    return json.dumps(["-", number, 0])


def test_where_notifications_arrive_nothing_is_read_again() -> None:
    demand = known(1)
    assert demand.since(["default"], 1.0) is None
    assert demand.since(["default"], WHOLE_S) == "0"


def test_where_none_arrive_each_look_reads_what_is_new() -> None:
    demand = known(1, live=False)
    assert demand.since(["default"], 1.0) == "100"
    read(demand, Row([2], whole=False, seen="200"), 1.0)
    assert fitting(demand) == [1, 2]
    assert demand.since(["default"], 2.0) == "200"


def test_another_queue_is_read_whole() -> None:
    demand = known(1)
    assert demand.since(["default", "gpu"], 1.0) == "0"
    assert demand.queues == ["default", "gpu"]


def test_black_hole_reads_at_each_look_whether_it_may_try() -> None:
    demand = known(1)
    read(demand, Row([], black_hole=True))
    assert demand.since(["default"], 1.0) == "0"


def test_numbers_rule_out_what_is_too_large() -> None:
    demand = Demand()
    read(demand, Row([1, 2, 3], cpus=[4.0, 5.0, None]))
    assert fitting(demand) == [1, 3]


def test_news_add_and_end_what_waits() -> None:
    demand = known(1)
    assert demand.heard(came(2), 1.0) is not None
    assert fitting(demand) == [1, 2]
    assert demand.heard(ended(1), 1.0) is None
    assert fitting(demand) == [2]


def test_news_of_other_queues_concern_nobody_here() -> None:
    demand = known(1)
    assert demand.heard(came(2, queue="gpu"), 1.0) is None
    assert fitting(demand) == [1]


def test_what_is_heard_while_it_is_read_outlives_the_answer() -> None:
    demand = known(1)
    reading = demand.begin_reading(1.0)
    demand.heard(came(2), 1.1)
    demand.heard(ended(1), 1.2)
    demand.end_reading(reading, Row([1]), 1.3)
    assert fitting(demand, now=2.0) == [2]


def test_what_changed_unnamed_while_it_was_read_is_read_again() -> None:
    """A queue is resumed while an answer without its jobs is on its way."""
    demand = known(1)
    reading = demand.begin_reading(1.0)
    demand.heard("", 1.1)
    demand.end_reading(reading, Row([1]), 1.2)
    assert demand.since(["default"], 1.3) == "0"
    read(demand, Row([1, 2]), 1.4)
    assert demand.since(["default"], 1.5) is None
    assert fitting(demand, now=1.6) == [1, 2]


def test_queue_that_was_asked_for_while_others_were_read_is_read() -> None:
    demand = known(1)
    demand.forget()
    reading = demand.begin_reading(1.0)
    assert demand.since(["gpu"], 1.1) == "0"
    demand.end_reading(reading, Row([1]), 1.2)
    assert demand.since(["gpu"], 1.3) == "0"


def test_rests_that_changed_while_they_were_read_are_read_again() -> None:
    demand = known(1)
    reading = demand.begin_reading(1.0)
    demand.outdate()
    demand.end_reading(reading, Row([1]), 1.2)
    assert demand.since(["default"], 1.3) == "100"


def test_reading_that_failed_leaves_what_there_was() -> None:
    demand = known(1)
    reading = demand.begin_reading(1.0)
    demand.heard(came(2), 1.1)
    demand.end_reading(reading, None, 1.3)
    assert fitting(demand) == [1, 2]


def test_what_was_taken_waits_until_the_sweep_or_until_news() -> None:
    demand = known(1)
    demand.heard(taken(1), 1.0)
    assert fitting(demand, fresh=False) == []
    assert fitting(demand, fresh=False, now=1.1 + TAKEN_S) == [1]
    demand.heard(taken(1), 20.0)
    demand.heard(came(1), 20.1)
    assert fitting(demand, fresh=False, now=20.2) == [1]


def test_slots_look_again_for_what_was_heard_only_while_something_is_left() -> None:
    demand = known(1)
    assert demand.may_have_more(1.0)
    demand.heard(taken(1), 1.0)
    assert not demand.may_have_more(1.0)
    demand.heard(came(2), 1.0)
    assert demand.may_have_more(1.0)
    demand.heard(ended(2), 1.0)
    assert not demand.may_have_more(1.0)
    assert demand.may_have_more(1.0 + TAKEN_S)
    # any caller reads unknown autoclusters
    demand.live = False
    assert demand.may_have_more(1.0)


def test_storm_of_forged_news_does_not_hide_a_job_for_ever() -> None:
    demand = known(1)
    looks = 0
    for tenth in range(1000):
        now = tenth / 10
        demand.heard(came(1), now)
        demand.heard(taken(1), now)
        if fitting(demand, fresh=False, now=now):
            looks += 1
            demand.got((1, 0))
    assert looks == 100 / SHORTEST_RUMOUR_S - 1 or looks == 100 / SHORTEST_RUMOUR_S


def test_slot_that_becomes_free_looks_whatever_was_heard() -> None:
    demand = known(1)
    demand.heard(taken(1), 1.0)
    assert fitting(demand, fresh=True) == [1]


def test_slot_that_has_not_looked_tries_what_others_found_nothing_of() -> None:
    demand = known(1)
    demand.in_vain((1, 0), 1.0)
    assert fitting(demand, fresh=False) == []
    assert fitting(demand, fresh=True) == [1]
    assert fitting(demand, fresh=False, now=1.1 + 1.3 * IN_VAIN_S) == [1]


def test_what_yields_nothing_again_rests_for_longer_up_to_a_bound() -> None:
    demand = known(1)
    now = 0.0
    for _ in range(6):
        demand.in_vain((1, 0), now)
        assert fitting(demand, fresh=False, now=now + IN_VAIN_S - 0.1) == []
        now += 1.4 * LONGEST_IN_VAIN_S
        assert fitting(demand, fresh=False, now=now) == [1]
    demand.in_vain((1, 0), now)
    demand.got((1, 0))
    assert fitting(demand, fresh=False, now=now) == [1]


def test_pair_that_a_limit_on_starts_closes_is_tried_when_it_opens_and_not_before() -> None:
    demand = known(1, 2)
    demand.in_vain((1, 0), 0.0)
    demand.close({(1, 0): 3.0}, 0.0)
    opens_s = demand.opens_s(SLOT, 0.0)
    assert opens_s is not None
    # agents come one after the other
    assert 3.0 <= opens_s <= 3.0 + LONGEST_SPREAD_S
    # a new job does not open it, and neither does a slot that has just become free
    demand.heard(came(1), 1.0)
    assert fitting(demand, fresh=True, now=2.9) == [2]
    demand.in_vain((2, 0), 2.0)
    assert not demand.may_have_more(2.9)
    # no other backoff of it lasts longer
    assert fitting(demand, fresh=False, now=opens_s) == [1]
    assert demand.may_have_more(opens_s)
    assert demand.opens_s(SLOT, opens_s) is None


def test_closed_pair_that_does_not_fit_wakes_no_slot() -> None:
    demand = Demand()
    demand.live = True
    demand.since(["default"], 0.0)
    read(demand, Row([1, 2], cpus=[8.0, 1.0]))
    demand.close({(1, 0): 3.0}, 0.0)
    assert demand.opens_s(SLOT, 0.0) is None


def test_change_of_limits_and_silence_open_what_a_limit_closed() -> None:
    demand = known(1)
    demand.close({(1, 0): 86400.0}, 0.0)
    assert fitting(demand, now=LONGEST_CLOSED_S - 1) == []
    assert fitting(demand, now=LONGEST_CLOSED_S + LONGEST_SPREAD_S) == [1]
    demand.close({(1, 0): 60.0}, 0.0)
    demand.heard("", 1.0)
    assert fitting(demand) == [1]
    demand.close({(1, 0): 60.0}, 0.0)
    demand.live = False
    assert fitting(demand) == [1]


def test_forged_end_hides_a_job_once_and_is_not_believed_again() -> None:
    demand = known(1)
    demand.heard(ended(1), 1.0)
    assert fitting(demand) == []
    # the next read finds it
    read(demand, Row([1]), 60.0)
    demand.heard(ended(1), 61.0)
    assert fitting(demand, now=62.0) == [1]
    read(demand, Row([1]), 61.0 + DISTRUST_S)
    demand.heard(ended(1), 62.0 + DISTRUST_S)
    assert fitting(demand, now=63.0 + DISTRUST_S) == []


def test_end_whose_beginning_is_on_its_way_is_no_forgery() -> None:
    demand = known(1)
    demand.heard(ended(1), 1.0)
    read(demand, Row([1]), 1.2)
    demand.heard(ended(1), 2.0)
    assert fitting(demand, now=3.0) == []


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "x",
        "[" * 499,
        "{}",
        "[]",
        '["+", 1, 0]',
        '["-", "1", 0]',
        '["-", true, 0]',
        '["-", 1e99, 0]',
        '["-", 99999999999, 0]',
        '["+", 1, 0, 1, "default", "4", null, null, null]',
        '["+", 1, 0, 1, 5, 4, null, null, null]',
        '["+", 1, 0, 1, "default", 4, null, null, null, null]',
        f'["+", 1, 0, 1, "{"q" * 600}", 4, null, null, null]',
    ],
)
def test_what_says_nothing_known_has_all_read_again_but_not_often(payload: str) -> None:
    demand = known(1)
    seconds = demand.heard(payload, 0.5)
    assert seconds is not None and seconds >= REREAD_S - 0.5
    assert demand.since(["default"], 1.0) == "0"
    assert fitting(demand) == [1]


def test_numbers_that_were_read_are_not_changed_by_news() -> None:
    demand = known(1)
    demand.heard(came(1, cpus=1000), 1.0)
    assert fitting(demand) == [1]


def test_more_jobs_bring_agents_sooner_and_more_agents_later() -> None:
    def longest(agents: int, jobs: int) -> float:
        demand = known(1, agents=agents)
        seconds = [demand.heard(came(1, jobs), 1.0) for _ in range(300)]
        return max(one for one in seconds if one is not None)

    assert longest(1, 1) <= 0.004
    assert 0.5 < longest(1000, 1) <= LONGEST_SPREAD_S
    assert longest(1000, 1000) <= 0.004


def test_rests_of_a_slot_are_its_own_and_end() -> None:
    demand = Demand()
    read(demand, Row([1], resting_slots=["slot1@h"], resting_autoclusters=[1], resting_s=[10.0]))
    assert fitting(demand) == []
    assert fitting(demand, slot="slot2@h") == [1]
    assert fitting(demand, now=10.1) == [1]


def test_autocluster_that_does_not_exist_is_dropped() -> None:
    demand = known(1)
    demand.heard(came(99), 1.0)
    demand.drop([99])
    assert fitting(demand) == [1]


def choices(*submitters: str) -> list[Choice]:
    return [
        Choice(Autocluster(number, name, name, "default", "{}"), 0) for number, name in enumerate(submitters)
    ]


def groups(*submitters: str) -> Mapping[Group, list[Choice]]:
    found: dict[Group, list[Choice]] = {}
    for choice in choices(*submitters):
        found.setdefault(("default", choice.autocluster.submitter), []).append(choice)
    return found


def first_of(orders: Iterable[list[Choice]]) -> list[str]:
    return [order[0].autocluster.submitter for order in orders]


def test_slots_that_are_dealt_together_go_round_the_submitters() -> None:
    rotation = Rotation(Shares(), ["default"])
    orders = [rotation.sort(groups("alice", "alice", "bob")) for _ in range(6)]
    assert sorted(first_of(orders)) == ["alice"] * 3 + ["bob"] * 3


def test_share_that_one_has_had_counts_before_the_slots_are_dealt() -> None:
    shares = Shares()
    shares.claimed("alice", 4)
    rotation = Rotation(shares, ["default"])
    orders = [rotation.sort(groups("alice", "bob")) for _ in range(6)]
    assert first_of(orders) == ["bob"] * 4 + ["alice", "bob"]


def test_slot_gets_of_its_queues_in_their_order_and_of_no_other() -> None:
    alice, bob, carol = choices("alice", "bob", "carol")
    all_groups = {("other", "alice"): [alice], ("second", "bob"): [bob], ("first", "carol"): [carol]}
    assert Rotation(Shares(), ["first", "second"]).sort(all_groups) == [carol, bob]


def test_turn_counts_for_who_had_something_that_the_slot_may_get() -> None:
    rotation = Rotation(Shares(), ["default"])
    for _ in range(3):
        order = rotation.sort(groups("alice", "bob"), lambda one: one.autocluster.submitter == "bob")
        assert first_of([order]) == ["bob"]
    # alice has had nothing: by her name she comes first until she has had one more
    assert first_of(rotation.sort(groups("alice", "bob")) for _ in range(5)) == ["alice"] * 4 + ["bob"]


def test_rank_of_a_slot_goes_before_all_shares() -> None:
    rotation = Rotation(Shares(), ["default"])
    alice, bob = choices("alice", "bob")
    for _ in range(3):
        order = rotation.deal([Weighed(alice), Weighed(bob)], ranked=True)
        assert order[0].choice is alice


def test_what_was_matched_is_dealt_again_by_what_was_dealt_before() -> None:
    rotation = Rotation(Shares(), ["default"])
    matched = [Weighed(choice) for choice in choices("alice", "alice", "bob")]
    orders = [[one.choice for one in rotation.deal(matched, ranked=False)] for _ in range(4)]
    assert sorted(first_of(orders)) == ["alice"] * 2 + ["bob"] * 2
