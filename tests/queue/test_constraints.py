"""A constraint selects the same jobs, no matter which parts SQL and HTCondor evaluate."""

import itertools
import re
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fetchwork.classad.ads import quote
from fetchwork.classad.bindings import JobAction
from fetchwork.classad.jsonform import from_json
from fetchwork.queue.constraints.constraint import compile_constraint
from fetchwork.queue.constraints.source import Source
from fetchwork.queue.reading.evaluating import Evaluation
from fetchwork.queue.reading.paging import Position
from fetchwork.queue.reading.selecting import compiled
from fetchwork.queue.reading.sifting import Sieve
from fetchwork.queue.reading.views import JOBS
from tests.queue.conftest import Queue
from tests.support.direct_queue import DirectQueue
from tests.support.sessions import session_of

# possible values of an ad, expressions among them, in varied spellings
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -7,
    2.5,
    "/Expr(1E+300)/",
    "",
    "x",
    "X",
    "Ärger",
    "/Expr(2 * JobPrio)/",
    "/Expr(undefined)/",
    '/Expr(strcat(Owner, "x"))/',
    "/Expr(error)/",
    [1, 2],
    {"a": 1},
    9007199254740993,
    "/Expr(Other)/",
]

# numbers that divide, wrap, or are too large or too small for PostgreSQL's doubles
NUMBERS: list[Any] = [
    7,
    8,
    -9,
    1000,
    0.1,
    2.0,
    1e-300,
    123456789012,
    2**52 + 1,
    2**63 - 1,
    -(2**63),
    3.3333333333333335,
]

names = st.sampled_from(
    [
        "ClusterId",
        "procid",
        "JobStatus",
        "JobPrio",
        "Owner",
        "OWNER",
        "HoldReason",
        "HoldReasonCode",
        "NumHolds",
        "RemoteWallClockTime",
        "RequestMemory",
        "requestmemory",
        "Colour",
        "colour",
        "MY.Colour",
        "Other",
        "Nowhere",
    ]
)
literals = st.one_of(
    st.sampled_from(
        [
            "undefined",
            "error",
            "true",
            "false",
            '"x"',
            '"X"',
            '""',
            '"alice"',
            '"ALICE"',
            '"ärger"',
            "9007199254740993",
            "1E300",
            '"submitted on hold at user\'s request"',
        ]
    ),
    st.integers(-8, 8).map(str),
    st.sampled_from(["2.5", "-0.5", "1.0"]),
)
patterns = st.sampled_from(
    [
        '"x"',
        '"^x$"',
        '"^(x|bob)$"',
        '"[A-Z]l+ice"',
        '"X"',
        '"^al"',
        '"[xÄ]"',
        '"ärger"',
        '"b+o?b"',
        '"^.*rg"',
        '"(a|x)"',
        '""',
        '"1"',
        '"("',
    ]
)
operators = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "=?=", "=!="])
# constraints that SQL decides, with jobs on both sides
typical = st.one_of(
    st.tuples(st.sampled_from(["ProcId", "JobPrio", "JobStatus", "Colour"]), st.integers(-2, 6).map(str)),
    st.tuples(
        st.sampled_from(["Owner", "Colour", "HoldReason"]), st.sampled_from(['"alice"', '"X"', '"bob"'])
    ),
)
# computed numbers of both types, divided by numbers that may be 0
sums = st.recursive(
    st.one_of(names, st.integers(-8, 8).map(str), st.sampled_from(["2.5", "-0.5", "0.1", "1000", "true"])),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "/", "%"]), inner),
        st.builds("(-({}))".format, inner),
    ),
    max_leaves=4,
)
comparisons = st.one_of(
    st.builds(lambda pair, sign: f"{pair[0]} {sign} {pair[1]}", typical, operators),
    st.builds(lambda pair, sign: f"{pair[1]} {sign} {pair[0]}", typical, operators),
    st.builds(lambda pair, sign: f"!({pair[0]} {sign} {pair[1]})", typical, operators),
    st.builds("{} {} {}".format, names, operators, literals),
    st.builds("{} {} {}".format, literals, operators, names),
    st.builds("{} {} {}".format, names, operators, names),
    names,
    literals,
    st.builds("{} + 1 > {}".format, names, st.integers(-3, 3)),
    st.builds("{} {} {}".format, sums, operators, sums),
    st.builds("isUndefined({})".format, names),
    st.builds('stringListMember({}, "x,alice")'.format, names),
    st.builds('stringListIMember("X", {})'.format, names),
    st.builds("regexp({}, {})".format, patterns, names),
    st.builds('regexp({}, {}, "i")'.format, patterns, names),
    st.builds("time() - {} {} {}".format, names, operators, st.sampled_from(["0", "-7", "1E300", "true"])),
    st.builds("{} {} time() - {}".format, names, operators, st.sampled_from(["0", "100000", "1E300"])),
)
constraints = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds("({} && {})".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        st.builds("!({})".format, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
    ),
    max_leaves=6,
)


@pytest.fixture
def some_jobs(slots: DirectQueue) -> None:
    """Jobs with every value, in an attribute of known spelling and in an attribute of any spelling."""
    ads: list[dict[str, Any]] = []
    for number, value in enumerate(VALUES):
        ad = {"Colour" if number % 2 else "colour": value, "Owner": ("alice", "Alice", "bob")[number % 3]}
        if value is not True and value is not False and not isinstance(value, list | dict):
            ad["Other"] = value
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0 and value != 2**53 + 1:
            ad["RequestMemory"] = value
        if number % 4 == 0:
            ad["JobStatus"] = 5
        ads.append({**ad, "JobPrio": number % 5 - 2})
    ads.append({"RequestMemory": "/Expr(4 * RequestCpus)/", "RequestCpus": 2})
    ads.append({"RequestMemory": "/Expr(undefined)/"})
    ads += [{"Colour": value, "Other": 3} for value in NUMBERS]
    slots.submit_many(ads)


@pytest.fixture
def whole_ads(some_jobs: None, queue: Queue) -> list[tuple[str, Any]]:
    """The ads of all jobs, without any constraint."""
    rows = session_of(queue).database.query("SELECT * FROM fetchwork.jobs ORDER BY clusterid, procid")
    return [(row["jobid"], from_json(JOBS.ad(row))) for row in rows]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(constraint=constraints)
def test_sql_and_htcondor_select_the_same(
    constraint: str, queue: Queue, whole_ads: list[tuple[str, Any]]
) -> None:
    selection = session_of(queue).run(compiled(JOBS, constraint, session_of(queue).memory))
    expected = [job for job, ad in whole_ads if selection.accepts(ad)]
    found = [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in queue.query(constraint, ["ClusterId", "ProcId"])]
    assert found == expected
    hasty = mock.patch.multiple(Position, CHEAP=-1.0, PAGE=4, SMALLEST=4, LARGEST=7)
    with hasty, mock.patch.object(Sieve, "LEAST", 1):
        # in pieces, of which each begins after the last job of the one before
        ads = queue.query(constraint, ["ClusterId", "ProcId"])
        with mock.patch.multiple(Position, TELLING=4, REST_S=1e9):
            again = queue.query(constraint, ["ClusterId", "ProcId"])
    assert again == ads
    assert [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in ads] == expected
    rows = session_of(queue).database.query(
        f"SELECT jobid FROM fetchwork.jobs WHERE {selection.sql} ORDER BY clusterid, procid", selection.params
    )
    narrowed = [row["jobid"] for row in rows]
    assert set(expected) <= set(narrowed)
    if selection.exact:
        assert narrowed == expected


def test_every_comparison_on_both_sides_of_a_value(queue: Queue, whole_ads: list[tuple[str, Any]]) -> None:
    """Constraints that SQL decides alone, reversed and negated, too: random ones may miss a corner."""
    values = {
        "JobPrio": ("-1", "1", "1.0"),
        "Owner": ('"alice"', '"b"'),
        "HoldReasonCode": ("15", "undefined"),
    }
    values |= {"Colour": ("1", '"X"'), "colour": ('"x"',)}
    for name, literals in values.items():
        for literal, sign in itertools.product(literals, ("==", "!=", "<", "<=", ">", ">=", "=?=", "=!=")):
            for constraint in (
                f"{name} {sign} {literal}",
                f"{literal} {sign} {name}",
                f"!({name} {sign} {literal})",
            ):
                selection = session_of(queue).run(compiled(JOBS, constraint, session_of(queue).memory))
                rows = session_of(queue).database.query(
                    f"SELECT jobid FROM fetchwork.jobs WHERE {selection.sql}", selection.params
                )
                found, expected = (
                    {row["jobid"] for row in rows},
                    {job for job, ad in whole_ads if selection.accepts(ad)},
                )
                assert expected <= found, constraint
                assert found == expected or not selection.exact, constraint


def test_composed_attributes_are_compared_as_htcondor_compares_them(queue: Queue, some_jobs: None) -> None:
    ads = queue.query()
    job, other = ads[1], ads[2]["GlobalJobId"]
    name, user = job["GlobalJobId"], job["User"]
    constraints = [
        f"{mark}({attribute} {sign} {quote(text)})"
        for attribute, texts in (
            ("MY.globaljobid", (name, name.upper(), other, f"{name}0", f"x{name}")),
            ("User", (user, user.upper(), user.replace("@", "@x"), f"{user}x")),
        )
        for text, sign, mark in itertools.product(texts, ("==", "!=", "=?=", "=!="), ("", "!"))
    ]
    constraints.append(
        f"strcmp(GlobalJobId, {quote(name)}) == 0 || stricmp({quote(other.upper())}, GlobalJobId) == 0"
    )
    pattern = f"#{job['ClusterId']}[.]({job['ProcId']}|x)#"
    constraints += [f"{mark}regexp({quote(pattern)}, GlobalJobId)" for mark in ("", "!")]
    for constraint in constraints:
        session = session_of(queue)
        selection = session.run(compiled(JOBS, constraint, session.memory))
        expected = [ad["GlobalJobId"] for ad in ads if selection.accepts(ad)]
        found = queue.query(constraint, ["GlobalJobId"])
        assert [ad["GlobalJobId"] for ad in found] == expected, constraint
        if "globaljobid" in constraint and len(expected) == 1:
            # an index finds it
            assert re.match(r"\(+clusterid = %s AND ", selection.sql), constraint


def test_every_sum_is_htcondors(queue: Queue, whole_ads: list[tuple[str, Any]]) -> None:
    """Each operation on each two types, around the values at which C and PostgreSQL round."""
    parts = (
        "JobPrio",
        "ProcId",
        "RemoteWallClockTime",
        "Colour",
        "Other",
        "RequestMemory",
        "Nowhere",
        "Owner",
    )
    numbers = ("3", "-2", "0", "2.5", "9007199254740992")
    sums = [
        f"{one} {sign} {other}"
        for sign in "+-*/%"
        for one, other in (
            *itertools.product(parts, numbers),
            *itertools.product(numbers, parts),
            *itertools.product(parts[:4], parts),
        )
    ]
    told = 0
    for text in [*sums, *(f"-{part}" for part in parts), "(Colour + 1) / 2 % 3", "7 % (Colour / Other)"]:
        for sign, value in (("==", "1"), (">=", "0"), ("<", "2.5"), ("!=", "-3")):
            constraint = f"{text} {sign} {value}"
            selection = session_of(queue).run(compiled(JOBS, constraint, session_of(queue).memory))
            rows = session_of(queue).database.query(
                f"SELECT jobid FROM fetchwork.jobs WHERE {selection.sql}", selection.params
            )
            found = {row["jobid"] for row in rows}
            expected = {job for job, ad in whole_ads if selection.accepts(ad)}
            assert expected <= found, constraint
            assert found == expected or not selection.exact, constraint
            told += selection.sql != "true"
    # else the test would prove little
    assert told > 4 * len(sums) // 2


@pytest.mark.parametrize("name", ["Colour", "Other", "Nowhere", "RequestMemory", "HoldReason", "NumHolds"])
def test_what_is_beside_an_error_is_as_htcondor_has_it(
    name: str, queue: Queue, whole_ads: list[tuple[str, Any]]
) -> None:
    for sign, joint, mark in itertools.product(("==", "!=", "<", "=?="), ("||", "&&"), ("", "!")):
        for other in ("ProcId != 0", "ProcId >= 0", "Owner == undefined"):
            for constraint in (
                f"{mark}({name} {sign} undefined) {joint} {other}",
                f"{other} {joint} {mark}({name} {sign} undefined)",
            ):
                selection = session_of(queue).run(compiled(JOBS, constraint, session_of(queue).memory))
                expected = [job for job, ad in whole_ads if selection.accepts(ad)]
                found = queue.query(constraint, ["ClusterId", "ProcId"])
                assert [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in found] == expected, constraint


def test_long_values_are_neither_combined_nor_remembered(queue: Queue) -> None:
    """Thousands of them would fill the memory of a process that serves every client."""
    queue.direct.submit_many([{"Args": f"{number} " + "x" * 5000, "Owner": "alice"} for number in range(30)])
    queue.direct.submit_many([{"Args": "7", "Owner": "alice"}])
    constraint = 'substr(Args, 0, 1) == "7"'
    session = session_of(queue)
    selection = session.run(compiled(JOBS, constraint, session.memory))
    evaluation = session.run(Evaluation.of(JOBS, selection, session.memory))
    assert evaluation.combines
    assert session.run(evaluation.combinations("true", [])) is None
    assert not evaluation.combines
    rows = session.database.query(
        f"SELECT {evaluation.columns} FROM fetchwork.jobs ORDER BY clusterid, procid", evaluation.params
    )
    found = session.run(evaluation.accepted(rows))
    assert len(found) == 2
    assert list(evaluation._verdicts.values()) == [True]
    hasty = mock.patch.multiple(Position, CHEAP=-1.0, PAGE=4, SMALLEST=4, LARGEST=7)
    with hasty, mock.patch.object(Sieve, "LEAST", 1):
        assert [ad["ProcId"] for ad in queue.query(constraint, ["ProcId"])] == [key[1] for key, _ in found]


def test_the_generated_constraints_are_sometimes_decided_by_sql_alone() -> None:
    """Else the property above would prove little."""
    source = Source(JOBS.columns())
    assert compile_constraint("(JobStatus == 5 && !(JobPrio < 0)) || HoldReason =?= undefined", source).exact


def test_history_is_found_of_an_owner_who_has_had_no_jobs_for_long(queue: Queue) -> None:
    cluster = queue.submit({"Cmd": "/bin/true", "Owner": "bob"}).cluster()
    queue.act(JobAction.Remove, str(cluster))
    ask = session_of(queue).database.query
    ask("SELECT fetchwork.fold()")
    ask("UPDATE fetchwork.tally SET changed_at = now() - interval '1 year'")
    ask("SELECT fetchwork.forget()")
    assert not ask("SELECT FROM fetchwork.autoclusters")
    for constraint, found in (
        *(('Owner == "bob"', 1), ('Owner != "bob"', 0), ('Owner == "alice"', 0)),
        # in another case, which HTCondor treats as equal
        *(('OWNER == "BOB"', 1), ('"Bob" != owner', 0), ('Owner =?= "BOB"', 0), ('Owner =!= "BOB"', 1)),
    ):
        assert len(list(queue.history(constraint, ["ClusterId"]))) == found, constraint
