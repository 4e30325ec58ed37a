"""condor_userprio of the queue: the ads of HTCondor's negotiator with the same groups, slots and jobs."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from fetchwork.condor.printing import adfiles
from fetchwork.condor.userprio import parts
from fetchwork.errors import HTCondorUnavailable
from tests.commands.options import DATA
from tests.commands.oracle import Answer, answers
from tests.conftest import NOT_TESTED
from tests.support.direct_queue import DirectQueue

#: the tree, and the jobs of each submitter, running and idle, of the negotiator of 25.14.1.accounting.ads
GROUPS: dict[str, dict[str, Any]] = {
    "physics": {"quota": 6, "accept_surplus": True},
    "physics.atlas": {"dynamic_quota": 0.5, "accept_surplus": True},
    "physics.cms": {"quota": 2},
    "bio": {"dynamic_quota": 0.3, "autoregroup": True},
    "empty": {"quota": 1},
}
JOBS = {
    "physics.atlas.carol": (8, 0),
    "physics.atlas.dave": (1, 0),
    "physics.cms.erin": (2, 0),
    "bio.fay": (1, 8),
    "bob": (0, 3),
}
SLOTS = 12
#: the others depend on how long jobs ran
SAME = {
    "AccountingGroup", "ConfigQuota", "EffectiveQuota", "GroupSortKey", "IsAccountingGroup", "Name",
    "PriorityFactor", "Requested", "ResourcesUsed", "SubtreeQuota", "SurplusPolicy", "WeightedResourcesUsed",
}  # fmt: skip

#: options of columns that both versions have
LINES = ["-quotas", "-usage", "-flat -usage", "-grouporder -quotas", "-usage -sortkey", "-priority -hier"]

Condor = Callable[..., Answer]


@pytest.fixture
def queue(slots: DirectQueue) -> DirectQueue:
    """The queue with the groups, slots and jobs."""
    host = slots.host("pool")
    names = [f"slot{n}@pool" for n in range(SLOTS)]
    reported = [{"name": name, "fetched_at": 0, "weight": 1} for name in names]
    slots.call("report_slots", host_id=host, slots=Jsonb(reported))
    for name, (running, idle) in JOBS.items():
        ad = {"Owner": name.rpartition(".")[2]} | ({"AccountingGroup": name} if "." in name else {})
        if running:
            slots.submit_many([ad] * running)
            free, names = names[:running], names[running:]
            assert len(slots.claim_many(host, *free)) == running
        if idle:
            slots.submit_many([ad] * idle)
    for name, changes in GROUPS.items():
        slots.call("set_group", name=name, changes=changes)
    return slots


def ads_of(text: str) -> dict[str, dict[str, Any]]:
    """The ads of a text, by name."""
    return {str(ad.json["Name"]): dict(ad.json) for ad in adfiles.read(text)}


def test_the_ads_are_those_of_a_negotiator(queue: DirectQueue, condor: Condor) -> None:
    (whole,) = adfiles.read((DATA / "25.14.1.accounting.ads").read_text())
    ours = ads_of(condor("condor_userprio", "-allusers", "-long").out)
    theirs = {str(ad.json["Name"]).partition("@")[0]: dict(ad.json) for ad in parts(whole)}
    assert ours.keys() == theirs.keys()
    for name, ad in theirs.items():
        if ad["IsAccountingGroup"]:
            # these are of -grouprollup
            del ad["ResourcesUsed"], ad["WeightedResourcesUsed"]
        expected = {key: value for key, value in ad.items() if key in SAME} | {"Name": name}
        assert {key: ours[name].get(key) for key in expected} == pytest.approx(expected), name
    used = {name: ad["WeightedResourcesUsed"] for name, ad in ours.items() if ad["IsAccountingGroup"]}
    assert used == {"<none>": 0, "physics": 0, "physics.atlas": 9, "physics.cms": 2, "bio": 1, "empty": 0}


def test_a_rollup_has_the_use_of_all_groups_below(queue: DirectQueue, condor: Condor) -> None:
    (whole,) = adfiles.read((DATA / "25.14.1.accounting.ads").read_text())
    ours = ads_of(condor("condor_userprio", "-allusers", "-grouprollup", "-long").out)
    for ad in parts(whole):
        name = str(ad.json["Name"]).partition("@")[0]
        for attribute in ("ResourcesUsed", "WeightedResourcesUsed"):
            assert ours[name][attribute] == ad.json[attribute], (name, attribute)


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["trixie", pytest.param("sid", marks=pytest.mark.all)])
def test_htcondors_own_prints_these_ads_alike(
    suite: str, queue: DirectQueue, condor: Condor, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip(f"{NOT_TESTED} of {suite}: only root can enter its pool root")
    queue.pass_time(7200)
    ads = list(adfiles.read(condor("condor_userprio", "-long").out))
    numbered = {
        f"{name}{number}": ad.unparsed(name) for number, ad in enumerate(ads, 1) for name in ad.names()
    }
    numbered |= {"NumSubmittors": str(len(ads)), "LastUpdate": ads[0].unparsed("LastUpdate")}
    (tmp_path / "ads").write_text("".join(f"{name} = {text}\n" for name, text in numbered.items()))
    told = ["condor_userprio", "-allusers", "-name", "<127.0.0.1:9>"]
    try:
        theirs = answers(suite, tmp_path, [[*told, "-inputfile", "ads", *line.split()] for line in LINES])
    except HTCondorUnavailable as reason:
        pytest.skip(f"{NOT_TESTED} of {suite}: {reason}")
    for line, expected in zip(LINES, theirs, strict=True):
        ours = condor(*told, *line.split())
        assert (ours.status, ours.err) == (expected.status, expected.err) == (0, "")
        assert steady(ours) == steady(expected), line
        assert "physics.atlas" in ours.out


def steady(answer: Answer) -> str:
    """The output without what grows between two reads of the queue."""
    text = re.sub(r"Last Priority Update: .*|\d\d/\d\d/\d{4} \d\d:\d\d", "", answer.out)
    return re.sub(r" +\d+\.\d\d(?= )", " n", text)
