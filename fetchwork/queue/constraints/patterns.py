"""Translates the plain text of a regular expression to a pattern of LIKE.

HTCondor's ``regexp`` uses PCRE, which PostgreSQL lacks. So only the text that every match contains is taken,
with ``%`` for anything between. A text with it may still not match, but a text without it does not match. A
pattern whose text depends on a choice, a group or an inner option is left alone.
"""

from __future__ import annotations

import re

__all__ = ["like_of", "runs_of"]

_ATOM = re.compile(
    r"""
        \[(?P<single>[^][\\^])\]
      | (?P<wild>\\[dDwWsSbB] | \[\^?[^][\\^]+\] | [.^$])
      | \\(?P<escaped>[^A-Za-z0-9])
      | (?P<quantifier>[*?+])
      | (?P<group>\((?:\?:)?(?![?*]))
      | (?P<plain>[^][\\.^$*?+(){}|])
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_GROUP = re.compile(
    r"""
        (?P<open>\((?:\?:)?(?![?*])) | (?P<close>\))
      | \[\^?[^][\\^]+\] | \\(?:[dDwWsSbB] | [^A-Za-z0-9]) | [^][\\()]
    """,
    re.VERBOSE | re.DOTALL,
)


def like_of(pattern: str, options: str = "") -> str | None:
    """A LIKE pattern for every text in which PCRE finds ``pattern``; None if there is no useful one.

    With the option ``i`` it applies to the text in lower case.
    """
    parts = _parts(pattern, options)
    if parts is None:
        return None
    anchored = re.match(r"\^(?![*?+])", pattern) is not None
    parts = [*(parts[1:] if anchored else [None, *parts]), None]
    text = "".join(
        "%" if part is None else re.sub(r"[\\%_]", r"\\\g<0>", part)
        for before, part in zip(["", *parts], parts, strict=False)
        if (before, part) != (None, None)
    )
    return None if text == "%" else text


def runs_of(pattern: str, options: str = "") -> list[str]:
    """The pieces of plain text in that LIKE pattern."""
    text = "".join("\0" if part is None else part for part in _parts(pattern, options) or ())
    return [run for run in text.split("\0") if run]


def _parts(pattern: str, options: str) -> list[str | None] | None:
    """The characters of a pattern's text, with None for anything between; None if they can't be told."""
    if options.strip("i"):
        return None
    parts: list[str | None] = []
    position = 0
    while position < len(pattern):
        found = _ATOM.match(pattern, position)
        if found is None:
            return None
        position = found.end()
        literal = found["plain"] or found["escaped"] or found["single"]
        if literal is not None:
            parts.append(_literal(literal, options))
        elif found["quantifier"] == "+":
            parts.append(None)
        elif found["quantifier"]:
            # the character before it may be missing
            parts[-1:] = [None]
        else:
            if found["group"]:
                end = _end_of_group(pattern, position)
                if end is None:
                    return None
                position = end
            parts.append(None)
    return parts


def _end_of_group(pattern: str, position: int) -> int | None:
    """The end of a group that has begun; None if the group may change the meaning of the rest."""
    depth = 1
    while depth:
        found = _IN_GROUP.match(pattern, position)
        if found is None:
            return None
        position = found.end()
        depth += bool(found["open"]) - bool(found["close"])
    return position


def _literal(character: str, options: str) -> str | None:
    if not options:
        return character
    if not character.isascii() or character in "kKsS":
        # caseless, k and s also match letters of other alphabets
        return None
    return character.lower()
