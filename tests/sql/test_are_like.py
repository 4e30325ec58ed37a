"""Many jobs' own parts are checked at once: the answer equals that of a check of each."""

import json
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.support.direct_queue import DirectQueue

#: are_like(), defined for each part alone
ONE_BY_ONE = r"""
    SELECT NOT EXISTS (
        SELECT FROM unnest(%s::jsonb[]) AS p (ad)
        WHERE p.ad IS NULL
            OR p.ad::text <> '{}'
            AND NOT (
                octet_length(p.ad::text) <= %s::bigint
                AND p.ad::text ~ (
                    '^{("(Args|Arguments|Env|Environment|In|Out|Err)": '
                    '"([^"\\[:cntrl:]]|\\["\\])*"(, )?){1,7}}$'
                )
                AND strpos(p.ad::text, '"/Expr(') = 0
                AND strpos(p.ad::text, '$$(') = 0
            )
    )
"""
#: possible texts
TEXTS = [
    '}\n{"Args": "a"}', '"}\n', "\n", "a\r", "\t", "\x01", "\x1f", "\x7f", "\x85", "\u2028", "\\n", "a\\",
    *(
        '"',
        '""',
        '"}',
        '{"',
        '"}, {"Args": "',
        '", "JobPrio": "1',
        "}",
        "{",
        "{}",
        "]",
        "'",
        "''",
        "$$",
        "$$ (",
    ),
    "-- a", "/* a", "*/", ";", "a$$(b)", "$$([c])", "/Expr(1)/", "a/Expr(1)/", '"/Expr(1)/', "Expr(", "",
    "語", "\U0001f600", "é", "E'", "%s", "x" * 488, "x" * 489, "語" * 200,
]  # fmt: skip
#: own parts that are not an ad with one such text
OTHERS: list[Any] = [
    {}, [], [{}], [{"Args": "a"}], "a", "", '{"Args": "a"}', "{}", 1, 1.0, True, None,
    {"Args": None}, {"Args": 1}, {"Args": 1e300}, {"Args": False}, {"Args": []}, {"Args": {}},
    {"Args": {"Args": "a"}}, {"Args": ["a"]}, {"": "a"}, {"args": "a"}, {"Args\n": "a"}, {'A"': "a"},
    {"Argsy": "a"}, {"Args": "a", "Foo": "b"}, {"Foo": "a", "Out": "b"}, {'Args": "a", "Out': "b"},
    dict.fromkeys(("Args", "Arguments", "Env", "Environment", "In", "Out", "Err"), "a"),
    dict.fromkeys(("Args", "Arguments", "Env", "Environment", "In", "Out", "Err", "Iwd"), "a"),
]  # fmt: skip
PARTS = [*OTHERS, *({name: text} for name in ("Args", "Out") for text in TEXTS)]
JOB = {"Cmd": "/bin/true", "Owner": "alice"}


def answers(queue: DirectQueue, procs: list[str | None] | None, room: int | None = 500) -> tuple[Any, Any]:
    """The function's answer, and that of a check of each part."""
    return (
        queue.value("SELECT fetchwork.are_like(%s::jsonb[], %s)", procs, room),
        queue.value(ONE_BY_ONE, procs, room),
    )


def around(length: int) -> list[str]:
    """Plain and empty parts, for one more in their midst."""
    return [json.dumps({"Args": (str(n) * length)[:length]}) if n % 3 else "{}" for n in range(10, 109)]


@pytest.mark.parametrize("length", [1, 400])
def test_one_part_among_a_hundred_decides_wherever_it_stands(queue: DirectQueue, length: int) -> None:
    others = around(length)
    said = {}
    for part in map(json.dumps, PARTS):
        (said[part], one_by_one) = answers(queue, [part])
        assert said[part] is one_by_one, part
        for at in (0, 1, 50, 98, 99):
            assert answers(queue, [*others[:at], part, *others[at:]]) == (one_by_one, one_by_one), (part, at)
    assert set(said.values()) == {True, False}


def test_two_parts_that_look_plain_together_are_not(queue: DirectQueue) -> None:
    for one in TEXTS:
        for ads in ([one, {"Args": "a"}], [{"Args": one}, one], [{"Foo": one}, {"Args": "a", "Out": one}]):
            procs: list[str | None] = [*map(json.dumps, ads)]
            assert answers(queue, procs) == (False, False), procs


@pytest.mark.parametrize("room", [None, -1, 0, 1, 2, 13, 14, 500])
def test_no_parts_and_no_room_are_answered_too(queue: DirectQueue, room: int | None) -> None:
    plain = json.dumps({"Args": "12"})
    lists: list[list[str | None] | None] = [None, [], [None], ["{}"], ["{}"] * 100, [None] * 100, ["null"]]
    lists += [
        ["{}", None],
        [None, "{}"],
        [plain],
        [plain] * 1000,
        [plain, None],
        ["{}", plain],
        [plain, "{}"],
    ]
    lists += [[*[plain] * 999, None], [*[plain] * 999, "1"]]
    for procs in lists:
        found, one_by_one = answers(queue, procs, room)
        assert found is one_by_one, procs
    assert queue.value('SELECT fetchwork.are_like(\'{{"{}","{}"},{"{}","1"}}\'::jsonb[], 9)') is False


@pytest.mark.parametrize(
    "part",
    [
        *(
            [],
            "a",
            None,
            {"Args": 1},
            {"Args": {"Args": "a"}},
            {"Args": "a", "Foo": "b"},
            {"Args": "x" * 70000},
        ),
        *({"Args": text} for text in ('"}\n{"', "\n", "\x7f", "/Expr(1)/", "/Expr(1", "a$$(b)", "}]", "\\n")),
    ],
    ids=lambda part: json.dumps(part)[:20],
)
def test_a_part_among_a_hundred_is_stored_or_refused_as_it_is_alone(queue: DirectQueue, part: Any) -> None:
    def submitted(procs: list[str], at: int) -> object:
        try:
            cluster = queue.value("SELECT fetchwork.submit_cluster(%s, %s::jsonb[])", Jsonb(JOB), procs)
        except psycopg.Error as error:
            return error.sqlstate, error.diag.message_primary
        return queue.value("SELECT ad FROM fetchwork.job WHERE cluster_id = %s AND proc_id = %s", cluster, at)

    own = json.dumps(part)
    alone = submitted([own], 0)
    assert alone == part or isinstance(alone, tuple)
    for at in (0, 50, 99):
        others = around(1)
        assert submitted([*others[:at], own, *others[at:]], at) == alone
