"""The order in which a slot is offered the waiting kinds of jobs, and the attributes that an offer uses."""

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest

from fetchwork.classad.jsonform import from_json
from fetchwork.classad.values import ClassAd
from fetchwork.db.calls.matching import AutoclusterAd, Candidate, SubmitterShare
from fetchwork.matching.autoclusters import Autoclusters
from fetchwork.matching.choose import MAX_ORDERED, CandidateRow, Orders, order
from fetchwork.matching.demand import Waiting
from fetchwork.matching.fit import JobRequest, SlotView
from fetchwork.matching.positions import MAX_MOVES, Positions
from fetchwork.matching.rotation import Rotation
from fetchwork.matching.shares import Shares, SlotWeights
from tests.matchmaker.choosing import choose


def slot_of(**attributes: Any) -> ClassAd:
    return from_json(
        {"Name": "slot1@ep", "State": "Unclaimed", "Cpus": 4, "Memory": 4096, "Disk": 10**6, **attributes}
    )


class Queue:
    """The waiting jobs, as the database lists them."""

    def __init__(self) -> None:
        self.autoclusters, self.positions, self.shares = Autoclusters(), Positions(), Shares()
        self.rows: list[CandidateRow] = []
        self._numbers = itertools.count(1)

    def wait(
        self, submitter: str = "alice", *, prio: int = 0, queue: str = "default", place: int = 0, **ad: Any
    ) -> int:
        """Let jobs wait; return the number of their autocluster."""
        number = next(self._numbers)
        self.autoclusters.add(
            [AutoclusterAd(number, submitter, submitter, queue, {"Owner": submitter, **ad})]
        )
        self.rows.append(Candidate(number, prio, submitter, False))
        if place:
            self.positions.took(number, prio, place)
        return number

    def use(self, **slots_and_prio: Any) -> None:
        """Set the slots of each submitter, the real priority, and the factor (1000 by default)."""
        rows = []
        for name, (running, prio, *factors) in slots_and_prio.items():
            factor = factors[0] if factors else 1000.0
            rows.append(SubmitterShare(name, factor, 0.0, prio, prio * factor, running))
        self.shares.update(rows, 0.0)

    def order(self, slot: ClassAd | None = None, queues: Sequence[str] = ("default",)) -> list[int]:
        choices = choose(
            self.rows,
            slot if slot is not None else slot_of(),
            autoclusters=self.autoclusters,
            positions=self.positions,
            shares=self.shares,
            queues=queues,
        )
        return [choice.autocluster.autocluster_id for choice in choices]


@pytest.fixture
def queue() -> Queue:
    return Queue()


# -- order


def test_who_has_least_of_his_share_comes_first(queue: Queue) -> None:
    alice, bob = queue.wait("alice"), queue.wait("bob")
    queue.use(alice=(3, 2.0), bob=(1, 4.0))
    # 3 + 2 beside 1 + 4: equal, so the name decides; with one slot more it is bob's turn
    assert queue.order() == [alice, bob]
    queue.shares.claimed("alice")
    assert queue.order() == [bob, alice]


def test_running_jobs_stand_in_the_inverse_ratio_of_factors(queue: Queue) -> None:
    queue.wait("alice"), queue.wait("bob"), queue.wait("carol")
    queue.use(alice=(0, 40.0, 1.0), bob=(0, 20.0, 2.0), carol=(0, 10.0, 4.0))
    had = {1: 0, 2: 0, 3: 0}
    for _ in range(70):
        first = queue.order()[0]
        had[first] += 1
        queue.shares.claimed({1: "alice", 2: "bob", 3: "carol"}[first])
    assert had == {1: 40, 2: 20, 3: 10}


def test_priority_orders_the_jobs_of_one_submitter_only(queue: Queue) -> None:
    low, high = queue.wait("alice", prio=0), queue.wait("alice", prio=10)
    bob = queue.wait("bob", prio=-5)
    queue.use(alice=(5, 500.0), bob=(0, 500.0))
    assert queue.order() == [bob, high, low]


def test_then_the_older_job_comes_first(queue: Queue) -> None:
    later, earlier = queue.wait(place=900), queue.wait(place=30)
    assert queue.order() == [earlier, later]


def test_queues_come_in_the_order_of_the_host_file(queue: Queue) -> None:
    night, day = queue.wait(queue="night"), queue.wait(queue="day", prio=-1)
    assert queue.order(queues=("day", "night")) == [day, night]
    assert queue.order(queues=("night", "day")) == [night, day]


def test_rank_of_the_slot_comes_before_everything_else(queue: Queue) -> None:
    own = queue.wait("bob", prio=-9, queue="night", Project="ice")
    other = queue.wait("alice", prio=9, queue="day", Project="fire")
    queue.use(alice=(0, 1.0), bob=(100, 1000.0))
    slot = slot_of(Rank='/Expr(10 * (TARGET.Project == "ice"))/')
    assert queue.order(slot, queues=("day", "night")) == [own, other]


def test_rank_that_is_undefined_or_no_number_is_zero(queue: Queue) -> None:
    first, second = queue.wait(Project="ice", prio=5), queue.wait(Colour="red")
    assert queue.order(slot_of(Rank="/Expr(TARGET.Colour)/")) == [first, second]
    assert queue.order(slot_of(Rank='/Expr(TARGET.Colour =?= "red")/')) == [second, first]


def test_order_is_the_same_each_time(queue: Queue) -> None:
    numbers = [queue.wait(name, prio=prio) for name in ("b", "a", "c") for prio in (0, 1)]
    assert queue.order() == queue.order() == [numbers[at] for at in (3, 2, 1, 0, 5, 4)]


def test_ad_that_can_not_be_read_is_offered_so_that_its_job_gets_held(queue: Queue) -> None:
    number = queue.wait(Requirements="/Expr(1 +)/")
    assert queue.order() == [number]


# -- fit


def request_of(**ad: Any) -> JobRequest:
    return JobRequest.of(from_json(ad))


def test_shortage_names_the_resource() -> None:
    offer = SlotView(slot_of(Fpgas=1))
    assert offer.shortage(request_of(RequestCpus=4, RequestMemory=4097)) == "memory"
    assert offer.shortage(request_of(RequestFpgas=2)) == "fpgas"
    assert offer.shortage(request_of(RequestMemory="/Expr(TARGET.Memory * 2)/")) == "memory"
    assert offer.shortage(request_of(RequestCpus=4, RequestMemory=4096, RequestFpgas=1)) is None


def test_resource_that_the_slot_does_not_have_is_short_unless_the_job_speaks_of_it() -> None:
    offer = SlotView(slot_of())
    assert offer.shortage(request_of(RequestTapes=1)) == "tapes"
    assert offer.shortage(request_of(RequestTapes=0)) is None
    assert offer.shortage(request_of(RequestTapes=1, Requirements="/Expr(TARGET.Tapes =?= 1)/")) is None


def test_start_may_look_at_what_only_the_fetched_ad_has(queue: Queue) -> None:
    number = queue.wait("alice")
    for start, fits in (
        ('TARGET.User == "alice@cs.example.org"', True),
        ('TARGET.User == "bob@cs.example.org"', False),
        ('TARGET.OsUser =?= "alice" && TARGET.JobUniverse == 5', True),
    ):
        slot = slot_of(UidDomain="cs.example.org", Requirements=f"/Expr({start})/")
        assert queue.order(slot) == [number] * fits, start


# -- the order kept from round to round


def test_order_that_is_kept_is_the_one_that_is_made_anew(queue: Queue) -> None:
    chance = random.Random(5)
    for number in range(60):
        queue.wait(f"user{number % 5}", prio=number % 3, place=chance.randrange(100))
    queue.positions = Positions(limit=50)
    orders = Orders()
    waiting = [Waiting(row.autocluster_id, row.job_prio) for row in queue.rows]
    for moves in (0, 1, 3, 0, MAX_MOVES, MAX_MOVES + 1, 7):
        for _ in range(moves):
            one = chance.choice(waiting)
            queue.positions.took(*one.pair, chance.randrange(1000))
        queue.shares.claimed(f"user{chance.randrange(5)}")
        # another slot fits fewer
        for some in (waiting, waiting[::2]):
            kept = orders.groups(some, queue.autoclusters).sorted_by(queue.positions)
            anew = order(
                some,
                autoclusters=queue.autoclusters,
                positions=queue.positions,
                shares=queue.shares,
                queues=["default"],
            )
            assert Rotation(queue.shares, ["default"]).sort(kept) == anew, moves


def test_order_without_what_is_not_cached_yet_is_not_kept(queue: Queue) -> None:
    number = queue.wait("alice")
    waiting = [Waiting(number, 0), Waiting(number + 1, 0)]
    orders = Orders()
    assert len(orders.groups(waiting, queue.autoclusters)) == 1
    assert queue.wait("bob") == number + 1
    assert len(orders.groups(waiting, queue.autoclusters)) == 2


def test_orders_are_forgotten_beyond_their_number(queue: Queue) -> None:
    number = queue.wait("alice")
    orders = Orders()
    first = [Waiting(number, 0)]
    groups = orders.groups(first, queue.autoclusters)
    many = [Waiting(number, prio) for prio in range(MAX_ORDERED - 1)]
    assert len(orders.groups(many, queue.autoclusters)) == len(many)
    assert orders.groups(first, queue.autoclusters) is groups
    orders.groups([Waiting(number, -1)], queue.autoclusters)
    assert orders.groups(first, queue.autoclusters) is groups, "it was used last"


# -- weight


def test_weight_of_a_partitionable_slot_is_that_of_what_each_job_takes() -> None:
    slot = slot_of(SlotType="Partitionable", SlotWeight="/Expr(Cpus + Memory / 1024)/")
    requests = [from_json({"RequestCpus": 2, "RequestMemory": 1024}), from_json({})]
    weights = SlotWeights(slot)
    assert [weights.of(request) for request in (*requests, requests[0])] == [3.0, 8.0, 3.0]


def test_weight_of_a_static_slot_is_its_own() -> None:
    request = from_json({"RequestCpus": 1})
    assert SlotWeights(slot_of(SlotWeight="/Expr(Cpus)/")).of(request) == 4.0
    assert SlotWeights(slot_of()).of(request) == 1.0
