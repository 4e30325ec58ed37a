"""Ads that no agent should have to read are refused with one line, on every way into the queue."""

import json
import sys
from typing import Any

import psycopg
import pytest

from tests.support.direct_queue import DirectQueue

GOOD = {"Cmd": "/bin/true", "Owner": "alice"}


def expr(text: str) -> str:
    return f"/Expr({text})/"


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a number of 5000 digits": ({"Requirements": expr("9" * 5000 + " > 1")}, "more than 400 characters"),
    "an expression that breaks off": ({"Requirements": expr("Memory >")}, "ends with an operator"),
    "an expression that begins within": ({"Requirements": expr("&& Memory > 1")}, "begins or ends with"),
    "a bracket that does not close": ({"Requirements": expr("(Memory > 1")}, "without its other half"),
    "a string that does not end": ({"Requirements": expr('Arch == "X86_64')}, "string that does not end"),
    "a comment before 101 brackets": ({"Rank": expr("/* */" + "(" * 101 + ")" * 101)}, "deeper than 100"),
    "a fraction of 5000 digits": ({"Foo": 0.5}, "more than 400 digits"),
    "a list nested 1500 deep": ({"Foo": deep(1500)}, "nested deeper than 100"),
    "a list nested 101 deep": ({"Foo": deep(101)}, "nested deeper than 100"),
    "parentheses 101 deep": ({"Rank": expr("(" * 101 + "1" + ")" * 101)}, "nested deeper than 100"),
    "brackets of several kinds": ({"Rank": expr("{[a=(" * 40 + "1" + ")]}" * 40)}, "nested deeper than 100"),
    "a hundred signs": ({"Rank": expr("- " * 100 + "1")}, "more than 100 operators"),
    "a byte that is not UTF-8": ({"Foo": expr(r'"\377"')}, "not UTF-8"),
    "half a character": ({"Foo": expr(r'"\303"')}, "not UTF-8"),
    "an overlong character": ({"Foo": expr(r'"\300\200"')}, "not UTF-8"),
    "a surrogate": ({"Foo": expr(r'"\355\240\200"')}, "not UTF-8"),
    "a byte behind a backslash": ({"Foo": expr(r'"\\\377"')}, "not UTF-8"),
    "a NUL": ({"Foo": expr(r'"a\0b"')}, "NUL in a string"),
    "a NUL of three digits": ({"Foo": expr(r'"a\000b"')}, "NUL in a string"),
    "hardly a CPU": ({"RequestCpus": 1e-300}, "allowed: 0, or 0.000001 to 2147483647"),
    "too many CPUs": ({"RequestCpus": 2**31}, "allowed: 0, or 0.000001 to 2147483647"),
    "too much memory": ({"RequestMemory": 2**40}, "allowed: 0, or 0.000001"),
    "a disk of 2^60": ({"RequestDisk": 2**60}, "allowed: 0, or 0.000001 to 1E15"),
    "less than nothing": ({"RequestGPUs": -1}, "not below 0"),
    "notes of 2 MB": ({"SubmitEventNotes": "x" * 2_000_000}, "max_attribute_bytes"),
    "many attributes": ({f"Foo{n}": "x" * 1_000_000 for n in range(5)}, "max_job_bytes"),
    "a batch name of 10 MB": ({"JobBatchName": "x" * 10_000_000}, "bytes; allowed"),
    "a batch name of 3 kB": ({"JobBatchName": "x" * 3000}, "allowed: 2000"),
    "a log's path of 3 kB": ({"UserLog": "/" + "x" * 3000}, "allowed: 2000"),
    "an accounting group of 300 bytes": ({"AccountingGroup": "x" * 300}, "allowed: 250"),
    "a root directory": ({"RequestedChroot": "/srv/root"}, "RequestedChroot"),
    "a name of 257 characters": ({"A" * 257: 1}, "is not an attribute name"),
    "a name with a sign": ({"A-B": 1}, "is not an attribute name"),
    "a name with a line break": ({"A\n": 1}, "is not an attribute name"),
    "an integer of 65 bits": ({"Foo": 2**64}, "more than 64 bits"),
    "an integer of 65 bits in a list": ({"Foo": [{"a": 2**64}]}, "more than 64 bits"),
}

ACCEPTED: dict[str, dict[str, Any]] = {
    "a name of 256 characters": {"A" * 256: 1},
    "ninety-nine signs": {"Rank": expr("- " * 99 + "1")},
    "a name of 400 characters in an expression": {"Foo": expr("a" * 399)},
    "a list nested 99 deep": {"Foo": deep(99)},
    "parentheses 100 deep": {"Rank": expr("(" * 100 + "1" + ")" * 100)},
    "many parentheses beside each other": {"Rank": expr(" + ".join(["(1)"] * 300))},
    "characters of two, three and four bytes": {"Foo": expr(r'"\303\251 \342\202\254 \360\237\230\200"')},
    "a backslash before digits": {"Foo": expr(r'"C:\\377"')},
    "a control character": {"Foo": expr(r'"\001\012"')},
    "parentheses and digits in a string": {"Foo": expr('"' + "(" * 300 + "9" * 500 + '"')},
    "comments, quoted names and names of the outermost ad": {
        "Requirements": expr("'a (b' > -1 && .Memory > 1 // (c"),
        "Rank": expr("/* > */ 1 /* ( */"),
    },
    "a hundredth of a CPU": {"RequestCpus": 0.01},
    "dollars": {"Args": "$(x) $$x $ $$", "Foo": "$$(OpSys)"},
    "values of the slot": {"Args": "a $$(OpSys)", "Cmd": "/sw/$$(Arch)/x", "eNV": "A=$$([1+1])"},
    "a deferral as submit writes it": {
        "DeferralTime": 2000000000,
        "Requirements": expr("(time() + ScheddInterval) >= (DeferralTime - DeferralPrepTime)"),
    },
    "a start at a time": {"DeferralTime": 2000000000, "DeferralWindow": 60},
    "no CPU": {"RequestCpus": 0},
    "nothing of a disk": {"RequestDisk": 0.0},
    "notes of 500 kB": {"SubmitEventNotes": "x" * 500_000},
    "a small number": {"Foo": 5e-324},
}


def as_json(name: str, ad: dict[str, Any]) -> str:
    """JSON deeper than Python writes, with a number that Python lacks."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        text = json.dumps(ad)
    finally:
        sys.setrecursionlimit(limit)
    return text.replace("0.5", "0." + "5" * 5000) if "5000 digits" in name and "fraction" in name else text


ROADS = {
    "submit": "SELECT fetchwork.submit(cmd => '/bin/true', owner => 'alice', ad => %(ad)s::jsonb)",
    "submit_many": 'SELECT fetchwork.submit_many(ARRAY[%(ad)s::jsonb, \'{}\'], \'{"Cmd": "/bin/true", "Owner": "alice"}\')',
    "common": 'SELECT fetchwork.submit_cluster(\'{"Cmd": "/bin/true", "Owner": "alice"}\'::jsonb || %(ad)s::jsonb, ARRAY[\'{}\'::jsonb])',
    "edit": "SELECT fetchwork.edit(ARRAY['1.0'], %(ad)s::jsonb)",
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_on_every_road(queue: DirectQueue, name: str) -> None:
    ad, message = REFUSED[name]
    queue.submit_many([{}], GOOD)
    for road, statement in ROADS.items():
        if road == "submit" and "RequestCpus" in ad:
            continue  # its own parameter wins
        with pytest.raises(psycopg.Error) as caught:
            queue.connection.execute(statement, {"ad": as_json(name, ad)})
        assert caught.value.sqlstate == "FWINV", (road, caught.value)
        line = str(caught.value.diag.message_primary)
        assert message in line, (road, line[:300])
        assert "\n" not in line
        assert len(line) < 400


@pytest.mark.parametrize("name", ACCEPTED)
def test_it_is_accepted(queue: DirectQueue, name: str) -> None:
    queue.submit_many([{}], GOOD)
    for road, statement in ROADS.items():
        answer = queue.connection.execute(statement, {"ad": as_json(name, ACCEPTED[name])})
        assert answer.fetchone(), road


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("number", ["1e-330", "-1e-330", "0." + "0" * 390 + "1"])
def test_a_number_that_no_real_is_as_small_as_is_refused(queue: DirectQueue, road: str, number: str) -> None:
    """Any constraint that compares with it would fail."""
    queue.submit_many([{}], GOOD)
    with pytest.raises(psycopg.Error, match="too small"):
        queue.connection.execute(ROADS[road], {"ad": f'{{"Foo": {number}}}'})


@pytest.mark.parametrize("number", ["0." + "0" * 390, "5e-324", "-5e-324", "1e-308", "9.2e18"])
def test_whatever_is_accepted_can_be_compared(queue: DirectQueue, number: str) -> None:
    queue.submit_many([{}], GOOD)
    queue.connection.execute(ROADS["edit"], {"ad": f'{{"Foo": {number}}}'})
    compared = "SELECT (ad ->> 'Foo')::float8 < 1e19 FROM fetchwork.job"
    assert queue.value(compared) is True


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("/Expr(a)/", True),
        ("/Expr()/", True),
        ("/Expr(a\nb)/", True),
        ("/Expr(100%_\\)/", True),
        ("/Expr(a)/)/", True),
        *(
            (text, False)
            for text in ("/Expr(/", "/Expr)/", "/expr(a)/", " /Expr(a)/", "/Expr(a)/\n", "/Expr(a)", "")
        ),
        *((other, False) for other in (1, None, True, ["/Expr(a)/"], {"/Expr(a)/": "/Expr(a)/"})),
    ],
)
def test_an_expression_is_a_string_of_that_form(queue: DirectQueue, value: object, expected: bool) -> None:
    found = queue.value("SELECT fetchwork.is_expression(%s::jsonb)", json.dumps(value))
    assert found is expected
    # and no value at all has an answer, too
    assert queue.value("SELECT fetchwork.is_expression(NULL)") is False


@pytest.mark.parametrize("code", [3_000_000_000, -1, 2**63 - 1])
def test_a_policy_may_give_any_number_as_code(queue: DirectQueue, code: int) -> None:
    queue.submit_many([{}], GOOD)
    assert queue.scalar(
        "apply_policy",
        cluster=1,
        proc=0,
        status=1,
        action="hold",
        reason="r",
        code=code,
        subcode=code,
    )
    assert queue.status("1.0") == 5


@pytest.mark.parametrize("number", [3_000_000_000, 1e300, "x"])
def test_a_verdict_may_hold_any_number(queue: DirectQueue, number: object) -> None:
    queue.submit_many([{}, {}], GOOD)
    held = {"action": "hold", "reason": "r", "code": number, "subcode": number}
    assert queue.finish(queue.started(), verdict=held) == "completed"
    again = {"action": "requeue", "delay_s": number}
    assert queue.finish(queue.started(), verdict=again) == "completed"


@pytest.mark.parametrize("weight", [1e-300, 1e300, float("nan"), float("inf"), 0.0])
def test_no_weight_ends_a_claim(queue: DirectQueue, weight: float) -> None:
    queue.submit_many([{}], GOOD)
    assert queue.claim(weight=str(weight)) is not None


def test_ids_go_up_to_what_an_integer_holds(queue: DirectQueue) -> None:
    queue.connection.execute("SELECT setval('fetchwork.cluster_id', 2147483646)")
    (job,) = queue.submit_many([{}], GOOD)
    assert job == "2147483647.0"
    assert queue.act("hold", job) == 1
    assert queue.act("release", "2147483647") == 1
    for wrong in ("2147483648", "1.2147483648", "12345678901"):
        with pytest.raises(psycopg.Error, match="is not a job id"):
            queue.act("hold", wrong)
