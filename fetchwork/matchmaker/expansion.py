"""``$$(Attr)``, ``$$([expr])`` and ``$$(Attr:default)``: values of the slot in a job's ad, as by a schedd.

The rules are those of HTCondor's schedd (``dollarDollarExpand`` in qmgmt.cpp, ``next_config_macro`` in
config.cpp). Each attribute except numbers is taken as text of old syntax, with its quotes; the values of its
macros are inserted, and the text is read again. So an expression in the slot's ad is inserted as it is
written, not as its value; ``$$([...])`` inserts a value.
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
#: prefix of the attributes in which a schedd keeps values of a match; they are never expanded themselves
MATCH = "MATCH_"
#: prefix of the attributes that keep an expanded attribute's value
MATCH_EXP = "MATCH_EXP_"

_PREFIX = re.compile(r"\$\$?[A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z0-9_./]*")
_DEFAULT = re.compile(r"(?:[A-Za-z0-9_./$ ,\\:]|\([^)]*\))*")
_ESCAPED = re.compile(r'\\(["\\])')


class CannotExpand(ClassAdError):
    """A macro has no value on this slot; the text is the hold reason of HTCondor's schedd."""


def _cannot_expand(macro: str) -> CannotExpand:
    return CannotExpand(f"Cannot expand $$ expression ({macro}).")


@dataclass(slots=True)
class Expansion:
    """The result of expanding an ad's macros."""

    #: the attributes that had macros, expanded
    values: ClassAd = field(default_factory=ClassAd)
    #: attributes that a schedd adds to the job's ad: MATCH_Attr of the slot, MATCH_EXP_Attr of the job
    remembered: ClassAd = field(default_factory=ClassAd)


def has_macro(value: object) -> bool:
    """Whether a value of the JSON form may have a macro."""
    if isinstance(value, str):
        return OPENING in value
    return isinstance(value, list | dict) and OPENING in str(value)


def expand(ad: ClassAd, job: ClassAd, slot: ClassAd) -> Expansion:
    """Expand the macros in the attributes of an ad; ``$$([expr])`` is evaluated in ``job``.

    Raises CannotExpand for a macro without a value, ClassAdError if the result can't be read.
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
            # counted before the parts are joined: each of many macros may stand for a long value
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
            # HTCondor's schedd ends itself over such an attribute
            raise ClassAdError(f"attribute '{name}' is no expression with the slot's values in it") from None
        done.values[name] = value
        done.remembered[MATCH_EXP + name] = value
    return done


def _parts(text: str, job: ClassAd, slot: ClassAd, remembered: ClassAd) -> Iterator[str]:
    """Yield the text in parts, with each macro's value in its place; values are not expanded again."""
    end = 0
    for start, macro, behind in _macros(text):
        yield text[end:start]
        yield _value(macro, job, slot, remembered)
        end = behind
    yield text[end:]


def _macros(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield each macro's begin, the text between its parentheses, and its end."""
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
    """Return a macro's value as text to be inserted."""
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
