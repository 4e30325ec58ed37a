"""Expressions by chance: every function, operator, type of value and scope of ClassAds.

Most of them make sense by type; one part in eight does not, so that errors and undefined come up too.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence


def _words(text: str) -> list[str]:
    return text.split()


#: by a function's name: the types of its arguments (`?`: optional, `*`: repeated), and its value's
FUNCTIONS: dict[str, tuple[str, str]] = {
    **{f"is{name}": ("any", "bool") for name in ("undefined", "error", "string", "integer", "real", "list")},
    **{f"is{name}": ("any", "bool") for name in ("classad", "boolean", "abstime", "reltime")},
    "member": ("any list", "bool"),
    "identicalMember": ("any list", "bool"),
    "size": ("many", "int"),
    **dict.fromkeys(("sum", "avg", "min", "max"), ("list", "num")),
    "anyCompare": ("comparison list num", "bool"),
    "allCompare": ("comparison list num", "bool"),
    "getYear": ("abs", "int"),
    "getMonth": ("abs", "int"),
    "getDayOfYear": ("abs", "int"),
    "getDayOfMonth": ("abs", "int"),
    "getDayOfWeek": ("abs", "int"),
    "getDays": ("rel", "int"),
    "getHours": ("time", "int"),
    "getMinutes": ("time", "int"),
    "getSeconds": ("time", "int"),
    "splitTime": ("time", "ad"),
    "formatTime": ("time format?", "str"),
    "strcat": ("any* any any?", "str"),
    "join": ("str any any", "str"),
    "toUpper": ("any", "str"),
    "toLower": ("any", "str"),
    "substr": ("str int int?", "str"),
    "strcmp": ("any any", "int"),
    "stricmp": ("any any", "int"),
    "versioncmp": ("version version", "int"),
    **{f"version{name}": ("version version", "bool") for name in ("LE", "LT", "GE", "GT", "EQ")},
    "version_in_range": ("version version version", "bool"),
    "regexp": ("pattern str options?", "bool"),
    "regexpMember": ("pattern list options?", "bool"),
    "regexps": ("pattern str str options?", "str"),
    "replace": ("pattern str str options?", "str"),
    "replaceAll": ("pattern str str options?", "str"),
    "int": ("any", "int"),
    "real": ("any", "num"),
    "string": ("any", "str"),
    "bool": ("any", "bool"),
    "absTime": ("moment", "abs"),
    "relTime": ("duration", "rel"),
    "unparse": ("name", "str"),
    "unresolved": ("name str?", "bool"),
    "floor": ("any", "int"),
    "ceil": ("any", "int"),
    "ceiling": ("any", "int"),
    "round": ("any", "int"),
    "pow": ("num num", "num"),
    "quantize": ("num many", "num"),
    "ifThenElse": ("any any any", "any"),
    "interval": ("num", "str"),
    "eval": ("text", "any"),
    "debug": ("any", "any"),
    "stringListsIntersect": ("strings strings str?", "bool"),
    "stringListSize": ("strings str?", "int"),
    **{f"stringList{name}": ("strings str?", "num") for name in ("Sum", "Avg", "Min", "Max")},
    "stringListMember": ("str strings str?", "bool"),
    "stringListIMember": ("str strings str?", "bool"),
    "stringListSubsetMatch": ("strings strings str?", "bool"),
    "stringListISubsetMatch": ("strings strings str?", "bool"),
    "stringList_regexpMember": ("pattern strings str? options?", "bool"),
    "envV1ToV2": ("str", "str"),
    "mergeEnvironment": ("environment environment?", "str"),
    "listToArgs": ("list", "str"),
    "argsToList": ("str int?", "list"),
    "userMap": ("str str str? str?", "str"),
    "splitUserName": ("address", "list"),
    "splitSlotName": ("address", "list"),
    "split": ("str str?", "list"),
    "evalInEachContext": ("any adlist", "list"),
    "countMatches": ("any adlist", "int"),
}
#: functions of the clock and of chance, in forms whose value does not change
CONSTANT = (
    "time() > 1000",
    "(CurrentTime > 1000)",
    "currentTime() > absTime(1000)",
    "isRelTime(dayTime())",
    "isAbsTime(absTime())",
    "timeZoneOffset()",
    "random(1)",
    "(random() < 1)",
    "isString(formatTime())",
    'isString(userHome("root", "/"))',
)
BINARY = _words("|| && | ^ & == != is isnt =?= =!= < <= > >= << >> >>> + - * / % + - && || ?:")
BINARY.append("? :")
TYPES = ("num", "int", "str", "bool", "list", "ad", "abs", "rel", "name", "special")
NUMBERS = _words(
    "0 1 2 3 10 -1 -7 128 1024 2147483647 2147483648 4294967296 9007199254740993 9223372036854775807 "
    "-9223372036854775807 1000000007 86400 1700000000"
)
#: of the reader of HTCondor's configuration, and none of ClassAds
NOT_NUMBERS = ("017", "0x1F", "00", "09", "5K", "3M", "2G", "1T", "1.5K")
REALS = _words(
    '0.0 -0.0 0.1 .5 1. 1e3 1E+22 1e400 2.5e-8 0.30000000000000004 1e-320 -2.5 real("INF") '
    'real("-INF") real("NaN") 123456789.123456789 9.3e18 1.5 2.5 3.5'
)
STRINGS = _words(
    "a A abc ABC 1 1.5 true TRUE undefined a.b 24.12 25.1.0 10,20,-3 alice@cs.example slot1_2@node "
    "ünï 😀 X86_64 LINUX 0x10 1e3 -5 %Y-%m-%d é a=b;c=d"
)
STRINGS += [
    "",
    "a,b, c",
    "x y",
    " pad ",
    "line\nbreak",
    "tab\t",
    'q"uote',
    "back\\slash",
    "end\\",
    "\x01",
    "'q' w",
]
NAMES = _words(
    "Cpus Memory Name Flag Undef Err List Ad Ads Loop Circle Missing Real Strings Expr Big When Deep "
    "RequestCpus State LoadAvg Requirements Rank"
)
NAMES.append("'odd name'")
MOMENTS = (
    "2020-01-01T00:00:00Z",
    "2020-06-01T12:30:15+02:00",
    "1970-01-01T00:00:00-11:30",
    "2026-11-27T06:00:00",
    "x",
)
DURATIONS = ("1+02:03:04", "-00:00:01.5", "90", "10:00", "0", "3d", "x")
INNER = ("a + Cpus", "parent.Cpus", "MY.Cpus", "undefined", ".Cpus")
CONDITIONS = ("Cpus > 2 && Memory > 64", "TARGET.Cpus is MY.Cpus", "ifThenElse(Flag,Cpus,Undef)")
LISTS = ("{1,2,3}", '{ 1.5,undefined,error,"a" }', "{}", "{ Cpus,Memory,{ 1 } }")
PATTERNS = ("a", "^A.*", "[a-z]+", "(b)(c)?", "\\d+", "", "(", ".*\\n", "a|b")

SCOPES = 12


class Expressions:
    """Expressions of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def _pick(self, texts: Sequence[str]) -> str:
        return self._random.choice(texts)

    def expression(self) -> str:
        """One expression in new syntax; seldom a text that no version reads."""
        if self._random.random() < 0.005:
            return self._long()
        text = self._any(self._random.choice((1, 2, 2, 3, 3, 4)))
        if self._random.random() < 0.01:
            at = self._random.randrange(len(text))
            text = (
                text[:at]
                + self._pick(("", "?", ":", "(", "]", ",", "'", "/*", "//x\n", "\\"))
                + text[at + 1 :]
            )
        return text

    def _long(self) -> str:
        """A chain or a nest of many links."""
        many = self._random.choice((10, 100, 190, 400, 500, 1000))
        return self._pick(
            (
                "Cpus"
                + self._pick((" + ", " && ", " || ", " ?: ", " < "))
                + f" {self._pick(('+', '||', '-'))} ".join(["1"] * many),
                ".".join(["Ad", *["c"] * many]),
                "(" * many + "Cpus" + ")" * many,
                "-" * many + "1",
                "{" * many + "}" * many,
                "Flag ? 1 : " * many + "2",
                "true && " * many + "Loop",
                f"strcat({','.join(['Name'] * many)})",
            )
        )

    def scope(self) -> tuple[str, str]:
        """A MY and a TARGET ad, in old syntax, whose attributes refer to each other."""
        return self._ad(0), self._ad(1)

    def _ad(self, number: int) -> str:
        lines = [
            f"Cpus = {self._random.randint(0, 8)}",
            f"Memory = {self._pick(('128', '1024', '2048 * Cpus', 'TARGET.RequestCpus * 64'))}",
            f'Name = "slot{number}@node"',
            f"Flag = {self._pick(('true', 'false', '1', '0', '0.0'))}",
            "Undef = undefined",
            f"Err = {self._pick(('error', '1 / 0', 'strcat()', '1 + {1}'))}",
            f"List = {self._pick(LISTS)}",
            f"Ad = [ a = 1; b = {self._pick(INNER)}; c = [ d = a ] ]",
            'Ads = { [ Cap = 4.5; Name = "x" ],[ Cap = 7.0 ],undefined,[ Cap = Cpus ] }',
            "Loop = Circle + 1",
            "Circle = Loop",
            f"Real = {self._pick(('0.1', '1E+22', '2.5', '-0.0'))}",
            'Strings = "a, b,C,10"',
            f"Expr = {self._pick(CONDITIONS)}",
            "Big = 9223372036854775807",
            'When = absTime("2020-01-01T00:00:00+02:00")',
            "Deep = Ad.c.d + size(List)",
            f"RequestCpus = {self._pick(('1', '2', 'TARGET.Cpus', 'undefined'))}",
            f"State = {json.dumps(self._pick(('Unclaimed', 'Claimed')))}",
            "LoadAvg = 0.25",
            f"Requirements = {self._pick(('true', 'TARGET.Cpus >= MY.RequestCpus', 'TARGET.Missing'))}",
            f"Rank = {self._pick(('0.0', 'TARGET.Memory', 'Undef'))}",
        ]
        return "".join(f"{line}\n" for line in lines)

    def _any(self, depth: int) -> str:
        return self._of(self._pick(TYPES), depth)

    def _of(self, wanted: str, depth: int) -> str:
        """An expression whose value is probably of a type."""
        chance = self._random.random
        if chance() < 0.12:
            wanted = self._pick(TYPES)
        if depth > 0 and chance() < 0.8:
            choice = chance()
            if choice < 0.45:
                return self._operation(wanted, depth - 1)
            if choice < 0.85:
                return self._call(wanted, depth - 1)
            return self._selection(depth - 1)
        return self._leaf(wanted, depth)

    def _leaf(self, wanted: str, depth: int) -> str:
        if self._random.random() < 0.2 and wanted not in ("name", "comparison"):
            wanted = "name"
        make: dict[str, Callable[[], str]] = {
            "num": lambda: self._pick((*NUMBERS, *REALS)),
            "int": lambda: self._pick(NUMBERS if self._random.random() < 0.99 else NOT_NUMBERS),
            "str": self._string,
            "bool": lambda: self._pick(("true", "false", "TRUE", "False")),
            "list": lambda: self._list(depth),
            "ad": lambda: self._record(depth),
            "abs": lambda: (
                f"absTime({self._pick((*map(json.dumps, MOMENTS), '0', '1700000000', '1.5, 3600'))})"
            ),
            "rel": lambda: f"relTime({self._pick((*map(json.dumps, DURATIONS), '0', '90061.25', '-5'))})",
            "time": lambda: self._leaf(self._pick(("abs", "rel", "int")), depth),
            "name": self._name,
            "special": lambda: self._pick(("undefined", "error", "UNDEFINED", "Error", *CONSTANT)),
            "many": lambda: self._leaf(self._pick(("list", "str", "ad", "num")), depth),
            "comparison": lambda: json.dumps(
                self._pick(("<", "<=", "==", "!=", ">=", ">", "is", "isnt", "x"))
            ),
            "format": lambda: json.dumps(self._pick(("%Y-%m-%d", "%H:%M:%S", "%j %%", "%q", ""))),
            "version": lambda: json.dumps(
                self._pick(("24.12.24", "25.14.1", "25.2", "9", "25.14.1~rc", "", "a1b"))
            ),
            "pattern": lambda: json.dumps(self._pick(PATTERNS)),
            "options": lambda: json.dumps(self._pick(("i", "I", "mis", "xf", "fg", "z", ""))),
            "moment": lambda: self._pick((*map(json.dumps, MOMENTS), "0", "-1", "1700000000", "1e12")),
            "duration": lambda: self._pick((*map(json.dumps, DURATIONS), "0", "-1", "1e7")),
            "text": lambda: json.dumps(self._any(max(0, depth - 1))),
            "strings": lambda: json.dumps(
                self._pick(("a,b,c", "1, 2,3", "A B C", "", ",,", "10;20", "1.5,x"))
            ),
            "environment": lambda: json.dumps(self._pick(("A=1 B=2", "A='x y'", "A", "", "B=3 'C=q'"))),
            "address": lambda: json.dumps(self._pick(("a@b", "@", "slot1@h@x", "none", "@b", "a@"))),
            "adlist": lambda: self._pick(("Ads", "{ Ad,[ Cpus = 1 ] }", "TARGET.Ads", "{}", "{ 1 }")),
        }
        return make[wanted if wanted in make else self._pick(TYPES)]()

    def _string(self) -> str:
        text = json.dumps(self._pick(STRINGS), ensure_ascii=False).replace("\\u0001", "\\001")
        if self._random.random() < 0.05:
            text = text[:-1] + self._pick(("\\101", "\\7", "\\'", "\\?", "\\303\\274", "\\x", "\\a")) + '"'
        return text

    def _name(self) -> str:
        name = self._pick(NAMES)
        if name[0] == "'":
            # HTCondor prints such a name without its quotes behind a scope
            return name
        if self._random.random() < 0.2:
            name = name.upper()
        return (
            self._pick(("", "", "", "MY.", "TARGET.", "TARGET.", "my.", "parent.", "self.", ".", "root."))
            + name
        )

    def _list(self, depth: int) -> str:
        items = (self._any(min(depth, 1)) for _ in range(self._random.randrange(4)))
        return "{ " + ",".join(items) + " }"

    def _record(self, depth: int) -> str:
        names = self._random.sample(("a", "b", "Cpus", "Cap", "x"), self._random.randrange(4))
        return "[ " + "; ".join(f"{name} = {self._any(min(depth, 1))}" for name in names) + " ]"

    def _operation(self, wanted: str, depth: int) -> str:
        chance = self._random.random()
        operand = self._pick(("num", "num", "str", "bool", wanted, "name"))
        if chance < 0.12:
            return self._pick(("-", "!", "~", "+", "- -", "!!", "~ ")) + self._bracketed(operand, depth)
        if chance < 0.25:
            middle = self._of(wanted, depth)
            return f"{self._of('bool', depth)} ? {middle} : {self._of(wanted, depth)}"
        operator = self._pick(BINARY)
        if self._random.random() < 0.1 and operator.isalpha():
            operator = operator.upper()
        left, right = (self._bracketed(operand, depth) for _ in range(2))
        space = self._pick((" ", " ", " ", "  ", "\t", "\n", " /* c */ "))
        return f"{left} {operator}{space}{right}"

    def _bracketed(self, wanted: str, depth: int) -> str:
        text = self._of(wanted, depth)
        return f"({text})" if self._random.random() < 0.6 else text

    def _call(self, wanted: str, depth: int) -> str:
        fitting = [
            name for name, (_, value) in FUNCTIONS.items() if wanted in (value, "any", "special", "name")
        ]
        if wanted == "num":
            fitting += [name for name, (_, value) in FUNCTIONS.items() if value == "int"]
        name = self._pick(fitting or list(FUNCTIONS))
        arguments = []
        for argument in FUNCTIONS[name][0].split():
            if argument.endswith("?") and self._random.random() < 0.6:
                continue
            asked = argument.rstrip("?*")
            for _ in range(self._random.choice((1, 2)) if argument.endswith("*") else 1):
                arguments.append(self._argument(asked, depth))
        # without an argument these two are the clock
        if self._random.random() < 0.04 and name not in ("absTime", "formatTime"):
            arguments = arguments[1:] if self._random.random() < 0.5 else [*arguments, self._any(0)]
        if self._random.random() < 0.2:
            name = self._pick((name.upper(), name.lower(), name.title()))
        return name + "(" + self._pick((", ", ",")).join(arguments) + ")"

    def _argument(self, wanted: str, depth: int) -> str:
        if wanted == "name":
            return self._name()
        if wanted == "any":
            return self._any(depth)
        if wanted in TYPES:
            return self._of(wanted, depth)
        # a type of text that is seldom computed
        return self._leaf(wanted, depth) if self._random.random() < 0.9 else self._any(depth)

    def _selection(self, depth: int) -> str:
        chance = self._random.random()
        if chance < 0.4:
            return f"({self._of('list', depth)})[{self._of('int', 0)}]"
        if chance < 0.55:
            return f"({self._of('ad', depth)})[{self._of('str', 0)}]"
        if chance < 0.8:
            whole = self._of(self._pick(("ad", "list")), depth)
            return f"({whole}).{self._pick(('a', 'b', 'Cpus', 'Cap', 'Name'))}"
        return self._pick(
            ("Ads.Cap", "Ad.c.d", "Ad.b", "TARGET.Ad.a", "Ads[1].Cap", "MY.Ads.Name", 'Ad["a"]', "List[0]")
        )
