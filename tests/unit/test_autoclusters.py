"""Real slot ads against kinds of jobs, and the memory of kinds: bounded, and not for ever."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fetchwork.classad.ads import parse_old
from fetchwork.classad.cost import check_cost
from fetchwork.classad.jsonform import from_json
from fetchwork.classad.values import ClassAd
from fetchwork.db.calls.matching import AutoclusterAd, Candidate
from fetchwork.errors import ClassAdError
from fetchwork.matching.autoclusters import Autoclusters
from fetchwork.matching.positions import Positions
from fetchwork.matching.shares import Shares
from fetchwork.matching.slotstate import slot_resources
from tests.matchmaker.choosing import choose

ADS = Path(__file__).parent.parent / "data/ads"


def slot_ad(name: str = "25.14.1-fetch_work-static-unclaimed", **more: Any) -> ClassAd:
    ad = parse_old((ADS / f"{name}.ad").read_bytes())
    ad.update(from_json(more))
    return ad


def autoclusters_of(*ads: dict[str, Any]) -> Autoclusters:
    autoclusters = Autoclusters()
    autoclusters.add(
        AutoclusterAd(number, ad.get("Submitter", "alice"), "alice", ad.get("Queue", "default"), ad)
        for number, ad in enumerate(ads, 1)
    )
    return autoclusters


def chosen(
    autoclusters: Autoclusters,
    slot: ClassAd,
    prios: list[tuple[int, int]] | None = None,
    shares: Shares | None = None,
    positions: Positions | None = None,
    queues: Sequence[str] = ("default",),
) -> list[tuple[int, int]]:
    rows = [
        Candidate(number, prio, "alice", False)
        for number, prio in (prios or [(number, 0) for number in range(1, len(autoclusters) + 1)])
    ]
    choices = choose(
        rows,
        slot,
        autoclusters=autoclusters,
        positions=positions or Positions(),
        shares=shares or Shares(),
        queues=queues,
    )
    return [(choice.autocluster.autocluster_id, choice.prio) for choice in choices]


def ids(choices: list[tuple[int, int]]) -> list[int]:
    return [number for number, _ in choices]


def test_job_requirements_that_are_not_true_on_the_slot_rule_it_out() -> None:
    autoclusters = autoclusters_of(
        {"Requirements": '/Expr(TARGET.Arch == "X86_64")/'},
        {"Requirements": '/Expr(TARGET.Arch == "ARM")/'},
        {"Requirements": "/Expr(TARGET.NoSuchThing)/"},
        {},
    )
    assert ids(chosen(autoclusters, slot_ad())) == [1, 4]


def test_slot_that_is_too_small_or_refuses_the_owner_rules_it_out() -> None:
    autoclusters = autoclusters_of({"RequestMemory": 1025}, {"RequestMemory": 1024}, {"Owner": "bob"})
    slot = slot_ad(Start='/Expr(TARGET.Owner =!= "bob")/')
    assert ids(chosen(autoclusters, slot)) == [2]


def test_job_that_names_no_requests_counts_as_one_of_each() -> None:
    # without it the slot's WithinResourceLimits would be undefined
    assert ids(chosen(autoclusters_of({}), slot_ad())) == [1]


def test_custom_resource_is_compared_by_the_slot() -> None:
    slot = slot_ad(
        Requirements="/Expr(TARGET.RequestLicence =?= undefined || MY.Licence >= TARGET.RequestLicence)/"
    )
    slot["Licence"] = 1
    assert ids(chosen(autoclusters_of({"RequestLicence": 2}, {"RequestLicence": 1}), slot)) == [2]


def test_newcomer_is_next() -> None:
    shares = Shares({"old": 500.0, "new": 2000.0}, {"old": 16})
    autoclusters = autoclusters_of({"Submitter": "old"}, {"Submitter": "new"})
    assert ids(chosen(autoclusters, slot_ad(), shares=shares))[0] == 2


def test_candidate_that_is_not_cached_is_passed_over() -> None:
    assert chosen(autoclusters_of({}), slot_ad(), prios=[(99, 0), (1, 0)]) == [(1, 0)]


def test_cache_forgets_what_was_not_used_for_longest() -> None:
    autoclusters = Autoclusters(limit=2)
    autoclusters.add(AutoclusterAd(number, "a", "a", "q", {}) for number in (1, 2, 3))
    autoclusters.used([1])
    autoclusters.trim()
    assert autoclusters.missing([1, 2, 3]) == [2]


def test_positions_are_bounded_and_hints_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("fetchwork.matching.positions.time.monotonic", lambda: now)
    positions = Positions(limit=2)
    for number in (1, 2, 3):
        positions.hint(number, 0)
        positions.took(number, 0, 10)
    assert [positions.hint(number, 0) for number in (1, 2, 3)] == [0, 10, 10]
    now += 60.0
    assert [positions.hint(number, 0) for number in (1, 2, 3)] == [0, 0, 0]
    assert positions.last(3, 0) == 10


def test_hint_is_dropped_when_nothing_was_found_behind_it() -> None:
    positions = Positions()
    positions.hint(1, 0)
    positions.took(1, 0, 10)
    positions.found_nothing(1, 0)
    assert positions.hint(1, 0) == 0


@pytest.mark.parametrize("length", [40, 600])
def test_ad_that_doubles_at_each_step_is_refused(length: int) -> None:
    ad = from_json({f"a{n}": f"/Expr(a{n + 1} + a{n + 1})/" for n in range(length)} | {f"a{length}": 1})
    with pytest.raises(ClassAdError, match="evaluations"):
        check_cost(ad)


def test_ad_with_a_circle_and_long_strings_is_not_expensive() -> None:
    check_cost(from_json({"a": "/Expr(b)/", "b": "/Expr(a)/", "c": '/Expr("a a a" == "b \\" a")/'}))


def test_slot_without_gpus_has_none_and_unknown_sizes_are_not_ruled_out() -> None:
    ad = from_json({"Cpus": 2, "Memory": "/Expr(1024 * 2)/"})
    assert slot_resources(ad) == {"cpus": 2.0, "memory_mib": 2048.0, "disk_kib": None, "gpus": 0.0}
