"""The values read from ads of jobs' accounts: only literals, as the ClassAd library reads them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchwork.classad.ads import parse_old, print_old
from fetchwork.classad.values import ClassAd
from fetchwork.handlers.runad import read_starter_ad, report, run_key
from fetchwork.handlers.starterad import Reader

ADS = Path(__file__).parent.parent / "data/ads"
CAPTURED = sorted(path for hook in ("prepare", "update", "job_exit") for path in ADS.glob(f"*-{hook}*.ad"))


@pytest.mark.parametrize("path", CAPTURED, ids=lambda path: path.stem)
def test_captured_ads_mean_what_the_library_reads(path: Path) -> None:
    body = (
        path.read_bytes() + b'FetchWorkRunId = 7\nFetchWorkToken = "00000000-0000-4000-8000-000000000000"\n'
    )
    assert report(read_starter_ad(body)) == report(parse_old(body))
    assert run_key(read_starter_ad(body)) == run_key(parse_old(body))


@given(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
    | st.integers(-(2**63), 2**63 - 1)
    | st.booleans()
    | st.floats(-1e300, 1e300)
)
def test_literal_is_read_as_it_was_printed(value: str | int | bool | float) -> None:
    ad = ClassAd()
    ad["X"] = value
    read = Reader(["X"]).read(print_old(ad).encode())["X"]
    assert (type(read), read) == (type(value), value)


@pytest.mark.parametrize(
    "text",
    [
        "1 + 1",
        'eval(eval("1"))',
        'eval("\\"a\\" + \\"b\\"")',
        'strcat("a", "b")',
        '"a" + "b"',
        "9" * 5000,
        "-" * 5000 + "1",
        "[a = 1]",
        "{1, 2}",
        "((((((((1",
        "1e400",
        'real("INF")',
        "undefined",
        "",
        '"',
        "\x00",
    ],
)
def test_expression_is_no_literal(text: str) -> None:
    assert Reader(["X"]).read(f"X = {text}\nY = 1\n".encode()) == {"X": None}


def test_names_have_no_case_and_others_are_passed_over() -> None:
    body = b'x=1\r\n  y = 2\nXX = 3\nX Y = 4\nZ = X = 5\n\nJunk\nY = \xff\nW = "\xff"\n'
    assert Reader(["X", "Y", "W"]).read(body) == {"X": 1, "Y": None, "W": "\ufffd"}
