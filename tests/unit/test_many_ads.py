"""Many ads are checked at once at submission: the answers equal those of a check of each."""

import json
import random
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import pytest

from fetchwork.errors import SubmitError
from fetchwork.queue.submitting import jobads, submission

#: positions of one ad among a hundred and fifty, and sizes at which a batch may end
PLACES = [0, 49, 50, 75, 149]
#: texts that neither hide nor make a NUL, nor end an ad
TEXTS = [
    *(
        "",
        "\\",
        "\\\\",
        "\\\\\\",
        "\\u0000",
        "\\\\u0000",
        "u0000",
        "\\u000",
        "0",
        '"',
        '\\"',
        '", "',
        '"}, {"',
    ),
    "}", "]", "[", ", ", "\n", "\x01", "\x7f", "\u2028", "語", "\U0001f600", "\ud800", "/Expr(1)/",
]  # fmt: skip


def nul_one_by_one(ads: list[dict[str, Any]]) -> str | None:
    for number, ad in enumerate(ads, 1):
        if "\\u0000" in json.dumps(ad).replace(r"\\", ""):
            return f"ad {number} has a NUL in a name or a value; allowed: any other character"
    return None


def told(ads: list[dict[str, Any]]) -> str | None:
    try:
        jobads.from_ads(ads)
    except SubmitError as error:
        return str(error)
    return None


@pytest.mark.parametrize("at", PLACES)
def test_a_nul_is_found_in_the_ad_that_has_it(at: int) -> None:
    for text in TEXTS:
        # each text is put before, behind and around the NUL, and into all other ads
        for ad in (
            {"A": f"{text}\0"},
            {"A": f"\0{text}"},
            {f"{text}\0{text}": 1},
            {"A": [{"B": f"\0{text}"}]},
        ):
            ads: list[dict[str, Any]] = [{"A": text, text: 1} for _ in range(150)]
            assert told(ads) is None is nul_one_by_one(ads)
            ads[at] = ad
            assert told(ads) == nul_one_by_one(ads)
            assert str(told(ads)).startswith(f"ad {at + 1} has")


def test_of_several_nuls_the_first_is_named() -> None:
    for at in PLACES:
        ads: list[dict[str, Any]] = [{"A": "\0" if n >= at else "a"} for n in range(150)]
        assert str(told(ads)).startswith(f"ad {at + 1} has")


@pytest.mark.parametrize("at", PLACES)
def test_an_ad_that_json_cannot_say_is_refused_unless_a_nul_comes_first(at: int) -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value, error in ((object(), TypeError), (circle, ValueError)):
        ads: list[dict[str, Any]] = [{"A": "a"} for _ in range(150)]
        ads[at] = {"A": value}
        with pytest.raises(error):
            jobads.from_ads(ads)
        for nul_at in PLACES:
            ads[nul_at] = {"A": "\0"}
            if nul_at < at:
                assert str(told(ads)).startswith(f"ad {nul_at + 1} has")
            elif nul_at > at:
                with pytest.raises(error):
                    jobads.from_ads(ads)
            ads[nul_at] = {"A": value if nul_at == at else "a"}


class Number(IntEnum):
    """Is 1, as 1.0 and True are."""

    ONE = 1


#: equal values among them that differ in an ad
VALUES = [1, 1.0, True, Number.ONE, 0, False, None, "1", "", [1], [2], {"B": 1}, {"B": 2}, float("nan")]


def common_one_by_one(ads: list[dict[str, Any]]) -> dict[str, Any]:
    common = dict(ads[0])
    for ad in ads[1:]:
        common = {
            name: value
            for name, value in common.items()
            if name in ad and type(ad[name]) is type(value) and ad[name] == value
        }
    return common


def shown(ads: list[dict[str, Any]]) -> str:
    """Ads with the types and the order of their values."""
    return repr([[(name, type(value), value) for name, value in ad.items()] for ad in ads])


@pytest.mark.parametrize("at", [0, 1, 20, 39])
def test_one_ad_that_differs_decides_what_is_common(at: int) -> None:
    for value in VALUES:
        for other in (*VALUES, "not there"):
            ads: list[dict[str, Any]] = [{"C": n, "A": value, "D": "d"} for n in range(40)]
            ads[at] = {"D": "d", "C": 7, "A": other} if other != "not there" else {"D": "d", "E": None}
            jobs = jobads.from_ads(ads)
            own = list(jobs.own)
            assert shown([jobs.common]) == shown([common_one_by_one(ads)])
            assert shown(own) == shown([{k: v for k, v in ad.items() if k not in jobs.common} for ad in ads])


def test_no_ad_and_one_are_jobs_too() -> None:
    assert jobads.from_ads([]) == jobads.Jobs({}, [])
    assert jobads.from_ads([{}]) == jobads.Jobs({}, [{}])
    assert jobads.from_ads([{"A": 1}]) == jobads.Jobs({"A": 1}, [{}])


def chunks_one_by_one(own: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    chunk: list[dict[str, Any]] = []
    size = 0
    for part in own:
        length = len(json.dumps(part))
        if chunk and (len(chunk) >= submission.MAX_JOBS or size + length > submission.MAX_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(part)
        size += length
    if chunk:
        yield chunk


@pytest.mark.parametrize("seed", range(20))
def test_chunks_end_where_they_would_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    some = random.Random(seed)
    monkeypatch.setattr(submission, "MAX_JOBS", some.choice([1, 3, 49, 50, 51, 100, 120, 1000]))
    monkeypatch.setattr(submission, "MAX_BYTES", some.choice([1, 40, 990, 1000, 1001, 5000, 10**6]))
    longest = some.choice([0, 10, 100, 3000])
    own = [
        {} if some.random() < 0.3 else {"A": some.choice(["x", "語", '"']) * some.randint(0, longest)}
        for _ in range(some.choice([0, 1, 49, 50, 51, 500]))
    ]
    assert list(submission.chunks(iter(own))) == list(chunks_one_by_one(own))


def test_a_chunk_is_full_at_the_last_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [{"A": "x"}] * 150
    whole = 150 * len(json.dumps(own[0]))
    for most, lengths in ((whole, [150]), (whole - 1, [149, 1]), (whole // 3, [50, 50, 50])):
        monkeypatch.setattr(submission, "MAX_BYTES", most)
        assert [len(chunk) for chunk in submission.chunks(own)] == lengths
