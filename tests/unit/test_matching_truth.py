"""Matching here decides as the table says that HTCondor does (see tests/condor/test_matching_truth.py)."""

import pytest

from fetchwork import classads
from tests.matching_table import Pair, pairs


def decision(pair: Pair) -> str:
    job, slot = classads.parse_old(pair.job), classads.parse_old(pair.slot)
    return "match" if classads.matches(job, slot) else "refused"


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: pair.name)
def test_matches_decides_as_htcondor(pair: Pair) -> None:
    expected = {"match": "match", "fetchwork refuses": "match"}.get(pair.decision, "refused")
    assert decision(pair) == expected
