"""An evaluation's dependencies: the attributes that its expressions name, and whether anything else matters.

An expression has the same value while the attributes that its text names stay the same, if its functions only
compute (``strcat``, but not ``time``) and it finds attributes only by names in its text. So a verdict on a
job and a slot is valid for each slot ad with the same values of these attributes, even if its clock or load
average differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

from fetchwork.classad.expression import names
from fetchwork.classad.values import ClassAd, format_expr

#: HTCondor's functions whose value depends on their arguments alone (classad/fnCall.cpp); other functions may
#: read the time, a random number, files, or an attribute whose name is in no text (``eval``)
_WORDS = (
    "abstime allcompare anycompare argstolist avg bool ceiling countmatches envv1tov2 error "
    "evalineachcontext floor identicalmember ifthenelse int interval is isabstime isboolean isclassad "
    "iserror isinteger islist isnt isreal isreltime isstring isundefined join listtoargs max member "
    "mergeenvironment min pow quantize real regexp regexpmember regexps reltime replace replaceall round "
    "size split splitslotname splitusername strcat strcmp stricmp string stringlist_regexpmember "
    "stringlistavg stringlistimember stringlistisubsetmatch stringlistmax stringlistmember stringlistmin "
    "stringlistregexpmember stringlistsintersect stringlistsize stringlistsubsetmatch stringlistsum substr "
    "sum tolower toupper undefined version_in_range versioncmp versionge versiongt versionle versionlt "
)
_COMPUTING = frozenset(_WORDS.split())
#: without an argument these return the time
_TIMELY = re.compile(r"\b(?:abstime|formattime)\s*\(\s*\)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_CALL = re.compile(r"([a-z_][a-z0-9_]*)\s*\(")
#: a whole ad as a value, a subscript, a quoted name: with these the name of an attribute may be computed;
#: CurrentTime is the time
_HIDDEN = re.compile(
    r"\b(?:target|my|self|parent|root|toplevel|other)\b(?!\s*\.)|[\w)\]}\"]\s*\[|'|\bcurrenttime\b"
)
_PLAIN = (bool, int, float, str)
#: most texts remembered, and most characters of a remembered text
_TEXTS = 512
_LENGTH = 2048

_T = TypeVar("_T")


def _remembered(function: Callable[[str], _T]) -> Callable[[str], _T]:
    """Return the function with a cache of its results for short texts: slots have many texts in common."""
    known = lru_cache(_TEXTS)(function)
    return lambda text: known(text) if len(text) <= _LENGTH else function(text)


@_remembered
def names_in(text: str) -> frozenset[str]:
    """Return the names in an expression, in lower case: its attributes and a few other words."""
    return frozenset(names(text.lower()))


@_remembered
def only_computes(text: str) -> bool:
    """Whether an expression's value depends only on the attributes that its text names."""
    bare = _STRING.sub('""', text.lower())
    return (
        not _HIDDEN.search(bare)
        and not _TIMELY.search(bare)
        and all(called in _COMPUTING for called in _CALL.findall(bare))
    )


class Texts:
    """An ad's attributes as texts by lower-case name, with the names in each text; read on demand."""

    def __init__(self, ad: ClassAd) -> None:
        self._ad = ad
        self._names = {name.lower(): name for name in ad}
        self._read: dict[str, tuple[str, list[str]] | None] = {}

    def literals(self, names: Iterable[str]) -> tuple[tuple[str, str], ...] | None:
        """Return the ad's attributes of these names; None if one of them is no plain value."""
        values = []
        for name in names:
            if name in self._names:
                value = self._ad[self._names[name]]
                if type(value) not in _PLAIN:
                    return None
                values.append((name, repr(value)))
        return tuple(values)

    def reached(self, first: Iterable[str]) -> dict[str, str] | None:
        """Return the texts of all attributes that an evaluation beginning with ``first`` may read.

        None if the value may depend on more than these attributes.
        """
        texts: dict[str, str] = {}
        left = [name for name in first if name in self._names]
        while left:
            name = left.pop()
            if name in texts:
                continue
            if name not in self._read:
                self._read[name] = self._look_up(name)
            if (known := self._read[name]) is None:
                return None
            texts[name], others = known
            left += others
        return texts

    def _look_up(self, name: str) -> tuple[str, list[str]] | None:
        """Return an attribute's text and the ad's other attributes that it names; None if more may matter."""
        value = self._ad[self._names[name]]
        if type(value) in _PLAIN:
            return repr(value), []
        text = format_expr(self._ad.lookup(self._names[name]))
        if not only_computes(text):
            return None
        return text, [other for other in names_in(text) if other in self._names]
