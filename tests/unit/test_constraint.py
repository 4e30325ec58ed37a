"""The parts of a constraint that become SQL, and the parts that are left to HTCondor."""

import dataclasses
from typing import Any

import pytest

from fetchwork.classad.jsonform import from_json
from fetchwork.condor.q import qoptions
from fetchwork.errors import ClassAdError
from fetchwork.queue.constraints.constraint import compile_constraint, joined
from fetchwork.queue.constraints.source import Column, Source

SOURCE = Source(
    {
        "clusterid": Column("clusterid", "integer", 31),
        "jobstatus": Column("jobstatus", "integer", 31),
        "owner": Column("owner", "string"),
        "holdreason": Column("holdreason", "string"),
        "remotewallclocktime": Column("remotewallclocktime", "real"),
        "exitbysignal": Column("exitbysignal", "boolean"),
    },
    spellings={"requestmemory": "RequestMemory"},
    owners=("alice", "Alice", "bob"),
)
COMPOSED = dataclasses.replace(
    SOURCE,
    columns={
        **SOURCE.columns,
        "procid": Column("procid", "integer", 31),
        "qdate": Column("qdate", "integer", 45),
        "user": Column("u", "string"),
        "globaljobid": Column("g", "string"),
    },
    forms={
        "user": [("", "Owner"), ("@Pool", "")],
        "globaljobid": [("Pool#", "ClusterId"), (".", "ProcId"), ("#", "QDate")],
    },
)


@pytest.mark.parametrize("ids", [["1.0"], ["1", "7.0"]])
def test_condor_qs_constraint_of_jobs_of_a_batch_leaves_most_jobs_to_the_database(ids: list[str]) -> None:
    """It also asks for nodes and for jobs of a batch id, by an expression that only HTCondor evaluates."""
    options = qoptions.parse(ids)
    options.batch = True
    compiled = compile_constraint(qoptions.constraint_of(options), COMPOSED)
    assert "split(JobBatchId" in compiled.text
    assert compiled.sql != "true"
    # as HTCondor's: without a JobBatchId, only the first id's jobs are printed
    jobs = [from_json({"ClusterId": cluster, "ProcId": 0}) for cluster in (1, 7)]
    assert [compiled.accepts(job) for job in jobs] == [True, False]


@pytest.mark.parametrize(
    ("constraint", "sql", "params"),
    [
        ("ClusterId == 42", "clusterid = %s", (42,)),
        ("42 == clusterid", "clusterid = %s", (42,)),
        ("3 < MY.JobStatus", "jobstatus > %s", (3,)),
        ("JobStatus == 1 || JobStatus == 5", "(jobstatus = %s OR jobstatus = %s)", (1, 5)),
        ("!(JobStatus == 1 && ClusterId < 9)", "(jobstatus <> %s OR clusterid >= %s)", (1, 9)),
        ("HoldReason =?= undefined", "holdreason IS NULL", ()),
        ('HoldReason == "X"', 'lower(holdreason COLLATE "C") = %s', ("x",)),
        ('HoldReason =!= "X"', "holdreason IS DISTINCT FROM %s", ("X",)),
        ('Owner == "ALICE"', "owner = ANY(%s)", (["ALICE", "Alice", "alice"],)),
        ('Owner =?= "alice"', "owner = %s", ("alice",)),
        ("RemoteWallClockTime >= -1.5", "remotewallclocktime >= %s", (-1.5,)),
        ("true", "true", ()),
        ("false || undefined", "false", ()),
    ],
)
def test_comparisons_of_columns_become_sql_and_nothing_is_left(
    constraint: str, sql: str, params: tuple[Any, ...]
) -> None:
    compiled = compile_constraint(constraint, SOURCE)
    assert (compiled.sql, compiled.params, compiled.exact) == (sql, params, True)


@pytest.mark.parametrize(
    "constraint",
    [
        'member(Owner, {"a"})',
        'regexp("(?=a)", Owner)',
        'regexp("a", Owner, "m")',
        'regexp("1", JobStatus)',
        "ClusterId == ProcId",
        "JobStatus",
        'JobStatus == "1"',
        "JobStatus =?= 1.0",
        "ExitBySignal == true",
        "TARGET.ClusterId == 42",
        "ClusterId == 9007199254740993",
        "JobStatus == 1 ? true : false",
        '"x"',
        "error",
        "'odd name' == 42",
    ],
)
def test_what_sql_can_t_tell_is_left_to_htcondor(constraint: str) -> None:
    compiled = compile_constraint(constraint, SOURCE)
    assert (compiled.sql, compiled.exact) == ("true", False)


@pytest.mark.parametrize(
    ("constraint", "sql", "params"),
    [
        (
            'regexp("^a.*b_$", Owner)',
            '(((owner) COLLATE "C") LIKE %s AND ((owner) COLLATE "C") ~ %s)',
            ("a%b\\_%", r"^a(?:.?)*b\u005f(?:\n)?$"),
        ),
        (
            'regexp("Sub kit", HoldReason, "i")',
            '(lower((holdreason) COLLATE "C") LIKE %s AND lower((holdreason) COLLATE "C") ~ %s)',
            ("%ub %it%", r".?ub\u0020.?it"),
        ),
        ('regexp("a|b", Owner)', '(((owner) COLLATE "C") ~ %s)', ("a|b",)),
        ('stringListMember("a", Owner)', '(strpos(((owner) COLLATE "C"), %s) > 0)', ("a",)),
        ('stringListIMember(Owner, "A,b")', '(strpos(%s, lower((owner) COLLATE "C")) > 0)', ("a,b",)),
        ("time() - JobStatus > true", "true", ()),
        ("time(1) - JobStatus > 60", "true", ()),
    ],
)
def test_what_can_t_be_selected_is_not_left_to_htcondor(
    constraint: str, sql: str, params: tuple[Any, ...]
) -> None:
    compiled = compile_constraint(constraint, SOURCE)
    assert (compiled.sql, compiled.params, compiled.exact) == (sql, params, False)


@pytest.mark.parametrize(
    ("constraint", "sql", "params"),
    [
        ("time() - JobStatus > 60", "jobstatus < %s", (940,)),
        ("60 >= time() - JobStatus", "jobstatus >= %s", (940,)),
        ("JobStatus < time() - 60", "jobstatus < %s", (940,)),
        ("!(time() + 5 < RemoteWallClockTime)", "remotewallclocktime <= %s", (1005,)),
        ("time() == JobStatus", "jobstatus = %s", (1000,)),
        ("ClusterId + 1 == 43", "clusterid = %s", (42,)),
        ("2 * 3 <= 10 - ClusterId", "clusterid <= %s", (4,)),
        ("ClusterId == -7 / 2", "clusterid = %s", (-3,)),
        ("ClusterId == JobStatus", "(clusterid)::bigint = (jobstatus)::bigint", ()),
        ("ClusterId % 10 != -7 % 3", "mod((clusterid)::bigint, %s::bigint) <> %s::bigint", (10, -1)),
    ],
)
def test_what_numbers_come_to_is_known_exactly(
    constraint: str, sql: str, params: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 1000.7)
    compiled = compile_constraint(constraint, SOURCE)
    assert (compiled.sql, compiled.params, compiled.exact) == (sql, params, True)


_THIS = "((clusterid = %s AND procid = %s) AND qdate = %s)"
_NOT_THIS = "((clusterid <> %s OR procid <> %s) OR qdate <> %s)"


@pytest.mark.parametrize(
    ("constraint", "sql", "params"),
    [
        ('GlobalJobId == "pOOL#42.0#17"', _THIS, (42, 0, 17)),
        ('"Pool#42.0#17" =?= MY.globaljobid', _THIS, (42, 0, 17)),
        ('GlobalJobId =?= "pOOL#42.0#17"', "false", ()),
        ('GlobalJobId != "Pool#42.0#-17"', _NOT_THIS, (42, 0, -17)),
        ('!(GlobalJobId =!= "Pool#42.0#17")', _THIS, (42, 0, 17)),
        ('strcmp(GlobalJobId, "Pool#42.0#17") == 0', _THIS, (42, 0, 17)),
        ('0 == strcmp("pool#42.0#17", GlobalJobId)', "false", ()),
        ('stricmp("pool#42.0#17", GlobalJobId) != 0', _NOT_THIS, (42, 0, 17)),
        ('GlobalJobId == "Pool#042.0#17"', "false", ()),
        ('GlobalJobId == "Pool#42.0#17\\n"', "false", ()),
        (f'GlobalJobId == "Pool#42.0#{"9" * 5000}"', "false", ()),
        ('GlobalJobId =!= "other#42.0#17"', "true", ()),
        ('User == "ALICE@pool"', "owner = ANY(%s)", (["ALICE", "Alice", "alice"],)),
        ('User =?= "a@b@Pool"', "owner = %s", ("a@b",)),
        ('User != "alice@other"', "true", ()),
    ],
)
def test_composed_attributes_are_compared_part_by_part(
    constraint: str, sql: str, params: tuple[Any, ...]
) -> None:
    compiled = compile_constraint(constraint, COMPOSED)
    assert (compiled.sql, compiled.params, compiled.exact) == (sql, params, True)


@pytest.mark.parametrize(
    ("pattern", "sql", "params"),
    [
        ("#42[.](0|7)#", "clusterid = %s", (42,)),
        (r"^pool#42\\.7#", "(clusterid = %s AND procid = %s)", (42, 7)),
        ("#42[.].*#4[.]", "(clusterid = %s AND clusterid = %s)", (4, 42)),
        # the pattern is not a whole number
        (r"42\\.7", "", ()),
        (r"#42?\\.", "", ()),
        (r"#42|#43\\.", "", ()),
        ("#" + "4" * 19 + "[.]", "", ()),
    ],
)
def test_a_pattern_says_which_parts_what_it_finds_has(
    pattern: str, sql: str, params: tuple[Any, ...]
) -> None:
    compiled = compile_constraint(f'regexp("{pattern}", GlobalJobId)', COMPOSED)
    assert not compiled.exact
    before, found, _ = compiled.sql.partition('(((g) COLLATE "C")')
    assert found and before == (f"({sql} AND " if sql else "")
    assert compiled.params[: len(params)] == params
    # without a match any text is possible
    assert compile_constraint(f'!regexp("{pattern}", GlobalJobId)', COMPOSED).sql == "true"


def test_what_all_composed_texts_have_is_not_looked_for() -> None:
    only_once = ('(((g) COLLATE "C") ~ %s)', (r"\u0023(?:no|such)(?:\n)?$",))
    compiled = compile_constraint('regexp("#(no|such)$", GlobalJobId)', COMPOSED)
    assert (compiled.sql, compiled.params) == only_once
    compiled = compile_constraint('regexp("7#(no|such)$", GlobalJobId)', COMPOSED)
    assert compiled.params[0] == "%7#%"


def test_a_database_may_be_called_as_a_job() -> None:
    form = [("x#1.2#", "ClusterId"), (".", "ProcId"), ("#", "QDate")]
    source = dataclasses.replace(COMPOSED, forms={"globaljobid": form})
    assert "clusterid" not in compile_constraint('regexp("#1[.]2#", GlobalJobId)', source).sql
    assert compile_constraint('GlobalJobId == "x#1.2#3.4#5"', source).params == (3, 4, 5)


@pytest.mark.parametrize(
    "constraint",
    [
        "ClusterId % 2.5 == 1",
        "ClusterId * ClusterId == 4",
        "ClusterId + 9007199254740993 > 4",
        "RequestMemory * RequestMemory * RequestMemory * RequestMemory * RequestMemory > 1",
        "ClusterId + true > 4",
        "Owner + 1 > 4",
        "Colour == Shade",
    ],
)
def test_what_may_come_to_another_number_in_sql_is_left_to_htcondor(constraint: str) -> None:
    source = dataclasses.replace(SOURCE, columns={**SOURCE.columns, "clusterid": Column("c", "integer", 31)})
    compiled = compile_constraint(constraint, source)
    assert (compiled.sql, compiled.exact) == ("true", False)


def test_an_answer_is_of_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQL omits a job whose constraint was not yet true, and HTCondor cannot find it true a moment later."""
    monkeypatch.setattr("time.time", lambda: 1000.7)
    compiled = compile_constraint('time() - Began > 60 && "time()" == Text && time() > Began', SOURCE)
    assert compiled.text == '1000 - Began > 60 && "time()" == Text && 1000 > Began'
    monkeypatch.setattr("time.time", lambda: 2000.0)
    assert compiled.accepts(from_json({"Began": 939, "Text": "time()"}))
    assert not compiled.accepts(from_json({"Began": 940, "Text": "time()"}))


def test_a_conjunction_is_narrowed_by_the_part_that_translates() -> None:
    compiled = compile_constraint('ClusterId == 42 && member("a", Cmd)', SOURCE)
    assert (compiled.sql, compiled.params, compiled.exact) == ("clusterid = %s", (42,), False)


def test_an_unknown_part_of_a_disjunction_leaves_everything_open() -> None:
    assert compile_constraint('ClusterId == 42 || member("a", Cmd)', SOURCE).sql == "true"


def test_attributes_of_the_ad_are_found_by_their_one_spelling_or_by_any() -> None:
    assert "(ad -> %s)" in compile_constraint("requestmemory > 5", SOURCE).sql
    assert "fetchwork.attribute_of(ad, %s)" in compile_constraint("Colour == 5", SOURCE).sql


@pytest.mark.parametrize("constraint", ["(((", "ClusterId ==", "a = 3", "x\0"])
def test_no_expression_is_refused(constraint: str) -> None:
    with pytest.raises(ClassAdError):
        compile_constraint(constraint, SOURCE)


def test_many_parentheses_are_translated() -> None:
    compiled = compile_constraint(f"{'(' * 100}ClusterId == 4{')' * 100}", SOURCE)
    assert (compiled.sql, compiled.exact) == ("clusterid = %s", True)


@pytest.mark.parametrize(
    "text", [f"{'(true && ' * 190}ClusterId == 4{')' * 190}", " || ".join(["ClusterId == 4"] * 2000)]
)
def test_what_is_nested_deeper_than_python_goes_is_left_to_htcondor(text: str) -> None:
    compiled = compile_constraint(text, SOURCE)
    assert (compiled.sql, compiled.exact) == ("true", False)
    assert compiled.accepts(from_json({"ClusterId": 4}))


@pytest.mark.parametrize(
    "text", ["ClusterId == 4)", "(ClusterId == 4", "ClusterId == 4 true", " && ", "true || "]
)
def test_what_only_looks_like_a_constraint_of_ids_is_refused(text: str) -> None:
    for function in (lambda: compile_constraint(text, SOURCE), lambda: joined([text])):
        with pytest.raises(ClassAdError):
            function()


def test_constraints_are_joined_each_by_itself() -> None:
    assert joined(["a || b", "c"]) == "(a || b) && (c)"
    assert joined([]) == "true"
    with pytest.raises(ClassAdError):
        joined(["true) || (true"])


def test_only_true_and_numbers_other_than_zero_are_accepted() -> None:
    ad = from_json({"A": 1})
    accepted = [
        text
        for text in ("true", "A", "2", "0", "false", "undefined", "error", '"x"', "B")
        if compile_constraint(text, SOURCE).accepts(ad)
    ]
    assert accepted == ["true", "A", "2"]
