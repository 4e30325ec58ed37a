"""``retry_request_memory`` and similar commands: a job's larger request after it used too much.

HTCondor's submit reads these commands from 25.2 on; the bindings that read descriptions here would ignore
them. So the commands are put into each ad as attributes, in which the bindings expand macros. Then they
become the same attributes that HTCondor's submit makes (``SetBuiltInOnEvictCheck`` in submit_utils.cpp): a
transform in the job's ad, which is applied when the job has used too much (``matchmaker/retrying.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, NamedTuple

from fetchwork.classad.ads import parse_expr
from fetchwork.classad.jsonform import from_json, to_json
from fetchwork.classad.values import ClassAd, evaluate, format_expr, number, references
from fetchwork.errors import ClassAdError, SubmitError
from fetchwork.queue.reading.views import Json

if TYPE_CHECKING:
    from fetchwork.queue.submitting.readers import Commands

__all__ = ["COMMANDS", "marked", "settled"]


class _Resource(NamedTuple):
    """A resource that a job requests, and of which it may request more."""

    attribute: str
    #: the command for the first request
    request: str
    #: bytes in one unit of the attribute
    unit: int
    #: HTCondor's subcode of 21 and 34 for a job that used too much of the resource
    subcode: int
    #: the commands, and the part of the transform that each command sets
    commands: Mapping[str, str]


_RESOURCES = (
    _Resource(
        "RequestMemory",
        "request_memory",
        2**20,
        102,
        {
            "retry_request_memory": "retry",
            "retry_request_memory_max": "max",
            "retry_request_memory_increase": "increase",
        },
    ),
    # HTCondor has only this command
    _Resource("RequestDisk", "request_disk", 2**10, 104, {"retry_request_disk": "retry"}),
)
#: the names of all commands
COMMANDS = tuple(command for resource in _RESOURCES for command in resource.commands)
#: the condition for a retry, without the subcode
_EXCEEDED = "(VacateReasonCode==21 || VacateReasonCode == 34) && VacateReasonSubCode"
#: prefix of the attributes that carry commands' values through the bindings
_MARK = "FetchWorkCommand_"
# a number with more digits exceeds 64 bits
_QUANTITY = re.compile(r"\s*([+-]?\d{1,18})(\.\d*)?\s*(?:([kmgt])b?)?\s*(,|$)", re.I)
_FACTORS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
#: separates the lines of a transform in a job's ad
_LINE_END = "\x1e"


def marked(commands: Commands) -> Iterator[tuple[str, str]]:
    """The commands to add to a description, which put the marks that ``settled`` reads into its ads."""
    given = {name.lower(): commands[name] for name in commands.keys()}  # noqa: SIM118 - has no __iter__
    for resource in _RESOURCES:
        for name, part in resource.commands.items():
            asked = given.get(resource.request, "")
            first = _QUANTITY.match(asked)
            if part == "retry" and first is not None and first[4] == ",":
                # "request_memory = 1 GB, 4 GB": the first request, and the next one
                yield resource.request, asked[: first.end() - 1].strip()
                yield f"MY.{_MARK}{name}", _quoted(asked[first.end() :])
            elif given.get(name, "").strip():
                yield f"MY.{_MARK}{name}", _quoted(given[name])


def settled(ad: MutableMapping[str, object], common: Mapping[str, object] | None = None) -> Json:
    """Replace the marks in an ad by the attributes that they ask for; returns the marks that apply to it.

    ``ad`` may be only a job's own part; ``common`` then has the marks and requests of its cluster.
    Raises SubmitError if HTCondor's submit refuses the value.
    """
    common = common or {}
    own = {name: ad.pop(name) for name in list(ad) if name.startswith(_MARK)}
    marks = {name: value for name, value in common.items() if name.startswith(_MARK)} | own
    requests: Json = {}
    transformed = []
    for resource in _RESOURCES:
        name = resource.attribute
        request = requests[name] = {**common, **ad}.get(name)
        asked = {
            part: (command, str(marks[_MARK + command]))
            for command, part in resource.commands.items()
            if _MARK + command in marks
        }
        if asked:
            transformed.append(name)
        if asked and (own or name in ad):
            ad.update(_transform(resource, request, asked))
            ad["TransformOnEvict"] = ""
    if "TransformOnEvict" in ad:
        ad["TransformOnEvict"] = " ".join(transformed)
    return marks | requests


def _transform(resource: _Resource, request: object, asked: Mapping[str, tuple[str, str]]) -> Json:
    """The attributes that make a job request more."""
    name, line = asked.get("retry") or asked.get("max") or ("", "")
    increase_name, increase = ("", "") if "retry" in asked else asked.get("increase", ("", ""))
    if not isinstance(request, int) or isinstance(request, bool):
        raise SubmitError(
            f"command '{name or increase_name}' asks for more than {resource.request} says, and that is no"
            " number here; allowed: with a number, such as 1 GB"
        )
    attribute = resource.attribute
    numbers, last = _sequence(resource, name, line)
    extra: Json = {}
    if len(numbers) > 1 or (numbers and last):
        listed = [*map(str, numbers), *([last] if last else [])]
        extra[f"Retry{attribute}"] = _expression(f"{{{','.join(listed)}}}")
        index = f"Retry{attribute}Index"
        steps = [
            f"EVALSET {attribute} Retry{attribute}[{index}?:0]",
            f"EVALSET {index} MIN({{size(Retry{attribute})-1, ({index}?:0)+1}})",
        ]
    elif increase:
        grown = _increase(resource, increase_name, increase)
        limit = last or (str(numbers[0]) if numbers else "")
        if limit:
            extra[f"Max{attribute}"] = _expression(limit)
            extra[f"Next{attribute}"] = _expression(grown)
            steps = [f"EVALSET {attribute} MIN({{Next{attribute}, Max{attribute}}})"]
        else:
            value = number(evaluate(from_json({attribute: request}), parse_expr(grown)))
            if value is None:
                raise SubmitError(
                    f"command '{increase_name} = {increase[:60]}' is no number when it is submitted;"
                    f" allowed: an expression of {attribute}"
                )
            steps = [f"SET {attribute} {int(value)}"]
    else:
        steps = [f"EVALSET {attribute} {last}" if last else f"SET {attribute} {numbers[0]}"]
    body = _LINE_END.join([f"REQUIREMENTS {_EXCEEDED} == {resource.subcode}", *steps])
    return {**extra, f"TransformBody_{attribute}": body}


def _sequence(resource: _Resource, command: str, line: str) -> tuple[list[int], str]:
    """Comma-separated quantities, the last of which may be an expression: the numbers, and that or ""."""
    numbers: list[int] = []
    rest = line
    while (found := _QUANTITY.match(rest)) is not None:
        numbers.append(_quantity(resource, found))
        rest = rest[found.end() :]
        if not found[4]:
            break
    for before, after in zip([0, *numbers], numbers, strict=False):
        if after <= before and len(numbers) > 1:
            raise SubmitError(
                f"command '{command} = {line[:60]}' must have an increasing sequence of values,"
                f" but {after} is not greater than {before}"
            )
    return numbers, _readable(command, rest.strip()) if rest.strip() else ""


def _increase(resource: _Resource, command: str, text: str) -> str:
    """The expression for the next request, for an increase by a quantity or by an expression."""
    problem = SubmitError(
        f"command '{command} = {text[:60]}' must be a positive number or an expression that references"
        f" {resource.attribute}"
    )
    found = _QUANTITY.fullmatch(text)
    if found is not None and not found[4]:
        more = _quantity(resource, found)
        if more <= 0:
            raise problem
        return f"{resource.attribute} + {more}"
    grown = _readable(command, text)
    if resource.attribute.lower() not in {name.lower() for name in references(parse_expr(grown))}:
        raise problem
    return grown


def _quantity(resource: _Resource, found: re.Match[str]) -> int:
    """A number with its unit, rounded up as HTCondor does (parse_int64_bytes)."""
    # three digits after the point count
    value = int(found[1]) + float(f"0{found[2] or '.0'}"[:5].rstrip(".") or 0)
    factor = _FACTORS[found[3].lower()] if found[3] else resource.unit
    return int((value * factor) + resource.unit - 1) // resource.unit


def _readable(command: str, text: str) -> str:
    try:
        return format_expr(parse_expr(text))
    except ClassAdError:
        raise SubmitError(
            f"command '{command}' is invalid at '{text[:60]}';"
            " allowed: numbers such as 2 GB, and an expression last"
        ) from None


def _quoted(text: str) -> str:
    """A string literal in old syntax, in which a backslash is an ordinary character."""
    return '"' + text.strip().replace('"', '\\"') + '"'


def _expression(text: str) -> object:
    """An expression in the JSON form."""
    ad = ClassAd()
    ad["X"] = parse_expr(text)
    return to_json(ad)["X"]
