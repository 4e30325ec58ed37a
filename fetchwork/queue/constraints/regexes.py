"""What of a regular expression PostgreSQL can match: an expression of its own that finds no less.

HTCondor's ``regexp`` is PCRE's. Of that, alternatives, groups, sets of ASCII characters and repetitions mean
the same to PostgreSQL, whose matching takes no longer for any of them. Where they might differ (letters of
other alphabets, white space, a number of repetitions) the expression here finds more. What is not read here
(options inside a pattern, references back, looking ahead) is left alone.
"""

from __future__ import annotations

import re

__all__ = ["regex_of"]

#: longer ones, and such in more brackets, PostgreSQL may refuse
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
#: whatever one character, or none, is
_WILD = ".?"


def regex_of(pattern: str, options: str = "") -> str | None:
    """An expression for PostgreSQL that finds every text in which PCRE finds ``pattern``; None: unknown.

    With the option ``i`` it is for the text in lower case.
    """
    if options.strip("i") or len(pattern) > _LONGEST or not pattern.isascii():
        return None
    parts: list[str] = []
    #: may the last part be repeated, and where do open groups begin
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
            # another one behind it would mean something else
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
            # PCRE's is also before a line end that ends the text
            return r"(?:\n)?$"
    return _literal(found["plain"] or found["escaped"], options)


def _literal(character: str, options: str) -> str:
    if character == "\n":
        # behind PCRE's $ there may be one
        return _WILD
    if options and character in "kKsS":
        # there are letters of other alphabets that a caseless k and s match
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
