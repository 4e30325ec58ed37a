"""``$$(Attr)``, ``$$([expr])`` and ``$$(Attr:default)``: values of the slot in a job's ad, as of a schedd.

The rules are those of HTCondor's schedd (``dollarDollarExpand`` in qmgmt.cpp, ``next_config_macro`` in
config.cpp). An attribute that is no number is looked at as text of old syntax, with its quotes; what a macro
stands for is put in there, and the text is read again. So a value that is an expression in the slot's ad is
put in as it is written there, not as what it is worth; ``$$([...])`` is for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fetchwork.classad.ads import old_text, parse_old, read_old
from fetchwork.classad.values import ClassAd, evaluate
from fetchwork.errors import ClassAdError
from fetchwork.matchmaker.bounds import AD_BYTES

__all__ = ["CannotExpand", "Expansion", "expand", "has_macro"]

OPENING = "$$("
#: what a schedd keeps of a match in the job's ad begins so, and is never expanded itself
MATCH = "MATCH_"
#: the value of an attribute that was expanded
MATCH_EXP = "MATCH_EXP_"

_PREFIX = re.compile(r"\$\$?[A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z0-9_./]*")
_DEFAULT = re.compile(r"(?:[A-Za-z0-9_./$ ,\\:]|\([^)]*\))*")
_ESCAPED = re.compile(r'\\(["\\])')


class CannotExpand(ClassAdError):
    """A macro has no value on this slot; the text is that of the hold reason of HTCondor's schedd."""


def _cannot_expand(macro: str) -> CannotExpand:
    return CannotExpand(f"Cannot expand $$ expression ({macro}).")


@dataclass(slots=True)
class Expansion:
    """What became of an ad's macros."""

    #: the attributes that had any, without them
    values: ClassAd = field(default_factory=ClassAd)
    #: what a schedd remembers of it in the job's ad: MATCH_Attr of the slot, MATCH_EXP_Attr of the job
    remembered: ClassAd = field(default_factory=ClassAd)


def has_macro(value: object) -> bool:
    """Whether a value of the JSON form may have a macro."""
    if isinstance(value, str):
        return OPENING in value
    return isinstance(value, list | dict) and OPENING in str(value)


def expand(ad: ClassAd, job: ClassAd, slot: ClassAd) -> Expansion:
    """Expand the macros in the attributes of an ad; ``job`` is what ``$$([expr])`` is evaluated in.

    Raises CannotExpand for a macro without a value, ClassAdError where the result can't be read.
    """
    done = Expansion()
    size = 0
    for name in ad:
        if name.upper().startswith(MATCH) or isinstance(ad[name], bool | int | float):
            continue
        text = old_text(ad, name)
        if OPENING not in text:
            continue
        parts = []
        for part in _parts(text, job, slot, done.remembered):
            # before they are put together: each of many macros may stand for a long value
            size += len(part)
            if size > AD_BYTES:
                raise ClassAdError(f"with values of the slot it has more than {AD_BYTES} characters")
            parts.append(part)
        expanded = "".join(parts)
        if expanded == text:
            continue
        try:
            value = read_old(expanded)
        except ClassAdError:
            # HTCondor's schedd ends itself over such a one
            raise ClassAdError(f"attribute '{name}' is no expression with the slot's values in it") from None
        done.values[name] = value
        done.remembered[MATCH_EXP + name] = value
    return done


def _parts(text: str, job: ClassAd, slot: ClassAd, remembered: ClassAd) -> Iterator[str]:
    """The text in pieces, each macro's value in its place; what was put in is not looked at again."""
    end = 0
    for start, macro, behind in _macros(text):
        yield text[end:start]
        yield _value(macro, job, slot, remembered)
        end = behind
    yield text[end:]


def _macros(text: str) -> Iterator[tuple[int, str, int]]:
    """Where each macro begins, what stands between its parentheses, and where it ends."""
    at = 0
    while (prefix := _PREFIX.search(text, at)) is not None:
        at = prefix.end()
        if text[at : at + 1] != "(" or prefix[0] != "$$":
            continue
        at += 1
        if text[at : at + 1] == "[":
            end = text.find("])", at) + 1
        else:
            name = _NAME.match(text, at)
            end = name.end() if name is not None else at
            if text[end : end + 1] == ":" and (default := _DEFAULT.match(text, end + 1)) is not None:
                end = default.end()
        if end > 0 and text[end : end + 1] == ")":
            yield prefix.start(), text[at:end], end + 1
            at = end + 1


def _value(macro: str, job: ClassAd, slot: ClassAd, remembered: ClassAd) -> str:
    """What a macro stands for, as it goes into the text."""
    if macro.startswith("["):
        return _result(macro, job, slot)
    name, colon, default = macro.partition(":")
    if "." in name:
        raise _cannot_expand(name)
    if name.upper() == "DOLLARDOLLAR":
        return "$$"
    if name in slot:
        text = old_text(slot, name)
        remembered[MATCH + name] = slot.lookup(name)
    elif colon:
        text = f'"{default}"'
        remembered[MATCH + name] = default
    else:
        raise _cannot_expand(name)
    if text.startswith('"'):
        text = text[1:].removesuffix('"')
    return text


def _result(macro: str, job: ClassAd, slot: ClassAd) -> str:
    try:
        ad = parse_old(f"x = string({_ESCAPED.sub(_without_backslash, macro[1:-1])})", strict=True)
    except ClassAdError:
        raise _cannot_expand(macro) from None
    value = evaluate(job, ad.lookup("x"), slot)
    if not isinstance(value, str):
        raise _cannot_expand(macro)
    return value


def _without_backslash(escape: re.Match[str]) -> str:
    return escape[1]
