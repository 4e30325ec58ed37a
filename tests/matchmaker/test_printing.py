"""The agent's own printing equals that of HTCondor's code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchwork.classad.ads import parse_old, print_old
from fetchwork.errors import ClassAdError
from fetchwork.matchmaker.printing import Run, build, print_plain

SLOT = (Path(__file__).parent.parent / "data" / "ads" / "25.14.1-fetch_work-static-unclaimed.ad").read_bytes()
KEPT = frozenset({"requirements", "periodichold"})
READABLE = {"/Expr(TARGET.Memory > 5)/", "/Expr(NumJobStarts > 5)/"}

names = st.one_of(
    st.sampled_from(
        [
            "Cmd", "cmd", "RequestCpus", "requestcpus", "RequestTapes", "JobUniverse", "jobuniverse",
            "Owner", "owner", "HookKeyword", "hookkeyword", "FetchWorkToken", "FetchWorkHasPolicy",
            *(
                "Requirements",
                "requirements",
                "PERIODICHOLD",
                "ClaimId",
                "odd name",
                "",
                "1st",
                "True",
                "undefined",
            ),
        ]
    ),
    st.text("abAB_1é ", min_size=1, max_size=4),
)  # fmt: skip
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**66), 2**66),
    st.floats(),
    st.text(max_size=12),
    st.text("\"\\\n\r\t\0 a'/*", max_size=8),
    st.sampled_from(
        ["/Expr(1 + 1)/", "/Expr(", ")/", "/Expr)/", "/Expr()/", "\ud800", 'x\\"', "\\", "\u2028"]
    ),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["a", "b"]), st.integers(), max_size=2),
)


def both(ad: dict[str, Any], slot: bytes = SLOT, **other: Any) -> tuple[str | None, str | None]:
    """The ad as the agent prints it, and as the matchmaker does; None for each that cannot."""
    run = Run(
        7,
        "b2d9a0f2-7d8c-4e0b-9c3c-1f4f5c0f9c11",
        42,
        0,
        **{"owner": "alice", "has_policy": True, **other},
        ad=ad,
    )
    context: dict[str, Any] = {"kept": KEPT, "host": "ep", "keyword": "FW", "uid_domain": None}
    try:
        built = print_old(build(run, parse_old(slot), **context)[0])
    except ClassAdError:
        built = None
    return print_plain(run, slot, **context, readable=READABLE), built


@settings(max_examples=500, deadline=None)
@given(st.dictionaries(names, values, max_size=6), st.text(max_size=5))
def test_ad_of_plain_values_is_printed_as_by_htcondor(ad: dict[str, Any], owner: str) -> None:
    plain, built = both(ad, owner=owner)
    assert plain is None or plain == built


def test_what_jobs_mostly_are_is_plain() -> None:
    plain, built = both(
        {
            "Cmd": "/bin/sleep",
            "Args": "\"quoted\" \\ 'x' é",
            "Requirements": "/Expr(TARGET.Memory > 5)/",
            "PeriodicHold": "/Expr(NumJobStarts > 5)/",
            "RequestMemory": 1024,
            "Rank": 0.0,
            "WantX": True,
            "Nothing": None,
        }
    )
    assert plain is not None
    assert plain == built


def test_values_that_are_equal_and_not_the_same_are_printed_as_what_they_are() -> None:
    for value in (1, True, 1.0, 0, False, 0.0, -0.0, "1", "true"):
        plain, built = both({"Foo": value})
        assert plain is not None
        assert plain == built


def test_expression_that_stays_in_the_database_has_been_read_once() -> None:
    assert both({"PeriodicHold": "/Expr(Never > 5)/"})[0] is None
    assert both({"PeriodicHold": f"/Expr({'9' * 5000})/"}) == (None, None)


@pytest.mark.parametrize("value", ["/Expr(1 + 1)/", "two\nlines", [1], {"a": 1}, 2**63, float("inf")])
def test_what_is_not_plain_is_left_to_the_matchmaker(value: object) -> None:
    assert both({"Foo": value})[0] is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b'UidDomain = "cs.example.org"\n',
        b'uiddomain="cs.example.org"  \n',
        b'UidDomain = ""\n',
        b'UidDomain = strcat("a", "b")\n',
        b"UidDomain = 5\n",
        b'UidDomain = "a\\"b"\n',
        b'UidDomain = "a"\nUidDomain = "b"\n',
    ],
)
def test_domain_of_the_user_is_the_slots(line: bytes) -> None:
    slot = b"".join(
        text for text in SLOT.splitlines(keepends=True) if not text.lower().startswith(b"uiddomain")
    )
    plain, built = both({}, slot + line)
    assert built is not None
    assert plain is None or plain == built
    assert (plain is None) == (line.count(b"=") > 1 or b"(" in line or b"5" in line or b"\\" in line)
