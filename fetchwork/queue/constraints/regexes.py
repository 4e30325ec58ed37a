"""Translates a regular expression to one of PostgreSQL's that matches at least the same texts.

HTCondor's ``regexp`` uses PCRE. Its alternatives, groups, sets of ASCII characters and repetitions mean the
same in PostgreSQL, whose matching takes no longer for any of them. If meanings might differ (letters of other
alphabets, white space, a number of repetitions), the expression here matches more. Patterns with other
constructs (inner options, back references, lookahead) are left alone.
"""

from __future__ import annotations

import re

__all__ = ["regex_of"]

#: PostgreSQL may refuse longer patterns, and patterns nested deeper
_LONGEST, _DEEPEST = 200, 8
_TOKEN = re.compile(
    r"""
        (?P<set>\[[A-Za-z0-9_.,:;/@=+\ -]+\])
      | (?P<digit>\\d)
      | (?P<wild>\\[DwWsS] | \. | \[\^[^][\\^]+\])
      | (?P<edge>\\b)
      | (?P<begin>\^) | (?P<end>\$)
      | (?P<open>\((?:\?:)?(?![?*])) | (?P<close>\)) | (?P<or>\|)
      | (?P<quantifier>(?: [*?+] | \{\d{1,3}(?:,\d{0,3})?\} ) [?+]?)
      | \\(?P<escaped>[^A-Za-z0-9])
      | (?P<plain>[^][\\.^$*?+(){}|])
    """,
    re.VERBOSE,
)
_RANGE = re.compile(r"([0-9])-([0-9])|([a-z])-([a-z])|([A-Z])-([A-Z])|([^-])|(-)(?=$)")
#: any one character, or none
_WILD = ".?"


def regex_of(pattern: str, options: str = "") -> str | None:
    """A PostgreSQL expression that matches every text in which PCRE finds ``pattern``; None if not known.

    With the option ``i`` it applies to the text in lower case.
    """
    if options.strip("i") or len(pattern) > _LONGEST or not pattern.isascii():
        return None
    parts: list[str] = []
    #: whether the last part may be repeated, and the beginnings of open groups
    repeatable = False
    groups: list[int] = []
    position = 0
    while position < len(pattern):
        found = _TOKEN.match(pattern, position)
        if found is None:
            return None
        position = found.end()
        form = found.lastgroup
        if form == "quantifier":
            if not repeatable:
                return None
            begin = found["quantifier"][0]
            at_least_once = begin == "+" or (begin == "{" and not re.match(r"\{0+[,}]", found["quantifier"]))
            parts[-1] = f"(?:{parts[-1]})" + ("+" if at_least_once else "?" if begin == "?" else "*")
            # a second quantifier would change the meaning of the first
            repeatable = False
            continue
        repeatable = form not in ("edge", "begin", "end", "open", "or")
        if form == "open":
            groups.append(len(parts))
            if len(groups) > _DEEPEST:
                return None
        elif form == "close":
            if not groups:
                return None
            begin_of = groups.pop()
            parts[begin_of:] = [f"(?:{''.join(parts[begin_of:])})"]
        elif form != "edge":
            part = _part(form or "", found, options)
            if part is None:
                return None
            parts.append(part)
    return None if groups else "".join(parts)


def _part(form: str, found: re.Match[str], options: str) -> str | None:
    match form:
        case "set":
            return _set(found["set"][1:-1], options)
        case "digit":
            return "[0-9]"
        case "wild":
            return _WILD
        case "or":
            return "|"
        case "begin":
            return "^"
        case "end":
            # PCRE's $ also matches before a line end at the end of the text
            return r"(?:\n)?$"
    return _literal(found["plain"] or found["escaped"], options)


def _literal(character: str, options: str) -> str:
    if character == "\n":
        # PCRE's $ may be followed by one
        return _WILD
    if options and character in "kKsS":
        # caseless, k and s also match letters of other alphabets
        return _WILD
    if options:
        character = character.lower()
    return character if character.isalnum() else f"\\u{ord(character):04x}"


def _set(inside: str, options: str) -> str | None:
    characters: set[str] = set()
    position = 0
    while position < len(inside):
        found = _RANGE.match(inside, position)
        if found is None:
            return None
        position = found.end()
        ends = [end for end in found.groups() if end is not None]
        if ends[0] > ends[-1]:
            return None
        characters.update(map(chr, range(ord(ends[0]), ord(ends[-1]) + 1)))
    if options and characters & set("kKsS"):
        return _WILD
    return "[" + "".join(sorted({_literal(each, options) for each in characters})) + "]"
