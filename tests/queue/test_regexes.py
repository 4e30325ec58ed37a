"""PostgreSQL's matching omits no text in which HTCondor finds a pattern."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fetchwork.classad.ads import quote
from fetchwork.classad.jsonform import from_json
from fetchwork.queue import Queue
from fetchwork.queue.constraints.constraint import Constraint
from fetchwork.queue.constraints.regexes import regex_of
from tests.support.sessions import session_of

TEXTS = ["", "a", "b", "ab", "ba", "aab", "abab", "Ab", "sK", "k1", "12", "a.b", "a-b", "x\n", "\n", "é"]
TEXTS += ["aéb", "éé", "(a)", "a|b", "job_12.log", "JOB_7.log\n", "\u212a", "\u017f", "{2}", "a+", "^a$"]
TEXTS += ["\\d", "a b", "]"]
pieces = st.sampled_from(
    [
        "a", "b", "k", "S", "1", "-", "_", "é", ".", "^", "$", "ab", " ", "\n",
        r"\.", r"\d", r"\w", r"\s", r"\D", r"\W", r"\b", r"\+", r"\(", r"\\",
        "[ab]", "[^a]", "[a-c]", "[0-9]+", "[-a]", "[a-]", "[b-a]", "[K-T]",
        "(", "(?:", ")", "|", "(?=", "(?i)", "()",
        "*", "+", "?", "{2}", "{0}", "{0,}", "{1,3}", "{,2}", "??", "*+", "+?",
    ]
)  # fmt: skip
patterns = st.lists(pieces, max_size=6).map("".join)


@settings(
    max_examples=4 * settings.default.max_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(pattern=patterns, options=st.sampled_from(["", "i"]))
def test_nothing_that_htcondor_finds_is_lost(pattern: str, options: str, queue: Queue) -> None:
    regex = regex_of(pattern, options)
    if regex is None:
        return
    expression = f"regexp({quote(pattern)}, Text, {quote(options)})"
    constraint = Constraint(expression, "true", (), exact=False)
    found = {text for text in TEXTS if constraint.accepts(from_json({"Text": text}))}
    folded = [re.sub("[A-Z]", lambda letter: letter[0].lower(), text) if options else text for text in TEXTS]
    rows = session_of(queue).database.query(
        'SELECT (t COLLATE "C") ~ %s AS matches FROM unnest(%s::text []) AS t', [regex, folded]
    )
    matched = {text for text, row in zip(TEXTS, rows, strict=True) if row["matches"]}
    assert found <= matched, regex


def test_a_line_end_behind_the_end_is_found(queue: Queue) -> None:
    for pattern in ("b$\n", "b$(\n|a)", "b$\n?"):
        constraint = Constraint(f"regexp({quote(pattern)}, Text)", "true", (), exact=False)
        assert constraint.accepts(from_json({"Text": "ab\n"}))
        rows = session_of(queue).database.query("SELECT %s ~ %s AS yes", ["ab\n", regex_of(pattern)])
        assert rows[0]["yes"], pattern


@pytest.mark.parametrize(
    ("pattern", "text", "other"),
    [
        ("^(alice|bob)$", "bob", "bobby"),
        (r"^job_[0-9]+\.(log|out)$", "job_12.out", "job_x.out"),
        ("a{2,3}b", "xaab", "xb"),
        (r"^\d\d?-\d+$", "12-3", "123-4"),
        ("^(a|b(c|d))*$", "abcbd", "abe"),
    ],
)
def test_what_postgresql_alone_leaves_out(pattern: str, text: str, other: str, queue: Queue) -> None:
    rows = session_of(queue).database.query("SELECT %s ~ %s AS yes", [text, regex_of(pattern)])
    assert rows[0]["yes"]
    rows = session_of(queue).database.query("SELECT %s ~ %s AS yes", [other, regex_of(pattern)])
    assert not rows[0]["yes"]


@pytest.mark.parametrize(
    "pattern",
    ["(?i)a", "(?=a)b", r"(a)\1", "a**", "|*", "(", ")", "[[:alpha:]]", "é", "a" * 201, "(" * 9 + ")" * 9],
)
def test_what_might_find_less_is_left_alone(pattern: str) -> None:
    assert regex_of(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    ["(.?){0}" * 20, ".?" * 100, "(a|b)*" * 30, "(((((a*)*)*)*)*)*b", "([a-z]+)+" * 20, "(a?b?c?)+" * 20],
)
def test_no_pattern_holds_the_server_up(pattern: str, queue: Queue) -> None:
    """Each match takes a fraction of a second, even if PCRE would try all ways."""
    regex = regex_of(pattern)
    if regex is not None:
        with session_of(queue).database.transaction():
            session_of(queue).database.query("SET LOCAL statement_timeout = '20s'")
            session_of(queue).database.query("SELECT repeat('abc', 300) || '!' ~ %s AS found", [regex])
