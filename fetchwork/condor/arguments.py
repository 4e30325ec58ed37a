"""How HTCondor's commands read their words: options by prefix, with one dash or two, job ids, and octets."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from fetchwork.errors import FetchworkError

#: what HTCondor takes for a job id: it stops at what is no digit
_WHOLE_ID = re.compile(r"(\d{1,10})(?:\.(\d{1,10})?)?", re.ASCII)


class Usage(FetchworkError):
    """The words of a command are wrong; the text goes to stderr as it is, and the exit status is 1.

    ``help`` tells whether the command's help follows, as it does in HTCondor for an unknown option.
    """

    def __init__(self, message: str, *, help: bool = False, newline: bool = True) -> None:
        super().__init__(message)
        self.text = message + ("\n" if newline else "")
        self.help = help


class Words:
    """The words behind a command's name, read one after the other; an option takes those that are its own."""

    def __init__(self, words: Iterable[str]) -> None:
        self._left = deque(words)

    def __iter__(self) -> Iterator[str]:
        while self._left:
            yield self._left.popleft()

    @property
    def following(self) -> str | None:
        """The next word, which stays; None at the end."""
        return self._left[0] if self._left else None

    def take(self) -> str | None:
        """The next word, None at the end."""
        return self._left.popleft() if self._left else None

    def take_plain(self) -> list[str]:
        """The words up to the next option."""
        taken = []
        while self._left and not self._left[0].startswith("-"):
            taken.append(self._left.popleft())
        return taken


def is_prefix(word: str, name: str, least: int) -> bool:
    """Is ``word`` a prefix of ``name`` that is at least so long? With -1 it has to be the name itself."""
    if least < 0:
        return word == name
    return len(word) >= max(1, least) and name.startswith(word)


def is_option(word: str, name: str, least: int) -> bool:
    """Is ``word`` that option: a dash, or two, and a prefix of its name?

    With two dashes HTCondor takes prefixes as well.
    """
    if not word.startswith("-"):
        return False
    return is_prefix(word[2:] if word.startswith("--") else word[1:], name, least)


def is_colon_option(word: str, name: str, least: int) -> tuple[bool, str | None]:
    """The same for an option that may be followed by a colon and more, which is the second value."""
    option, colon, more = word.partition(":")
    return is_option(option, name, least), more if colon else None


def job_id(word: str) -> tuple[int, int] | None:
    """Cluster and process of ``42.0``; the process is -1 for ``42`` and ``42.``."""
    match = _WHOLE_ID.fullmatch(word)
    if match is None or int(match[1]) > 2**31 - 1:
        return None
    return int(match[1]), -1 if match[2] is None else int(match[2])


def leading_number(text: str) -> int:
    """What C's ``atoi`` makes of a text: the number that it begins with, else 0."""
    match = re.match(r"\s*([+-]?\d+)", text)
    return int(match[1]) if match else 0


"""Text with one character for each byte of its UTF-8, as HTCondor counts and cuts it."""


def octets(text: str) -> str:
    """The bytes of a text, each as one character; ASCII stays what it is."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")


def text_of(octets: str) -> str:
    """The text whose bytes these are; what is not UTF-8 is kept as surrogates."""
    return octets if octets.isascii() else octets.encode("latin-1").decode("utf-8", "surrogateescape")
