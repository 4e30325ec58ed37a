"""The end of a job's output joins its report, with any content."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchwork.classad.ads import parse_expr, parse_old, print_old
from fetchwork.classad.values import ClassAd
from fetchwork.handlers.runad import read_starter_ad, report
from fetchwork.hook import jobtail


def exit_ad(place: Path, **more: Any) -> bytes:
    ad = ClassAd()
    for name, value in (
        {"Iwd": str(place), "Out": "out", "Err": "err", "FetchWorkTailBytes": 10} | more
    ).items():
        ad[name] = value
    return print_old(ad).encode()


def output_of(ad: bytes) -> Any:
    return report(read_starter_ad(jobtail.with_output(ad))).get("FetchWorkOutput")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "out").write_bytes(b"first\nsecond\nthird\n")
    (tmp_path / "err").write_bytes(b'say "no"\\')
    return tmp_path


def test_the_last_bytes_of_both_join_the_report(place: Path) -> None:
    assert output_of(exit_ad(place)) == {"stdout": "ond\nthird\n", "stderr": 'say "no"\\'}


@pytest.mark.parametrize(
    "more",
    [
        {"FetchWorkTailBytes": 0},
        {"FetchWorkTailBytes": -1},
        {"FetchWorkTailBytes": "ten"},
        {"FetchWorkTailBytes": parse_expr("5 + 5")},
        {"Out": "/dev/null", "Err": ""},
        {"Out": "/dev/zero", "Err": "nope"},
        {"Out": ".", "Err": "pipe"},
        {"Iwd": "/no/such"},
    ],
)
def test_what_is_not_asked_for_or_no_file_is_left_out(place: Path, more: dict[str, Any]) -> None:
    os.mkfifo(place / "pipe")
    ad = exit_ad(place, **more)
    assert jobtail.with_output(ad) == ad
    assert output_of(ad) is None


def test_no_more_than_64_kib_are_read(place: Path) -> None:
    (place / "out").write_bytes(b"x" * 200_000)
    assert len(output_of(exit_ad(place, FetchWorkTailBytes=10**9))["stdout"]) == 65536


def test_a_character_cut_in_two_is_left_out(place: Path) -> None:
    (place / "out").write_text("äöü€😀😀")
    assert output_of(exit_ad(place, FetchWorkTailBytes=7))["stdout"] == "😀"


def test_bytes_that_are_no_text_are_replaced(place: Path) -> None:
    (place / "out").write_bytes(b"a\0b\xff\n")
    assert output_of(exit_ad(place))["stdout"] == "a\ufffdb\ufffd\n"


def test_an_ad_without_a_last_line_end_gains_lines_of_its_own(place: Path) -> None:
    ad = exit_ad(place)
    assert sorted(parse_old(jobtail.with_output(ad[:-1]))) == sorted(parse_old(jobtail.with_output(ad)))


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_value_is_printed_as_everywhere_else(text: str) -> None:
    ad = ClassAd()
    ad["x"] = text
    assert f"x = {jobtail._print(text)}\n" == print_old(ad)
