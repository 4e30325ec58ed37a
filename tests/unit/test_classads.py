"""Old text, new text and JSON: input and output are equal, and no value yields a second line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import classad2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fetchwork.classad.ads import parse_expr, parse_old, print_old, quote, split_ads
from fetchwork.classad.jsonform import UNREADABLE, from_json, to_json
from fetchwork.classad.values import ERROR, UNDEFINED, ClassAd, evaluate, format_expr, matches, references
from fetchwork.errors import ClassAdError

ADS = Path(__file__).parent.parent / "data" / "ads"
SLOT = (ADS / "25.14.1-fetch_work-static-unclaimed.ad").read_bytes()


def ad_of(**attributes: Any) -> ClassAd:
    ad = ClassAd()
    for name, value in attributes.items():
        ad[name] = value
    return ad


def same(left: object, right: object) -> bool:
    return repr(left) == repr(right)


# -- properties

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30) | st.text(
    st.sampled_from("\\\"\n\r\t'; =[]{}()/#-a\x01\x7f\x85\u2028ü😀"), max_size=20
)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name.lower() not in {"claimid", "claimids", "capability"}
)
expressions = st.sampled_from(
    [
        "TARGET.Memory > 10 && MY.Foo =?= undefined",
        'strcat("a\\n", foo, "\\\\")',
        'eval("1 + 2")',
        'eval("\\"a\\nb\\"")',
        'eval("eval(\\"\\\\\\"a\\\\nb\\\\\\"\\")")',
        '{ a, b + 1, "x\\\\" }[0]',
        "a ? b : c",
        "'odd name' + .abs",
        'absTime("2020-01-01T00:00:00+02:00")',
        'relTime("00:00:05")',
        "-x + !y",
        "[ a = 1; b = a ].b",
    ]
).map(parse_expr)
scalars = (
    texts
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    # numbers that HTCondor prints with 16 digits must not round up to infinity
    | st.floats(-1e308, 1e308)
    | st.sampled_from([float("inf"), float("-inf"), float("nan")])
    | st.sampled_from([UNDEFINED, ERROR])
    | expressions
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(names | st.just("odd 'name'"), inner, max_size=4).map(lambda items: ad_of(**items))
    ),
    max_leaves=8,
)
ads = st.dictionaries(names, values, max_size=5).map(lambda items: ad_of(**items))
slow_machine = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@slow_machine
@given(ads)
def test_what_is_printed_reads_back_the_same_and_takes_one_line_an_attribute(ad: Any) -> None:
    text = print_old(ad)
    assert len(text.splitlines()) == text.count("\n") == len(ad)
    assert same(parse_old(text), ad)
    assert same(parse_old(text, strict=True), ad)


@slow_machine
@given(ads)
def test_htcondor_evaluates_what_is_printed_to_the_values_that_went_in(ad: Any) -> None:
    read = classad2.parseNext(print_old(ad), classad2.ParserType.Old) if len(ad) else ClassAd()
    assert list(map(str.lower, sorted(read))) == list(map(str.lower, sorted(ad)))
    for name in ad:
        if isinstance(ad[name], str):
            assert read.eval(name) == ad[name]


@slow_machine
@given(ads)
def test_json_reads_back_the_same(ad: Any) -> None:
    text = json.dumps(to_json(ad))
    assert same(from_json(json.loads(text)), ad)


@slow_machine
@given(st.floats(allow_nan=False))
def test_a_real_keeps_every_digit(number: Any) -> None:
    ad = ad_of(x=number)
    assert parse_old(print_old(ad)).eval("x") == number
    assert from_json(json.loads(json.dumps(to_json(ad)))).eval("x") == number


@slow_machine
@given(texts)
def test_a_quoted_string_is_a_literal_of_that_string(text: str) -> None:
    quoted = quote(text)
    assert len(quoted.splitlines()) == 1
    assert parse_expr(quoted).eval() == text


@slow_machine
@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_text_is_an_ad_or_a_classad_error_of_one_line(text: str) -> None:
    for strict in (False, True):
        try:
            parse_old(text, strict=strict)
        except ClassAdError as exc:
            assert len(str(exc).splitlines()) == 1


@slow_machine
@given(st.text(max_size=100) | st.text('[]{}();="\\/*ab1 \n', max_size=40))
def test_any_text_is_an_expression_or_a_classad_error(text: str) -> None:
    try:
        expression = parse_expr(text)
    except ClassAdError:
        return
    assert len(format_expr(expression).splitlines()) == 1


# -- captures of both versions


def captures() -> list[Path]:
    return sorted(path for path in ADS.iterdir() if path.suffix in (".ad", ".txt"))


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.name)
def test_every_captured_ad_comes_out_as_it_came_in(path: Path) -> None:
    data = path.read_bytes()
    found = split_ads(data) if path.suffix == ".txt" else [parse_old(data)]
    for ad in found:
        assert same(parse_old(print_old(ad)), ad)
        assert same(from_json(json.loads(json.dumps(to_json(ad)))), ad)


@pytest.mark.parametrize("version", ["23.9.6", "25.14.1"])
def test_a_real_starter_gives_back_every_value_that_was_fetched(version: str) -> None:
    sent = from_json(json.loads((ADS / "any-value.json").read_text()))
    back = parse_old((ADS / f"{version}-job_exit-any-value.ad").read_bytes())
    for name in sent:
        assert same(back.lookup(name), sent.lookup(name)), name


def test_a_backslash_in_old_text_is_a_backslash() -> None:
    assert parse_old('x = "a\\nb"')["x"] == "a\\nb"


def test_a_line_break_is_printed_as_a_call_that_htcondor_evaluates() -> None:
    text = print_old(ad_of(Arguments='echo "a"\nb'))
    assert text == 'Arguments = eval("\\"echo \\\\"a\\\\"\\nb\\"")\n'
    assert classad2.parseNext(text, classad2.ParserType.Old).eval("Arguments") == 'echo "a"\nb'
    assert parse_old(text)["Arguments"] == 'echo "a"\nb'


def test_a_forged_attribute_stays_inside_its_value() -> None:
    ad = ad_of(Note='x"\nOwner = "root"', Owner="alice")
    read = classad2.parseNext(print_old(ad), classad2.ParserType.Old)
    assert read.eval("Owner") == "alice"


# -- omitted attributes


@pytest.mark.parametrize("name", ["ClaimId", "claimid", "PairedClaimId", "_condor_privFoo", "ChildClaimIds"])
def test_private_attributes_are_left_out(name: str) -> None:
    ad = parse_old(f'Name = "slot1"\n{name} = "<1.2.3.4>#1#secret"\n')
    assert list(ad) == ["Name"]


def test_two_ads_are_split_at_the_first_line_of_dashes_alone() -> None:
    job, slot = split_ads(b'A = "x ----- y"\nB = "-----"\n-----\nName = "slot1"\nClaimId = "s"\n')
    assert (sorted(job), list(slot)) == (["A", "B"], ["Name"])


def test_an_ad_without_the_separator_is_refused() -> None:
    with pytest.raises(ClassAdError, match="no line '-----'"):
        split_ads(b"A = 1\n")


# -- bad input


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nbad line\n", "line 2 of the ad is not 'attribute = expression': 'bad line'"),
        ("a = 1\n\nb = 2\n", "line 2 of the ad is not 'attribute = expression': '(blank)'"),
        ('a = 1\nFetchWorkToken = "s3cret\n', "line 2 .*: 'FetchWorkToken = ...'$"),
        ("a = 1\nb = \0\n", "line 2 of the ad holds a NUL character"),
        ("a = 1\n-----\nb = 2\n", "line 2 of the ad is not 'attribute = expression': '-----'"),
    ],
)
def test_bad_text_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ClassAdError, match=message.replace("(", r"\(").replace(")", r"\)")):
        parse_old(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nA = 2\n", "attribute 'A' is given on line 1 and again on line 2"),
        ('Cmd = "/bin/ls" 5\n', "line 1 of the ad: value of 'Cmd' is not a ClassAd expression"),
        ("a = 1 ; b = 2\n", "value of 'a' is not a ClassAd expression"),
        ("a = 1 ] x [ b = 2\n", "value of 'a' is not a ClassAd expression"),
        ("a = 9223372036854775808\n", "integer 9223372036854775808 does not fit in 64 bits"),
        ("a.b = 1\n", "line 1 of the ad is not"),
    ],
)
def test_strict_reading_refuses_what_htcondor_passes_over(text: str, message: str) -> None:
    parse_old(text)
    with pytest.raises(ClassAdError, match=message):
        parse_old(text, strict=True)


def test_the_smallest_integer_is_read() -> None:
    ad = parse_old("a = -9223372036854775808\nb = 9223372036854775807", strict=True)
    assert (ad["a"], ad["b"]) == (-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a ? : b || c", "a ?: b || c"),
        ("a ?\n\t: b", "a ?: b"),
        ("\"x ? : y\" ? : 'VersionLE('", "\"x ? : y\" ?: 'VersionLE('"),
        ('VERSIONle("1",versioneq (a,"versiongt("))', 'versionLE("1",versionEQ(a,"versiongt("))'),
        ("a =?= b ? c : d", "a is b ? c : d"),
    ],
)
def test_an_expression_is_read_as_htcondor_25_reads_it(text: str, read: str) -> None:
    assert repr(parse_expr(text)) == read
    if "\n" not in text:
        assert repr(parse_old(f"a = {text}", strict=True).lookup("a")) == read


def test_a_condition_whose_middle_is_no_expression_is_refused() -> None:
    for read in (parse_expr, lambda text: parse_old(f"a = {text}", strict=True)):
        with pytest.raises(ClassAdError, match=r"the part between '\?' and ':' is not an expression"):
            read('a ? relTime("x") : b ?: c')


def test_more_operators_in_a_row_than_htcondor_25_evaluates_are_refused_by_name() -> None:
    clause = 'Machine == "execute-1.example.org"'
    assert parse_expr(" || ".join([clause] * 380))
    assert parse_expr(" || ".join([f"({' || '.join([clause] * 200)})"] * 4))
    with pytest.raises(ClassAdError, match=r"expression has 400 operators in a row.*stringListMember\(\)"):
        parse_expr(" || ".join([clause] * 400))


def test_names_are_known_of_a_selection_from_a_list() -> None:
    assert references(parse_expr('{ "x y" }.a + b')) == {"a", "b"}


@pytest.mark.parametrize(
    "text", ["", "1; b = 2", "1 ] [ x = 1", "1 2", "1 /*", "a = = b", "(", '"x', "\0", "99999999999999999999"]
)
def test_what_is_not_one_expression_is_refused(text: str) -> None:
    with pytest.raises(ClassAdError):
        parse_expr(text)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": 2**63}, "attribute 'a': integer 9223372036854775808 does not fit in 64 bits"),
        ({"a": "x\0y"}, "attribute 'a': a string can't hold a NUL character"),
        ({"a": "/Expr(1 +)/"}, "attribute 'a': not a ClassAd expression: '1 \\+'"),
        ({"a": "\ud800"}, "attribute 'a': a string holds half a surrogate pair"),
        ({"a": 1, "A": 2}, "attribute 'A' is given twice"),
        ({"a": {"b": [object()]}}, "attribute 'a': attribute 'b': a object has no ClassAd form"),
        ({"b": "x", "\u212a": 1, "k": 1, "B": "/Expr(x)/"}, "attribute 'B' is given twice"),
        ({"": 1}, "attribute name '' is empty"),
    ],
)
def test_json_that_is_no_ad_is_refused_with_its_attribute(value: dict[str, Any], message: str) -> None:
    with pytest.raises(ClassAdError, match=message):
        from_json(value)


def test_letters_that_are_alike_beyond_ascii_are_two_names() -> None:
    """The Kelvin sign is a k for Python, but not for HTCondor."""
    ad = from_json({"\u212a": 1, "k": "text"})
    assert (ad["\u212a"], ad["k"], len(ad)) == (1, "text", 2)


def test_a_name_that_htcondor_can_not_read_is_not_printed() -> None:
    with pytest.raises(ClassAdError, match="attribute name 'odd name'"):
        print_old(ClassAd({"odd name": 1}))


def test_nested_json_is_bounded() -> None:
    value = 1
    for _ in range(500):
        value = [value]  # type: ignore[assignment]
    with pytest.raises(ClassAdError, match="nested deeper than 120"):
        from_json({"a": value})


DEEP = {
    "parentheses": lambda n: "(" * n + "1" + ")" * n,
    "lists": lambda n: "{" * n + "}" * n,
    "ads": lambda n: "[a=" * n + "1" + "]" * n,
    "not": lambda n: "!" * n + "true",
    "minus": lambda n: "- " * n + "1",
    "plus": lambda n: "1" + "+1" * n,
    "is": lambda n: "a" + " is a" * n,
    "dots": lambda n: "a" + ".a" * n,
    "hidden in quoted names": lambda n: "'\"' + " + "(" * n + "1" + ")" * n + " + '\"'",
    "hidden in comments": lambda n: '/*"*/' + "(" * n + "1" + ")" * n + '/*"*/',
}


@pytest.mark.parametrize("shape", DEEP)
def test_deep_expressions_are_refused_or_read_but_never_end_the_process(shape: str) -> None:
    # in a process of its own, because the test is that it does not die
    script = """
import sys
from fetchwork.classad.ads import parse_expr, parse_old, print_old, quote, split_ads
from fetchwork.classad.jsonform import UNREADABLE, from_json, to_json
from fetchwork.classad.values import evaluate, format_expr, matches, references
from fetchwork.errors import ClassAdError
text = sys.stdin.read()
for read in (parse_expr, lambda text: parse_old("x = " + text),
             lambda text: parse_old("x = " + text, strict=True),
             lambda text: from_json({"x": f"/Expr({text})/"})):
    try:
        read(text)
    except ClassAdError as exc:
        print(str(exc)[-60:])
"""
    for levels in (199_990, 39_000 // len(DEEP[shape](1))):
        run = subprocess.run(
            [sys.executable, "-c", script], input=DEEP[shape](levels), text=True, capture_output=True
        )
        assert run.returncode == 0, (levels, run.stderr[-300:])


def test_a_long_string_is_no_long_expression() -> None:
    text = "(" * 100_000
    assert parse_old(f'x = "{text}"')["x"] == text
    assert from_json({"x": f'/Expr(foo == "{text}")/'})


# -- JSON


def test_json_is_htcondors_own_form() -> None:
    ad = parse_old('a = 1\nb = 2.0\nc = "x"\nd = undefined\ne = error\nf = x + 1\ng = {1, y}\nh = [i = true]')
    theirs = json.loads(ad.printJson())
    assert to_json(ad) == theirs
    assert theirs["f"] == "/Expr(x + 1)/"


def test_a_string_that_looks_like_an_expression_stays_a_string() -> None:
    ad = ad_of(a="/Expr(1 + 1)/")
    assert to_json(ad) == {"a": '/Expr("/Expr(1 + 1)/")/'}
    assert from_json(to_json(ad))["a"] == "/Expr(1 + 1)/"


def test_a_large_real_stays_a_real_where_json_numbers_lose_their_exponent() -> None:
    assert to_json(ad_of(a=1e22, b=-0.0, c=0.5)) == {
        "a": "/Expr(1E+22)/",
        "b": "/Expr(-0.0)/",
        "c": 0.5,
    }


# -- matching


def job_of(**more: Any) -> ClassAd:
    return ad_of(RequestCpus=1, RequestMemory=1, RequestDisk=1, **more)


@pytest.mark.parametrize(
    ("requirements", "expected"),
    [
        (None, True),
        ("TARGET.Memory >= 1024", True),
        ("TARGET.Memory > 1024", False),
        ("TARGET.NoSuch > 1", False),
        ("TARGET.NoSuch =?= undefined", True),
        ("error", False),
        ("2", True),
        ("0.0", False),
        ('"yes"', False),
        ('Arch == "x86_64"', True),
        ("TARGET.Memory >= MY.RequestMemory", True),
    ],
)
def test_the_jobs_requirements_are_judged_against_the_slot(requirements: str | None, expected: bool) -> None:
    slot = parse_old(SLOT)
    more = {} if requirements is None else {"Requirements": parse_expr(requirements)}
    assert matches(job_of(**more), slot) is expected


def test_the_slots_requirements_are_judged_against_the_job() -> None:
    slot = parse_old(SLOT)
    assert matches(job_of(), slot)
    assert not matches(ad_of(RequestCpus=99, RequestMemory=1, RequestDisk=1), slot)
    slot["Start"] = parse_expr('TARGET.Owner == "alice"')
    assert not matches(job_of(Owner="bob"), slot)
    assert matches(job_of(Owner="alice"), slot)


def test_evaluate_says_undefined_and_error() -> None:
    slot = parse_old(SLOT)
    assert evaluate(slot, "NoSuch") is UNDEFINED
    assert evaluate(slot, parse_expr('1 + "x"')) is ERROR
    assert evaluate(slot, parse_expr("TARGET.X + Memory"), ad_of(X=1)) == 1025
    assert evaluate(slot, "Memory") == 1024


def test_references_are_as_written() -> None:
    expression = parse_expr('TARGET.Memory > Foo && MY.Bar =?= "Baz"')
    assert references(expression) == {"TARGET.Memory", "Foo", "Bar"}
    assert references(parse_expr("1")) == frozenset()


def test_ad_of_too_many_lines_is_refused_before_it_is_read() -> None:
    with pytest.raises(ClassAdError, match="ad of 30000 lines is longer than 20000"):
        parse_old("A = 1\n" * 30_000)


# -- values that Python or the bindings cannot hold


@pytest.mark.parametrize(
    "text",
    [
        r'"\377"',
        r'strcat("\377", "x")',
        r'{ "\303" }',
        r'[ a = "\377" ]',
        r'Foo /* " */ == "\377"',
        r'"\\\377"',
        r'"ä\303"',
    ],
)
def test_string_that_is_not_utf8_is_refused(text: str) -> None:
    with pytest.raises(ClassAdError, match="is not UTF-8"):
        parse_expr(text)
    with pytest.raises(ClassAdError, match=r"attribute 'Foo': string .* is not UTF-8"):
        from_json({"Foo": f"/Expr({text})/"})


@pytest.mark.parametrize(
    ("text", "value"),
    [(r'"\303\244"', "ä"), (r'"\101\n"', "A\n"), (r'"\\377"', "\\377"), (r'"\\\\377ä"', "\\\\377ä")],
)
def test_string_with_escapes_that_is_utf8_is_read(text: str, value: str) -> None:
    assert parse_expr(text).eval() == value
    assert from_json({"Foo": f"/Expr({text})/"})["Foo"] == value


@pytest.mark.parametrize(
    "text", ['substr("ä", 0, 1)', '{ substr("ä", 0, 1) }[0]', '[ a = substr("ä", 0, 1) ].a']
)
def test_text_cut_within_a_character_is_an_error(text: str) -> None:
    ad = from_json({"Foo": f"/Expr({text})/"})
    assert evaluate(ad, "Foo") is ERROR
    assert evaluate(ad, parse_expr(text)) is ERROR


@pytest.mark.parametrize("digits", ["9" * 5000, "1" + "0" * 19, "-" + "9" * 20])
def test_integer_of_any_length_is_refused_by_its_size(digits: str) -> None:
    with pytest.raises(ClassAdError, match="does not fit in 64 bits"):
        parse_expr(f"{digits} > 1")
    with pytest.raises(ClassAdError, match="does not fit in 64 bits"):
        parse_old(f"Foo = {digits}", strict=True)


@pytest.mark.parametrize(
    "value", [10**5000, -(10**5000), 2**63], ids=["thousands of digits", "negative", "too large"]
)
def test_integer_of_json_that_does_not_fit_is_refused(value: int) -> None:
    with pytest.raises(ClassAdError, match=r"attribute 'Foo': integer .* does not fit in 64 bits"):
        from_json({"Foo": value})


def test_json_nested_deeper_than_allowed_is_refused_before_python_gives_up() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ClassAdError, match="nested deeper than 120"):
        from_json({"Foo": deep})
    while isinstance(deep, list):
        deep = deep[0]


def test_ad_that_could_not_be_read_from_json_says_why() -> None:
    with pytest.raises(ClassAdError, match="of thousands of digits"):
        from_json({UNREADABLE: "a number of thousands of digits"})
