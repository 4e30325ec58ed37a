"""The arguments and the environment in a job's ad, in both of HTCondor's syntaxes.

V1 (``Args``, ``Env``) has no quoting: blanks separate words, semicolons separate assignments. V2
(``Arguments``, ``Environment``) separates by blanks; within single quotes a blank stands for itself, and two
single quotes for one (condor_utils/condor_arglist.cpp, env.cpp).
"""

from __future__ import annotations

import signal
from collections.abc import Mapping

from fetchwork.errors import ClassAdError

_BLANKS = " \t\r\n"


def arguments(ad: Mapping[str, object]) -> list[str]:
    """Return the arguments of the job's program; raises ClassAdError."""
    text = ad.get("Arguments")
    if isinstance(text, str):
        return words(text, "Arguments")
    text = ad.get("Args")
    return text.split() if isinstance(text, str) else []


def environment(ad: Mapping[str, object]) -> dict[str, str]:
    """Return the environment that the job asks for; raises ClassAdError."""
    text = ad.get("Environment")
    if isinstance(text, str):
        entries = words(text, "Environment")
    else:
        text = ad.get("Env")
        entries = [entry for entry in text.split(";") if entry.strip()] if isinstance(text, str) else []
    pairs = [entry.partition("=") for entry in entries]
    return {name: value for name, equals, value in pairs if name and equals}


def words(text: str, attribute: str) -> list[str]:
    """Return the words of a V2 text; raises ClassAdError for an unclosed quote."""
    found: list[str] = []
    word: list[str] | None = None
    quoted = False
    number = 0
    while number < len(text):
        letter = text[number]
        number += 1
        if quoted:
            assert word is not None
            if letter != "'":
                word.append(letter)
            elif text[number : number + 1] == "'":
                word.append(letter)
                number += 1
            else:
                quoted = False
        elif letter == "'":
            quoted = True
            word = [] if word is None else word
        elif letter in _BLANKS:
            if word is not None:
                found.append("".join(word))
                word = None
        else:
            word = [] if word is None else word
            word.append(letter)
    if quoted:
        raise ClassAdError(f"attribute '{attribute}' has a single quote that is not closed")
    if word is not None:
        found.append("".join(word))
    return found


def signal_number(named: object, default: int) -> int:
    """Return the number of a signal that an ad gives by name or number; ``default`` for an unknown one."""
    text = str(named or "").strip()
    if text.isdecimal() and 0 < int(text) < signal.NSIG:
        return int(text)
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    found = signal.Signals.__members__.get(name)
    return default if found is None else int(found)
