"""The clauses that ``&&`` joins, found in the text of an expression."""

import pytest

from fetchwork.classad import clauses
from fetchwork.classad.ads import parse_expr
from fetchwork.classad.jsonform import from_json
from fetchwork.classad.values import format_expr


def split(text: str) -> list[str]:
    return [format_expr(clause) for clause in clauses.split(parse_expr(text))]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a && b", ["a", "b"]),
        ("a", ["a"]),
        ("((a) && (b))", ["a", "b"]),
        ("(a && (b && c)) && d", ["a", "b", "c", "d"]),
        ("(a || b) && f(g && h)", ["a || b", "f(g && h)"]),
        ('x == "a && b" && y', ['x == "a && b"', "y"]),
        ("x == \"(\" && 'odd && name' == 1", ['x == "("', "'odd && name' == 1"]),
        ("{ a && b, c }[0] && d", ["{ a && b,c }[0]", "d"]),
        # looser than &&: all one clause
        ("a || b && c", ["a || b && c"]),
        ("a && b ? c : d", ["a && b ? c : d"]),
        ("(a && b) || (c)", ["(a && b) || (c)"]),
    ],
)
def test_clauses_are_what_has_to_be_true_at_once(text: str, parts: list[str]) -> None:
    assert split(text) == parts


def test_name_of_an_expression_is_looked_into() -> None:
    slot = from_json({"Start": "/Expr(A && MY.Busy)/", "A": '/Expr(TARGET.Owner == "bob")/', "Busy": False})
    parts = clauses.explain(slot, parse_expr("START"))
    assert [format_expr(part) for part in parts] == ['TARGET.Owner == "bob"', "MY.Busy"]


def test_names_that_go_round_end() -> None:
    slot = from_json({"A": "/Expr(B)/", "B": "/Expr(A)/"})
    assert len(clauses.explain(slot, parse_expr("A"))) == 1
