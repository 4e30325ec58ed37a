"""What an evaluation depends on: the attributes that expressions name, and whether anything else counts.

An expression whose functions only compute (``strcat``, but not ``time``), and that finds attributes only by
names that stand in its text, has the same value for as long as those attributes say the same. So what was
found out about a job and a slot holds for each slot ad in which these attributes are alike, whatever the
clock or the load average in it say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

from fetchwork.classad.expression import names
from fetchwork.classad.values import ClassAd, format_expr

#: HTCondor's functions whose value depends on their arguments alone (classad/fnCall.cpp); what is not here
#: may ask for the time, chance, files, or an attribute whose name no text shows (``eval``)
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
#: with fewer arguments than these they tell the time
_TIMELY = re.compile(r"\b(?:abstime|formattime)\s*\(\s*\)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_CALL = re.compile(r"([a-z_][a-z0-9_]*)\s*\(")
#: a whole ad as a value, a subscript, a quoted name: attributes may be found by names that are computed.
#: CurrentTime is the time
_HIDDEN = re.compile(
    r"\b(?:target|my|self|parent|root|toplevel|other)\b(?!\s*\.)|[\w)\]}\"]\s*\[|'|\bcurrenttime\b"
)
_PLAIN = (bool, int, float, str)
#: texts that are remembered, and the characters that one has at most
_TEXTS = 512
_LENGTH = 2048

_T = TypeVar("_T")


def _remembered(function: Callable[[str], _T]) -> Callable[[str], _T]:
    """The same function, which remembers what it said of texts that are not long: slots are much alike."""
    known = lru_cache(_TEXTS)(function)
    return lambda text: known(text) if len(text) <= _LENGTH else function(text)


@_remembered
def names_in(text: str) -> frozenset[str]:
    """The names in an expression, in lower case: attributes, and a few words that are none."""
    return frozenset(names(text.lower()))


@_remembered
def only_computes(text: str) -> bool:
    """Whether an expression's value depends on the attributes that its text names, and on nothing else."""
    bare = _STRING.sub('""', text.lower())
    return (
        not _HIDDEN.search(bare)
        and not _TIMELY.search(bare)
        and all(called in _COMPUTING for called in _CALL.findall(bare))
    )


class Texts:
    """An ad's attributes as text, by name in lower case, and what each of them names; read when asked for."""

    def __init__(self, ad: ClassAd) -> None:
        self._ad = ad
        self._names = {name.lower(): name for name in ad}
        self._read: dict[str, tuple[str, list[str]] | None] = {}

    def literals(self, names: Iterable[str]) -> tuple[tuple[str, str], ...] | None:
        """The attributes of these names that the ad has, if all of them are plain values."""
        found = []
        for name in names:
            if name in self._names:
                value = self._ad[self._names[name]]
                if type(value) not in _PLAIN:
                    return None
                found.append((name, repr(value)))
        return tuple(found)

    def reached(self, first: Iterable[str]) -> dict[str, str] | None:
        """The attributes that an evaluation may look at which begins with the names in ``first``.

        None where more than these may count.
        """
        found: dict[str, str] = {}
        left = [name for name in first if name in self._names]
        while left:
            name = left.pop()
            if name in found:
                continue
            if name not in self._read:
                self._read[name] = self._look_up(name)
            if (known := self._read[name]) is None:
                return None
            found[name], others = known
            left += others
        return found

    def _look_up(self, name: str) -> tuple[str, list[str]] | None:
        """An attribute's text, and which others of the ad it names; None where more may count."""
        value = self._ad[self._names[name]]
        if type(value) in _PLAIN:
            return repr(value), []
        text = format_expr(self._ad.lookup(self._names[name]))
        if not only_computes(text):
            return None
        return text, [other for other in names_in(text) if other in self._names]
