"""The next request of a job that used too much: the transforms of its ad, as a schedd applies them.

``TransformOnEvict`` names them, and ``TransformBody_NAME`` has the lines of each (``queue/retries.py`` writes
them). HTCondor's schedd (``TransformOnEvict`` in schedd.cpp) applies the first transform that changes the
job's request, and then lets the job wait again instead of holding it. Here a transform may change the job's
requests, and its place in the list of further requests. A transform that would change anything else, or uses
more of the language of transforms, is not applied: the job is held.
"""

from __future__ import annotations

import re

from fetchwork.classad.ads import parse_old
from fetchwork.classad.cost import check_cost
from fetchwork.classad.values import ClassAd, evaluate, number, truth
from fetchwork.errors import ClassAdError

#: attributes that a transform may change, and the largest value that the queue takes
CHANGEABLE = {
    "RequestMemory": 2**31 - 1,
    "RequestDisk": 10**15,
    "RetryRequestMemoryIndex": 10**6,
    "RetryRequestDiskIndex": 10**6,
}
_NAMES = {name.lower(): name for name in CHANGEABLE}
_LINE_END = "\x1e"
_STATEMENT = re.compile(r"(SET|EVALSET)\s+([A-Za-z0-9_]+)\s+(\S.*)", re.I | re.S)
_REQUIREMENTS = re.compile(r"REQUIREMENTS\s+(\S.*)", re.I | re.S)
_EXPRESSION = "FetchWorkExpression"


def changes(ad: ClassAd, code: int, subcode: int) -> dict[str, int]:
    """Return the changes of the ad of a job evicted with this code; none if it is to be held.

    Raises ClassAdError if a transform can't be read, or would take for ever.
    """
    ad["VacateReasonCode"], ad["VacateReasonSubCode"] = code, subcode
    names = evaluate(ad, "TransformOnEvict") if "TransformOnEvict" in ad else None
    if isinstance(names, str):
        for name in re.split(r"[\s,]+", names.strip()):
            body = evaluate(ad, f"TransformBody_{name}") if f"TransformBody_{name}" in ad else None
            changed = _applied(ad, body) if isinstance(body, str) else {}
            if any(key.startswith("Request") and value != _number(ad, key) for key, value in changed.items()):
                return changed
    return {}


def _applied(ad: ClassAd, body: str) -> dict[str, int]:
    """Return the changes of a transform; none if it is not for this job, or can't be applied."""
    after = ClassAd()
    after.update(ad)
    changed: dict[str, int] = {}
    for line in filter(None, map(str.strip, body.split(_LINE_END))):
        if (asked := _REQUIREMENTS.fullmatch(line)) is not None:
            if truth(_value(after, asked[1])) is not True:
                return {}
            continue
        statement = _STATEMENT.fullmatch(line)
        name = _NAMES.get(statement[2].lower()) if statement is not None else None
        value = number(_value(after, statement[3])) if statement is not None else None
        if name is None or value is None or not 0 <= value <= CHANGEABLE[name]:
            return {}
        after[name] = changed[name] = int(value)
    return changed


def _number(ad: ClassAd, name: str) -> float | None:
    return number(evaluate(ad, name)) if name in ad else None


def _value(ad: ClassAd, text: str) -> object:
    """Return the value of an expression in a transform."""
    trial = ClassAd()
    trial.update(ad)
    read = parse_old(f"{_EXPRESSION} = {text}", strict=True)
    if _EXPRESSION not in read:
        raise ClassAdError(f"a transform has no expression at '{text[:60]}'")
    trial[_EXPRESSION] = read.lookup(_EXPRESSION)
    check_cost(trial)
    return evaluate(trial, _EXPRESSION)
