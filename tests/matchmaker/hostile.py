"""Ads that once ended every fetch of every host, and random ads."""

import json
import random
import string

# each of these once ended every fetch of every host
HOSTILE: dict[str, str] = {
    "number of 5000 digits": json.dumps({"Requirements": f"/Expr({'9' * 5000} > 1)/"}),
    "number of 5000 digits in JSON": '{"Foo": ' + "9" * 5000 + "}",
    "string that is not UTF-8": json.dumps({"Foo": '/Expr("\\377")/', "Requirements": "/Expr(Foo == 1)/"}),
    "not UTF-8 by a function": json.dumps({"Requirements": '/Expr(strcat("\\377") == "x")/'}),
    "JSON nested 1500 deep": '{"Foo": ' + "[" * 1500 + "]" * 1500 + "}",
    "JSON nested 100000 deep": '{"Foo": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "eval of strings, 22 levels": json.dumps(
        {f"A{n}": f'/Expr(eval("A{n + 1}")+eval("A{n + 1}"))/' for n in range(22)}
        | {"A22": 1, "Requirements": "/Expr(A0 > 1)/"}
    ),
    "regexp that backtracks": json.dumps(
        {
            "Requirements": "/Expr("
            + " || ".join(f'regexp("(a+)+$", "{"a" * 30}{n}b")' for n in range(50))
            + ")/"
        }
    ),
    "strcat that doubles": json.dumps(
        {"X": "a" * 1_000_000}
        | {f"B{n}": f"/Expr(strcat(B{n - 1}, B{n - 1}))/" for n in range(1, 12)}
        | {"B0": "/Expr(X)/", "Requirements": "/Expr(size(B11) > 1)/"}
    ),
    "circle": json.dumps({"A": "/Expr(B)/", "B": "/Expr(A)/", "Requirements": "/Expr(A > 1)/"}),
    "no JSON": "[1, 2",
    "request of next to nothing": json.dumps({"RequestCpus": 1e-300}),
}
PLAIN = json.dumps({"RequestCpus": 1, "Requirements": '/Expr(TARGET.OpSys == "LINUX")/'})

_FUNCTIONS = [
    "strcat",
    "substr",
    "regexp",
    "regexps",
    "replaceAll",
    "splitUserName",
    "size",
    "int",
    "real",
    "string",
    "eval",
    "evalInEachContext",
    "countMatches",
    "stringListMember",
    "join",
    "split",
    "toUpper",
    "ifThenElse",
    "isUndefined",
    "unparse",
    "interval",
    "formatTime",
    "absTime",
    "relTime",
    "pow",
    "quantize",
    "random",
    "sum",
    "anyCompare",
    "allCompare",
    "member",
    "identicalMember",
    "versioncmp",
    "userMap",
    "mergeEnvironment",
    "listToArgs",
    "argsToList",
    "stringListRegexpMember",
    "strcmp",
    "floor",
    "round",
    "debug",
    "noSuchFunction",
]
_OPERATORS = [
    "+",
    "-",
    "*",
    "/",
    "%",
    "&&",
    "||",
    "==",
    "!=",
    "=?=",
    "=!=",
    "<",
    ">=",
    "<<",
    ">>>",
    "&",
    "|",
    "^",
]
_NAMES = [
    "A",
    "B",
    "C",
    "MY.A",
    "TARGET.Memory",
    "TARGET.Requirements",
    "Requirements",
    "RequestCpus",
    "Owner",
]
_NUMBERS = [0, 1, -1, 2**31, 2**63 - 1, -(2**63), 1e308, 1e-308, 0.1]


def made_by_chance(seed: int) -> dict[str, object]:
    """A malicious or careless submitter's ad; the same for the same seed."""
    chance = random.Random(seed)
    if chance.random() < 0.02:
        text = HOSTILE[chance.choice(sorted(HOSTILE))]
        try:
            ad = json.loads(text)
            return dict(ad) if isinstance(ad, dict) else {}
        except (ValueError, RecursionError):
            return {"Foo": text[:1000]}
    names = [
        "Requirements",
        "A",
        "B",
        "C",
        *chance.sample(["Rank", "RequestCpus", "RequestMemory", "Arguments"], 2),
    ]
    ad = {name: f"/Expr({_expression(chance, chance.randrange(1, 7))})/" for name in names}
    if chance.random() < 0.3:
        name = chance.choice(names)
        ad[name] = _mutated(chance, ad[name])
    return dict(ad)


def _expression(chance: random.Random, depth: int) -> str:
    if depth == 0 or chance.random() < 0.1:
        return _leaf(chance)
    form = chance.random()
    if form < 0.45:
        operator = chance.choice(_OPERATORS)
        return f"({_expression(chance, depth - 1)} {operator} {_expression(chance, depth - 1)})"
    if form < 0.85:
        arguments = ", ".join(_expression(chance, depth - 1) for _ in range(chance.randrange(4)))
        return f"{chance.choice(_FUNCTIONS)}({arguments})"
    if form < 0.95:
        return "{" + ", ".join(_expression(chance, depth - 1) for _ in range(chance.randrange(5))) + "}"
    return f"[ x = {_expression(chance, depth - 1)}; y = x ]"


def _leaf(chance: random.Random) -> str:
    form = chance.random()
    if form < 0.3:
        return chance.choice(_NAMES)
    if form < 0.6:
        return str(
            chance.choice(
                [0, 1, -1, 2**31, 2**63 - 1, -(2**63), 1e308, 1e-308, 0.1, 10 ** chance.randrange(25)]
            )
        )
    if form < 0.7:
        return chance.choice(["undefined", "error", "true", "false"])
    text = "".join(chance.choice(string.printable[:95] + "äß\u20ac") for _ in range(chance.randrange(30)))
    return json.dumps(text, ensure_ascii=False) if form < 0.95 else f'"\\{chance.randrange(1, 256):03o}"'


def _mutated(chance: random.Random, text: str) -> str:
    at = chance.randrange(6, max(7, len(text) - 2))
    return (
        text[:at]
        + chance.choice(["(", ")", '"', "\\", "9" * 30, "{", "", "&&"])
        + text[at + chance.randrange(2) :]
    )
