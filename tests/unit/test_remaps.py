"""transfer_output_remaps: names and their destinations, with the cases of HTCondor's own test of them."""

import pytest

from fetchwork.sandbox import remaps

RULES = "src_file1=dst_file1;out=_condor_stdout;err=_condor_stderr"


@pytest.mark.parametrize(
    ("rules", "name", "found"),
    [
        (RULES, "src_file1", "dst_file1"),
        (RULES, "out", "_condor_stdout"),
        (RULES, "src_file_1", None),
        # an empty rule is skipped
        ("src_file1=dst_file1;;out=_condor_stdout;err=_condor_stderr", "err", "_condor_stderr"),
        ("a=b;", "a", "b"),
        ("  a = b ; c = d ", "c", "d"),
        ("a=b", "a", "b"),
        ("", "a", None),
        ("no rule", "no rule", None),
        # the first of two for a name counts
        ("a=b;a=c", "a", "b"),
        # a result is looked up again
        ("a=b;b=c", "a", "c"),
        # a directory's rule holds for its content, and the whole name comes before its directory
        ("d=e", "d/f", "e/f"),
        ("d=e", "d/f/g", "e/f/g"),
        ("d=e;d/f=g", "d/f", "g"),
        ("d/f=g", "d/f/h", "g/h"),
        ("d=/abs/e", "d/f", "/abs/e/f"),
        ("a=http://host/x?y\\=1\\;2", "a", "http://host/x?y=1;2"),
        (r"a\=b=c", "a=b", "c"),
        (r"a\;b=c\\d", "a;b", "c\\d"),
        ("a=b=c", "a", "b=c"),
        ("a=x y", "a", "x y"),
    ],
)
def test_a_name_goes_where_the_rules_send_it(rules: str, name: str, found: str | None) -> None:
    assert remaps.find(remaps.parse(rules), name) == found


@pytest.mark.parametrize("rules", ["a=a", "a=b;b=a", "d=d/e"])
def test_rules_that_lead_in_a_circle_are_told(rules: str) -> None:
    with pytest.raises(remaps.RemapLoop, match="in a circle"):
        remaps.find(remaps.parse(rules), rules[0])


def test_what_is_no_text_has_no_rules() -> None:
    assert remaps.parse(None) == remaps.parse(7) == {}
