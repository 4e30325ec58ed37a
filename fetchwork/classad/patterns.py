"""What of a regular expression SQL can look for: its plain text, as a pattern of LIKE.

HTCondor's ``regexp`` is PCRE's, of which PostgreSQL's expressions are no part. So only the text is taken that
each match has, with ``%`` for whatever lies between; what has it may still not match, but what has not does
not. A pattern whose text depends on a choice, a group or an option inside it is left alone.
"""

from __future__ import annotations

import re

__all__ = ["like_of"]

_ATOM = re.compile(
    r"""
        (?P<wild>\\[dDwWsSbB] | \[\^?[^][\\^]+\] | [.^$])
      | \\(?P<escaped>[^A-Za-z0-9])
      | (?P<quantifier>[*?+])
      | (?P<plain>[^][\\.^$*?+(){}|])
    """,
    re.VERBOSE | re.DOTALL,
)


def like_of(pattern: str, options: str = "") -> str | None:
    """A LIKE pattern that every text has in which PCRE finds ``pattern``; None where none can be told.

    With the option ``i`` it is for the text in lower case.
    """
    if options.strip("i"):
        return None
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        found = _ATOM.match(pattern, position)
        if found is None:
            return None
        position = found.end()
        literal = found["plain"] or found["escaped"]
        if literal is not None:
            parts.append(_literal(literal, options))
        elif found["quantifier"] == "+":
            parts.append("%")
        elif found["quantifier"]:
            # what is before it may be missing
            parts[-1:] = ["%"]
        else:
            parts.append("%")
    anchored = re.match(r"\^(?![*?+])", pattern) is not None
    parts = [*(parts[1:] if anchored else ["%", *parts]), "%"]
    text = "".join(
        part for before, part in zip(["", *parts], parts, strict=False) if (before, part) != ("%", "%")
    )
    return None if text == "%" else text


def _literal(character: str, options: str) -> str:
    if not options:
        return "\\" + character if character in "\\%_" else character
    if not character.isascii() or character in "kKsS":
        # there are letters of other alphabets that a caseless k and s match
        return "%"
    return "\\" + character if character in "\\%_" else character.lower()
