"""HTCondor's ``classad2``: the types of ads and expressions, evaluation, and the types of values.

``classad2.Value`` (undefined, error) and ``bool`` are subclasses of ``int`` in Python: ``truth`` and
``number`` tell them apart, so that callers need not.
"""

from __future__ import annotations

import math
import re
import warnings

with warnings.catch_warnings():
    # htcondor2 warns that there is no condor_config, which reading ads does not need. classad2 imports it
    # at its first call, and crashes if that warning is an error: so this module imports it.
    warnings.simplefilter("ignore")
    import classad2
    import htcondor2  # noqa: F401
    from classad2 import ClassAd, ExprTree, Value

__all__ = [
    "ERROR",
    "PROBLEMS",
    "UNDEFINED",
    "ClassAd",
    "ExprTree",
    "changing_word",
    "evaluate",
    "format_expr",
    "matches",
    "number",
    "references",
    "truth",
]

#: errors of the bindings about reading and evaluating; those of 23.9 have no exception of their own
PROBLEMS = (
    (classad2.ClassAdException,)
    if hasattr(classad2, "ClassAdException")
    else (SyntaxError, TypeError, ValueError, RuntimeError)
)
UNDEFINED = Value.Undefined
ERROR = Value.Error


def truth(value: object) -> bool | None:
    """The truth of a value in a condition: a boolean itself, and whether a number is not 0.

    None for other types; HTCondor takes them for "not true" (``classad/value.cpp``, IsBooleanValueEquiv).
    """
    return bool(value) if type(value) in (bool, int, float) else None


def number(value: object, *, finite: bool = True) -> float | None:
    """An integer or real as a float, unless it is infinite or NaN; None for other types, booleans included.

    Without ``finite`` infinity and NaN are numbers as well.
    """
    if type(value) is int:
        return float(value)
    return value if type(value) is float and (not finite or math.isfinite(value)) else None


def matches(job: ClassAd, slot: ClassAd) -> bool:
    """Whether the Requirements of both ads are true with the other ad as TARGET.

    As in HTCondor, undefined and error are not true, and a number other than 0 is. An ad without
    Requirements has no conditions: fetched work has no submit tool that would always add them.
    """
    return _accepts(job, slot) and _accepts(slot, job)


def _accepts(ad: ClassAd, target: ClassAd) -> bool:
    result = evaluate(ad, "Requirements", target) if "Requirements" in ad else True
    return truth(result) is True


def evaluate(ad: ClassAd, what: str | ExprTree, target: ClassAd | None = None) -> object:
    """Return the value of an attribute, or of a parsed expression, in ``ad`` with ``target`` as TARGET.

    A missing attribute is UNDEFINED; a failed evaluation is ERROR.
    """
    if isinstance(what, str):
        if what not in ad:
            return UNDEFINED
        expr = ad.lookup(what)
    else:
        expr = what
    try:
        # without a target, TARGET.Name is undefined
        return expr.eval(ad) if target is None else expr.eval(ad, target)
    except (*PROBLEMS, UnicodeDecodeError, SystemError):
        # a string that is cut within a character; within a list the binding raises SystemError for it
        return ERROR


_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NAMES = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def references(expr: ExprTree) -> frozenset[str]:
    """Return the names of an expression's attributes, in the form ``TARGET.Name`` for the other ad's."""
    try:
        found = ClassAd().externalRefs(expr)
    except ValueError:
        # it selects from a value that is no ad: ``{}.a``
        return frozenset(_NAMES.findall(_STRINGS.sub("", format_expr(expr))))
    return frozenset(name for name in found if name)


def format_expr(expr: ExprTree) -> str:
    """Return the expression in new syntax, on one line."""
    return repr(expr)


#: attributes and functions that change while a job runs
_CHANGES = re.compile(
    r"\w*LoadAvg|KeyboardIdle|ConsoleIdle|CpuBusy\w*|KeyboardBusy|ClockMin|ClockDay|CurrentTime|\btime(?=\s*\()"
    r"|DayOfWeek|ActivityTimer|StateTimer",
    re.I,
)


def changing_word(policy: str) -> str | None:
    """Return what in START or another policy changes with load, keyboard or time; None if nothing does."""
    found = _CHANGES.search(policy)
    return found[0] if found else None
