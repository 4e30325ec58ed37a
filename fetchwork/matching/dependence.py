"""What an evaluation depends on: the attributes that expressions name, and whether anything else counts.

An expression whose functions only compute (``strcat``, but not ``time``), and that finds attributes only by
names that stand in its text, has the same value for as long as those attributes say the same. So what was
found out about a job and a slot holds for each slot ad in which these attributes are alike, whatever the
clock or the load average in it say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from fetchwork.classad.expression import names

#: HTCondor's functions whose value depends on their arguments alone (classad/fnCall.cpp); what is not here
#: may ask for the time, chance, files, or an attribute whose name no text shows (``eval``)
_WORDS = (
    "abstime allcompare anycompare argstolist avg bool ceiling countmatches envv1tov2 error "
    "evalineachcontext floor identicalmember ifthenelse int interval is isabstime isboolean isclassad "
    "iserror isinteger islist isnt isreal isreltime isstring isundefined join listtoargs max member "
    "mergeenvironment min pow quantize real regexp regexpmember regexps reltime replace replaceall round "
    "size split splitslotname splitusername strcat strcmp stricmp string stringlist_regexpmember "
    "stringlistavg stringlistimember stringlistisubsetmatch stringlistmax stringlistmember stringlistmin "
    "stringlistregexpmember stringlistsize stringlistsubsetmatch stringlistsum substr sum tolower toupper "
    "undefined version_in_range versioncmp versionge versiongt versionle versionlt "
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


def names_in(text: str) -> frozenset[str]:
    """The names in an expression, in lower case: attributes, and a few words that are none."""
    return frozenset(names(text.lower()))


def only_computes(text: str) -> bool:
    """Whether an expression's value depends on the attributes that its text names, and on nothing else."""
    bare = _STRING.sub('""', text.lower())
    return (
        not _HIDDEN.search(bare)
        and not _TIMELY.search(bare)
        and all(called in _COMPUTING for called in _CALL.findall(bare))
    )


def reached(texts: Mapping[str, str], first: Iterable[str]) -> dict[str, str] | None:
    """The attributes of an ad that an evaluation may look at, which begins with the names in ``first``.

    ``texts`` has the ad's expressions by name in lower case. None where more than these may count.
    """
    found: dict[str, str] = {}
    left = [name for name in first if name in texts]
    while left:
        name = left.pop()
        if name in found:
            continue
        text = found[name] = texts[name]
        if not only_computes(text):
            return None
        left += [other for other in names_in(text) if other in texts]
    return found
