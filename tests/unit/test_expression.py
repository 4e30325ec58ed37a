"""The parser of expressions: their tree, and the position of each part."""

import pytest

from fetchwork.classad.ads import parse_expr
from fetchwork.classad.expression import (
    Attribute,
    Call,
    Literal,
    Node,
    Opaque,
    Operation,
    Unreadable,
    clauses,
    names,
    read,
)
from fetchwork.classad.values import format_expr

ANY = (0, 0)


def number(value: int | float) -> Literal:
    return Literal(value, ANY)


def operation(operator: str, *operands: Node) -> Operation:
    return Operation(operator, operands, ANY)


A, B, C = (Attribute(name, ANY) for name in "ABC")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("A", A),
        ("MY.A", A),
        ("TARGET.A", Opaque(ANY)),
        ("my.'A'", Opaque(ANY)),
        ("-1", number(-1)),
        ("+ 1.5e3", number(1500.0)),
        ("~1", Opaque(ANY)),
        ('"a\\"b"', Literal('a"b', ANY)),
        ('"\\303\\244"', Literal("ä", ANY)),
        ("True", Literal(True, ANY)),
        ("undefined", Literal(None, ANY)),
        ("error", Opaque(ANY)),
        ("A - B - C", operation("-", operation("-", A, B), C)),
        ("A || B && C", operation("||", A, operation("&&", B, C))),
        ("A + B * C < 1", operation("<", operation("+", A, operation("*", B, C)), number(1))),
        ("A =?= B", operation("is", A, B)),
        ("A isnt B", operation("isnt", A, B)),
        ("!A == B", operation("==", operation("!", A), B)),
        ("(A || B) && C", operation("&&", operation("||", A, B), C)),
        ("f(A, B)[1]", Call("[]", (Call("f", (A, B), ANY), number(1)), ANY)),
        ("f(A, B)[1].x", Opaque(ANY)),
        ("{ A, [ x = 1; y = { 2 } ] }", Opaque(ANY)),
        ("A ? B : C", Opaque(ANY)),
        ("A ?: B", Opaque(ANY)),
        ("'odd name' == A", operation("==", Opaque(ANY), A)),
    ],
)
def test_tree(text: str, tree: Node) -> None:
    assert read(text) == tree


@pytest.mark.parametrize("text", ["", "A B", "(A", "A &&", "{ A", "[ x = { ]", "A = B", "#", "1 +", "A."])
def test_what_is_no_expression_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        read(text)


def test_deeper_than_python_goes_is_unreadable() -> None:
    with pytest.raises(Unreadable):
        read("(" * 5000 + "A" + ")" * 5000)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("  A  ", ["A"]),
        ("(A) && (B || (C))", ["A", "B || (C)"]),
        ("(A + 1) * 2 > 3 && !(B)", ["(A + 1) * 2 > 3", "!(B)"]),
        ("A && (B && C) && f(A && B)", ["A", "B", "C", "f(A && B)"]),
        ('TARGET.A == " && " && (A ? B : C)', ['TARGET.A == " && "', "A ? B : C"]),
        ("-1 < A && [ x = 1 ].x == 1", ["-1 < A", "[ x = 1 ].x == 1"]),
    ],
)
def test_part_stands_where_its_span_says(text: str, parts: list[str]) -> None:
    assert [text[slice(*part.span)] for part in clauses(read(text))] == parts


def test_long_chain_of_clauses_needs_no_depth() -> None:
    assert len(clauses(read(" && ".join(["A"] * 10_000)))) == 10_000


@pytest.mark.parametrize(
    "text",
    [
        "A && (B || C) =?= undefined",
        '{ 1,2.5,"x\\ny" }[0] == [ a = 1; b = { 2 } ].a',
        "f(A, 'odd name', MY.B.C) ?: -1 >>> 2",
        "A < 1 is true ? !B : ~C ^ 1 | 2 & 3",
    ],
)
def test_htcondors_own_form_is_readable(text: str) -> None:
    read(format_expr(parse_expr(text)))


def test_names_stand_outside_of_strings() -> None:
    assert [*names('A + f("B", MY.C) && "unended')] == ["A", "f", "MY", "C", "unended"]
