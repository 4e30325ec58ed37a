"""$$(Attr), $$([expr]) and $$(Attr:default) in a job's ad; tests/condor/test_slot_values.py asks a schedd."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from fetchwork.classad.ads import parse_old
from fetchwork.classad.jsonform import from_json, to_json
from fetchwork.errors import ClassAdError
from fetchwork.matchmaker.bounds import AD_BYTES
from fetchwork.matchmaker.client import Matchmaker
from fetchwork.matchmaker.expansion import CannotExpand, Expansion, expand
from fetchwork.matchmaker.printing import Run

SLOT_TEXT = (
    'OpSys = "LINUX"\nCpus = 4\nMemory = 1024\nQuoted = "a \\"b\\" c"\nDollars = "$$(OpSys)"\n'
    'Start = (Cpus > 2) && true\nNamed = Name == "x"\nLoad = 0.5\nBack = "C:\\dir"\nHasX = true\n'
    'UidDomain = "u"\n'
)
SLOT = parse_old(SLOT_TEXT)


def expanded(ad: dict[str, Any]) -> Expansion:
    job = from_json({"Owner": "alice", "Width": 3, **ad})
    return expand(from_json(ad), job, SLOT)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("a $$(OpSys) b", "a LINUX b"),
        ("$$(opsys)$$(Cpus)", "LINUX4"),
        ("$$(Load) $$(HasX) $$(Back)", "0.5 true C:\\dir"),
        ("$$(Quoted)", 'a "b" c'),
        ("'$$(Start)'", "'(Cpus > 2) && true'"),
        ("$$(Nope:turkey) $$(Nope:) $$(OpSys:turkey)", "turkey  LINUX"),
        ("$$(Nope:a b,c\\d:$e/f.g(h i)j)", "a b,c\\d:$e/f.g(h i)j"),
        ("$$([Memory / 2]) $$([MY.Width + TARGET.Cpus])", "512 7"),
        ('$$([strcat("x", Owner)]) $$([{1, 2}[1]])', "xalice 2"),
        # an inserted value is not expanded again
        ("$$(Dollars) $$(DOLLARDOLLAR)(OpSys)", "$$(OpSys) $$(OpSys)"),
        # the characters before the macro belong to it
        ("$$$(OpSys) $(OpSys) $x$$(OpSys) $$x(OpSys)", "$$$(OpSys) $(OpSys) $xLINUX $$x(OpSys)"),
        ("$$(no name) $$(a!b) $$(OpSys $$([1+1) $$(", "$$(no name) $$(a!b) $$(OpSys $$([1+1) $$("),
        ("$$(bad $$(OpSys))", "$$(bad LINUX)"),
        ("line\nof $$(OpSys)\n", "line\nof LINUX\n"),
    ],
)
def test_macro_becomes_the_slots_value(text: str, result: str) -> None:
    assert dict(expanded({"Args": text}).values.items()) == ({"Args": result} if result != text else {})


@pytest.mark.parametrize(
    ("text", "macro"),
    [
        ("a $$(Nope) b", "Nope"),
        ("$$(OpSys) $$(Nope)", "Nope"),
        ("$$(a.b:default)", "a.b"),
        ("$$()", ""),
        ("$$([Nope])", "[Nope]"),
        ("$$([1 +])", "[1 +]"),
        ("$$([1) + (2])", "[1) + (2]"),
        ("$$([error])", "[error]"),
    ],
)
def test_macro_without_a_value_is_told_in_the_words_of_a_schedd(text: str, macro: str) -> None:
    with pytest.raises(CannotExpand) as caught:
        expanded({"Args": text})
    assert str(caught.value) == f"Cannot expand $$ expression ({macro})."


def test_value_that_breaks_the_attribute_is_the_ads_fault() -> None:
    with pytest.raises(ClassAdError, match="attribute 'Args' is no expression with the slot's values in it"):
        expanded({"Args": "$$(Named)"})


def test_values_are_counted_before_they_are_put_together() -> None:
    slot = parse_old(f'Long = "{"x" * (1 << 20)}"')
    ad = {"Args": "$$(Long)" * 100}
    tracemalloc.start()
    try:
        with pytest.raises(ClassAdError, match="it has more than"):
            expand(from_json(ad), from_json(ad), slot)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * AD_BYTES


def test_every_attribute_that_is_no_number_is_expanded() -> None:
    done = expanded(
        {
            "Env": "A=$$(Cpus)",
            "Anything": "$$(OpSys)",
            "Listed": ["$$(Memory)", 1],
            "Expr": '/Expr(ifThenElse(Foo, "$$(OpSys)", "$$(Nope:no)"))/',
            "Number": 5,
            "Plain": "a $ b",
            # the values of an earlier match are ignored
            "MATCH_EXP_Args": "$$(Nope)",
            "match_Old": "$$(Nope)",
        }
    )
    assert to_json(done.values) == {
        "Env": "A=4",
        "Anything": "LINUX",
        "Listed": ["1024", 1],
        "Expr": '/Expr(ifThenElse(Foo,"LINUX","no"))/',
    }


def test_what_was_put_in_is_remembered() -> None:
    done = expanded({"Args": "$$(OpSys) $$(Nope:turkey) $$([1 + 1]) $$(DOLLARDOLLAR)", "Env": "C=$$(Start)"})
    assert to_json(done.remembered) == {
        "MATCH_OpSys": "LINUX",
        "MATCH_Nope": "turkey",
        "MATCH_Start": "/Expr((Cpus > 2) && true)/",
        "MATCH_EXP_Args": "LINUX turkey 2 $$",
        "MATCH_EXP_Env": "C=(Cpus > 2) && true",
    }


async def _print(matchmaker: Matchmaker, ad: dict[str, Any], **more: Any) -> tuple[str, Any]:
    run = Run(1, "b2d9a0f2-7d8c-4e0b-9c3c-1f4f5c0f9c11", 42, 3, "alice", False, ad, **more)
    printed = await matchmaker.print_ad(
        run, SLOT_TEXT.encode(), kept={"transferoutput"}, host="ep", keyword="FW", uid_domain=None
    )
    return printed.text.decode(), printed.remembered


async def test_ad_is_printed_with_the_slots_values(matchmaker: Matchmaker) -> None:
    text, remembered = await _print(
        matchmaker,
        {
            "Cmd": "/sw/$$(OpSys)/prog",
            "Args": "$$([ClusterId]).$$([ProcId])",
            "MATCH_EXP_Cmd": "/sw/OTHER/prog",
            "Out": "_condor_stdout",
            "TransferOutput": "out.$$(OpSys)",
        },
        hidden={"Out": "/home/$$(OpSys)"},
    )
    assert 'Cmd = "/sw/LINUX/prog"\n' in text
    assert 'Args = "42.3"\n' in text
    assert 'Out = "_condor_stdout"\n' in text
    assert "MATCH_EXP" not in text and "TransferOutput" not in text
    assert remembered["MATCH_EXP_Out"] == "/home/LINUX"
    assert remembered["MATCH_EXP_TransferOutput"] == "out.LINUX"
    assert remembered["MATCH_EXP_Cmd"] == "/sw/LINUX/prog"


async def test_ad_without_macros_is_printed_without_asking(matchmaker: Matchmaker) -> None:
    assert (await _print(matchmaker, {"Cmd": "/bin/true", "Args": "$(x) $$x"}))[1] == {}
    assert matchmaker.processes.worker == 0


@pytest.mark.parametrize(
    "text",
    [
        # evaluated for ever
        "$$([" + " || ".join(f'regexp("(a+)+$", "{"a" * 30}{n}b")' for n in range(50)) + "])",
        # larger than any ad
        "$$(Quoted)" * 400_000,
        json.dumps("$$([" + "(" * 100_000 + "])"),
    ],
)
async def test_hostile_expression_costs_its_job_alone(matchmaker: Matchmaker, text: str) -> None:
    with pytest.raises(ClassAdError):
        await _print(matchmaker, {"Cmd": "/bin/true", "Args": text})
    assert 'Args = "4"' in (await _print(matchmaker, {"Cmd": "/bin/true", "Args": "$$(Cpus)"}))[0]
