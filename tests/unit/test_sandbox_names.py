"""Names in a sandbox: the allowed ones, and the name of a URL's file."""

import pytest

from fetchwork.sandbox import names


@pytest.mark.parametrize("name", ["a", "a/b", "a b", ".hidden", "a..b", "..a/b", "ü", "-rf", "a\nb"])
def test_a_name_inside_the_sandbox_is_allowed(name: str) -> None:
    assert names.problem_of(name) == ""


@pytest.mark.parametrize("name", ["", "/a", "..", "../a", "a/../../b", "a/..", "a\0b", "\udcff"])
def test_a_name_that_leads_out_of_it_or_can_not_be_written_down_is_not(name: str) -> None:
    assert names.problem_of(name) != ""


@pytest.mark.parametrize(
    ("url", "scheme", "name"),
    [
        ("http://host/a/b.txt", "http", "b.txt"),
        ("HTTPS://host/b?sig=a/c", "https", "b"),
        ("file:///tmp/x", "file", "x"),
        ("cred.handle+https://host/x", "cred.handle+https", "x"),
        ("/a/b://c", "", "c"),
        ("1http://host/x", "", "x"),
        ("plain", "", ""),
    ],
)
def test_a_url_has_a_scheme_and_the_name_that_ends_its_path(url: str, scheme: str, name: str) -> None:
    assert names.scheme_of(url) == scheme
    if scheme:
        assert names.name_of_url(url) == name


def test_lists_are_separated_by_commas_and_blanks_are_trimmed() -> None:
    assert names.words_of(" a, b c ,, d/ ") == ["a", "b c", "d/"]
    assert names.words_of(None) == []
