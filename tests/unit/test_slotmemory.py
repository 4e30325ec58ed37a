"""The agent's memory of slots: equal texts, and the limits."""

import pytest

from fetchwork.errors import ClassAdError
from fetchwork.matching.clocks import is_clock, without_clocks
from fetchwork.matching.demand import Waiting
from fetchwork.matching.slotmemory import RememberedSlot, SlotMemory


def text(name: str = "slot1@ep", /, **more: object) -> bytes:
    lines = {
        "Activity": '"Idle"',
        "Cpus": 4,
        "LoadAvg": 0.5,
        "Memory": 4096,
        "Name": f'"{name}"',
        "State": '"Unclaimed"',
        **more,
    }
    return "".join(f"{key} = {value}\n" for key, value in sorted(lines.items())).encode()


def known(memory: SlotMemory, ad: bytes) -> RememberedSlot:
    _, slot = memory.read(ad)
    assert slot is not None
    return slot


@pytest.mark.parametrize("value", [0, -1, 17, 0.25, "1.0E-02", "6.5e+3"])
def test_number_of_a_clock_does_not_count(value: object) -> None:
    assert without_clocks(text(LoadAvg=value)) == without_clocks(text())


@pytest.mark.parametrize("value", ['"0.5"', "0.5 + 0", "Cpus", "undefined", "error", "e5", "0.5 ", "true"])
def test_clock_that_is_no_number_counts(value: str) -> None:
    assert without_clocks(text(LoadAvg=value)) != without_clocks(text())


def test_name_of_a_clock_counts() -> None:
    assert without_clocks(text(MyCurrentTime=1)) != without_clocks(text())
    assert without_clocks(text(MyCurrentTime=1)) == without_clocks(text(MyCurrentTime=2))


def test_what_only_begins_or_ends_like_a_clock_counts() -> None:
    for name in ("LoadAvgOfMine", "MyLoadAvg", "Target.LoadAvg", "XMyCurrentTime"):
        assert without_clocks(text(**{name: 1})) != without_clocks(text(**{name: 2}))
        assert not is_clock(name)


def test_clock_is_one_however_it_is_spelled() -> None:
    # as expressions name them, whose case is ignored
    assert is_clock("loadavg") and is_clock("LOADAVG") and is_clock("recentjobstarts")


def test_each_slot_is_its_own() -> None:
    memory = SlotMemory()
    memory.learn(known(memory, text("slot1@ep")), {1: 2.0}, {2})
    assert known(memory, text("slot1@ep", LoadAvg=7)).weights == {1: 2.0}
    assert known(memory, text("slot2@ep")).verdicts == 0


def test_what_is_unknown_of_one_is_unknown_of_all() -> None:
    slot = known(SlotMemory(), text())
    slot.weights, slot.misfits = {1: 2.0, 3: 1.0}, {2}
    assert slot.weigh([3, 2, 1], limit=8) == [(0, 1.0), (2, 2.0)]
    assert slot.weigh([3, 2, 1], limit=1) == [(0, 1.0)]
    assert slot.weigh([3, 4], limit=8) is None


def test_misfits_that_are_learned_later_are_left_out_of_the_same_list() -> None:
    memory = SlotMemory()
    slot = known(memory, text())
    waiting = [Waiting(number, 0) for number in (1, 2, 3)]
    assert slot.may_fit(waiting) == waiting
    memory.learn(slot, {}, {2})
    assert [one.autocluster_id for one in slot.may_fit(waiting)] == [1, 3]
    memory.learn(slot, {}, {3})
    assert [one.autocluster_id for one in slot.may_fit(waiting)] == [1]
    assert [one.autocluster_id for one in slot.may_fit([*waiting, Waiting(4, 0)])] == [1, 4]


def test_least_recently_seen_slot_is_forgotten_first() -> None:
    memory = SlotMemory(slots=2)
    for name in ("a@ep", "b@ep", "a@ep", "c@ep"):
        memory.learn(known(memory, text(name)), {1: 1.0}, ())
    assert [known(memory, text(name)).verdicts for name in ("a@ep", "c@ep", "b@ep")] == [1, 1, 0]


def test_verdicts_are_bounded_whatever_is_learned_and_by_whom() -> None:
    memory = SlotMemory(verdicts=100)
    for number in range(50):
        slot = known(memory, text(f"slot{number}@ep"))
        memory.learn(slot, {}, range(30))
        memory.learn(slot, {}, range(30))
    assert len(memory) == 3
    gone = slot
    memory.learn(slot, {}, range(101))
    assert len(memory) == 0
    # of a forgotten slot no verdict is kept or counted
    memory.learn(gone, {}, range(1000, 1101))
    memory.learn(known(memory, text()), {}, range(100))
    assert len(memory) == 1


def test_fetch_that_waits_knows_nothing_of_a_database_that_was_left() -> None:
    memory = SlotMemory()
    slot = known(memory, text())
    waiting = [Waiting(number, 0) for number in (1, 2)]
    memory.learn(slot, {1: 1.0}, {2})
    assert len(slot.may_fit(waiting)) == 1
    memory.forget()
    assert slot.weigh([1], limit=8) is None
    assert slot.may_fit(waiting) == waiting
    memory.learn(slot, {1: 1.0}, {2})
    assert slot.verdicts == 0
    assert known(memory, text()).verdicts == 0


def test_slot_whose_resources_are_computed_is_not_remembered() -> None:
    memory = SlotMemory()
    for load in (1, 2):
        facts, slot = memory.read(text(Memory="1000 * LoadAvg", LoadAvg=load))
        assert slot is None
        assert facts.resources["memory_mib"] == 1000 * load
    assert len(memory) == 0


def test_ad_that_cannot_be_read_is_not_remembered() -> None:
    memory = SlotMemory()
    for wrong in (b"Cpus = 4\n", b"Cpus = (((\n" + text()):
        for _ in range(2):
            with pytest.raises(ClassAdError):
                memory.read(wrong)
    assert len(memory) == 0
