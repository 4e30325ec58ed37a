"""The slots that may be offered jobs in containers."""

from typing import Any

import pytest

from fetchwork.matching.containers import has_all, needs

SLOT = b"HasContainer = true\nHasDockerURL = false\nHasSIF = true\nHasSingularity = true\nState = 1\n"


@pytest.mark.parametrize(
    ("ad", "may"),
    [
        ({}, True),
        ({"WantSIF": False, "SingularityImage": ""}, True),
        ({"WantSIF": True}, True),
        ({"WantSIF": "/Expr(1 == 1)/"}, True),
        ({"WantDockerImage": True}, False),
        ({"WantSandboxImage": True}, False),
        ({"SingularityImage": "/cvmfs/image"}, True),
    ],
)
def test_a_slot_has_what_the_container_needs(ad: dict[str, Any], may: bool) -> None:
    assert has_all(SLOT, needs(ad)) is may
    assert has_all(b"", needs(ad)) is (not needs(ad))


def test_a_slot_can_not_say_it_in_another_attribute() -> None:
    assert not has_all(b'Name = "x HasSIF = true "\nMyHasSIF = true\n', needs({"WantSIF": True}))
