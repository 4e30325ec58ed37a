"""Matching here agrees with the table of HTCondor's decisions (see tests/condor/test_matching_truth.py)."""

import pytest

from fetchwork.classad.ads import parse_old
from fetchwork.classad.values import matches
from fetchwork.matching.fit import JobRequest, SlotView
from tests.support.matching_table import Pair, pairs


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: pair.name)
def test_we_decide_as_htcondor_does(pair: Pair) -> None:
    job, slot = parse_old(pair.job), parse_old(pair.slot)
    assert matches(job, slot) == (pair.decision in ("match", "fetchwork refuses"))


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: pair.name)
def test_a_job_is_offered_where_it_matches_and_what_it_asks_is_there(pair: Pair) -> None:
    job, slot = parse_old(pair.job), parse_old(pair.slot)
    assert SlotView(slot).fits(JobRequest.of(job)) == (pair.decision == "match")
