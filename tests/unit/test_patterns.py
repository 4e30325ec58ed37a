"""The literal text of a pattern, which is in each text in which HTCondor finds the pattern."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchwork.classad.ads import quote
from fetchwork.classad.jsonform import from_json
from fetchwork.queue.constraints.constraint import Constraint
from fetchwork.queue.constraints.patterns import like_of, runs_of


@pytest.mark.parametrize(
    ("pattern", "like"),
    [
        ("abc", "%abc%"),
        ("^abc$", "abc%"),
        ("a.c", "%a%c%"),
        ("ab*c", "%a%c%"),
        ("ab+c", "%ab%c%"),
        ("ab+?c", "%ab%c%"),
        ("^*a", "%a%"),
        (r"a\.b", "%a.b%"),
        ("50%_", r"%50\%\_%"),
        (r"job[0-9]+\.log", "%job%.log%"),
        (r"a\d\bc", "%a%c%"),
        ("#42[.](0|7)#", "%#42.%#%"),
        (r"a(?:b|(c\)[)]d))?e", "%a%e%"),
        ("^(a|b)c", "%c%"),
        ("[_]a", r"%\_a%"),
    ],
)
def test_the_text_of_a_pattern(pattern: str, like: str) -> None:
    assert like_of(pattern) == like


@pytest.mark.parametrize(
    "pattern",
    [
        "", ".*", "^", "a|b", "(a)", "(?i)a", "a{0}", r"\Qa", r"\x41", "a[[:alpha:]]", "[]a]", "a]", "a\\",
        "a(b", "a)b", "a(?=b)", "a(b(?i)c)", "(*ANY)a", r"a(\Q)b", "a([[:alpha:]])", "a(?|b)", r"(a)\1b",
    ],
)  # fmt: skip
def test_a_pattern_that_may_mean_another_text_is_left_alone(pattern: str) -> None:
    assert like_of(pattern) is None


def test_the_pieces_of_a_pattern() -> None:
    assert runs_of(r"#42[.](0|7)+#a?_") == ["#42.", "#", "_"]
    assert runs_of("a|b") == runs_of("ab", "x") == []


def test_options_other_than_i_are_left_alone() -> None:
    assert like_of("abc", "m") is None
    assert like_of("ABC", "i") == "%abc%"
    # the Kelvin sign is a k, the long s an s
    assert like_of("Disk", "i") == "%di%"


def has(text: str, like: str) -> bool:
    """The result of LIKE."""
    parts = re.findall(r"\\(.)|(%)|(.)", like, re.DOTALL)
    expression = "".join(".*" if wild else re.escape(escaped or plain) for escaped, wild, plain in parts)
    return re.fullmatch(expression, text, re.DOTALL) is not None


atoms = st.sampled_from(
    [
        *"abkKsS.^$*+?_%-é\n (|)",
        r"\.", r"\d", r"\w", r"\b", r"\_", "[ab]", "[^a]", "[a-c]", "ab", "(a|k)", "[s]",
    ]
)  # fmt: skip
texts = st.text("abkKsSABé._%-\n \u212a\u017f1", max_size=6)


@settings(max_examples=600, deadline=None)
@given(pattern=st.lists(atoms, max_size=5).map("".join), text=texts, options=st.sampled_from(["", "i"]))
def test_nothing_that_htcondor_finds_is_lost(pattern: str, text: str, options: str) -> None:
    like = like_of(pattern, options)
    expression = f"regexp({quote(pattern)}, Text, {quote(options)})"
    found = Constraint(expression, "true", (), exact=False).accepts(from_json({"Text": text}))
    if found and like is not None:
        folded = re.sub("[A-Z]", lambda letter: letter[0].lower(), text) if options else text
        assert has(folded, like)
