"""fetchwork evaluates ClassAds as the next HTCondor does, but for the causes that are listed."""

import subprocess
from collections.abc import Sequence

import pytest

from fetchwork.errors import HTCondorUnavailable
from tests.evidence.classads import (
    KNOWN,
    Difference,
    Known,
    Side,
    batches,
    cause,
    generated,
    library,
    of_data,
    sides,
)


@pytest.fixture(scope="module", autouse=True)
def _library() -> None:
    try:
        library()
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no bindings of the next HTCondor: {error}")


@pytest.fixture(scope="module")
def both() -> tuple[Side, Side]:
    """Both sides, with the ads of one seed."""
    return sides(generated(1, 0)[0])


def unexplained(
    made: tuple[Sequence[str], Sequence[dict[str, object]]], suite: str | None = None
) -> list[Difference]:
    found = [difference for some, _ in batches(*made, suite) for difference in some]
    return [difference for difference in found if cause(difference) is None]


@pytest.mark.parametrize("known", [known for known in KNOWN if known.ours], ids=lambda known: known.name)
def test_each_listed_difference_is_still_one(known: Known, both: tuple[Side, Side]) -> None:
    case = {"text": known.text, "my": 0, "target": 1}
    ours, theirs = both
    (one,) = ours.answers([case])
    if "digits" in known.name:
        case = {"line": one["line"], "my": 0, "target": 1}
    (two,) = theirs.answers([case])
    assert (one.get("value", "died"), two.get("value", "died")) == (known.ours, known.theirs)


def test_expressions_by_chance_have_the_same_values_as_in_the_next_htcondor() -> None:
    assert not unexplained(generated(1, 1500))


@pytest.mark.slow
@pytest.mark.all
def test_a_hundred_thousand_expressions_have_the_same_values() -> None:
    assert not unexplained(generated(2, 100_000))


@pytest.mark.slow
@pytest.mark.all
def test_all_ads_of_tests_data_mean_the_same_in_the_next_htcondor() -> None:
    assert not unexplained(of_data())


@pytest.mark.slow
@pytest.mark.all
def test_the_library_of_a_startd_is_that_of_the_bindings() -> None:
    try:
        assert not unexplained(generated(3, 3000), "sid")
    except HTCondorUnavailable as error:
        pytest.skip(str(error))
