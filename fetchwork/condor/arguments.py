"""Command lines of HTCondor's commands: options by prefix, with one dash or two, job ids, and octets."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from fetchwork.errors import FetchworkError

#: a job id as HTCondor reads it: only digits and a dot
_WHOLE_ID = re.compile(r"(\d{1,10})(?:\.(\d{1,10})?)?", re.ASCII)


class Usage(FetchworkError):
    """The command line is wrong; the text goes to stderr as it is, and the exit status is 1.

    ``help``: the command's help follows, as in HTCondor for an unknown option.
    """

    def __init__(self, message: str, *, help: bool = False, newline: bool = True) -> None:
        super().__init__(message)
        self.text = message + ("\n" if newline else "")
        self.help = help


class Said(FetchworkError):
    """A command has nothing to do but to print a text, on stdout or stderr, and ends with 0."""

    def __init__(self, text: str, *, stderr: bool = False) -> None:
        super().__init__(text)
        self.text, self.stderr = text, stderr


class Words:
    """The words after a command's name, in order; an option takes its own values."""

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
    """Whether ``word`` is a prefix of ``name``, of at least ``least`` letters; with -1 the name itself."""
    if least < 0:
        return word == name
    return len(word) >= max(1, least) and name.startswith(word)


def is_option(word: str, name: str, least: int) -> bool:
    """Whether ``word`` is that option: a dash, or two, and a prefix of its name.

    With two dashes HTCondor takes prefixes as well.
    """
    if not word.startswith("-"):
        return False
    return is_prefix(word[2:] if word.startswith("--") else word[1:], name, least)


def is_colon_option(word: str, name: str, least: int) -> tuple[bool, str | None]:
    """Whether ``word`` is that option, and the text after its colon, if it has one."""
    option, colon, more = word.partition(":")
    return is_option(option, name, least), more if colon else None


def job_id(word: str) -> tuple[int, int] | None:
    """Cluster and process of ``42.0``; the process is -1 for ``42`` and ``42.``."""
    match = _WHOLE_ID.fullmatch(word)
    if match is None or int(match[1]) > 2**31 - 1:
        return None
    return int(match[1]), -1 if match[2] is None else int(match[2])


def leading_number(text: str) -> int:
    """Return the number that a text begins with, else 0, as C's ``atoi`` does."""
    match = re.match(r"\s*([+-]?\d+)", text)
    return int(match[1]) if match else 0


Asked = TypeVar("Asked")
#: does what an option asks for: changes the description of what the command is to do
Action = Callable[[Asked, "Given"], object]


@dataclass
class Given:
    """An option as it was given: its word, and the words that follow it."""

    word: str
    words: Words
    command: str
    #: the word as messages show it
    shown: str
    #: the option's whole name, and the text behind its colon
    name: str = ""
    more: str | None = None

    def value(self, message: str, *, dash: bool = True, help: bool = False) -> str:
        """Take the option's value. Raises Usage with the message if it is missing.

        ``dash``: a word that begins with a dash is a value too. For the message see ``wrong``.
        """
        following = self.words.following
        if following is None or (following.startswith("-") and not dash):
            raise self.wrong(message, help=help)
        self.words.take()
        return following

    def plain(self, message: str) -> list[str]:
        """Take the words up to the next option. Raises Usage with the message if it is missing."""
        taken = self.words.take_plain()
        if not taken:
            raise self.wrong(message)
        return taken

    def wrong(self, message: str, *, help: bool = False) -> Usage:
        """The error with this message, in which {word}, {command} and {name} are filled in."""
        return Usage(message.format(word=self.shown, command=self.command, name=self.name), help=help)


#: an option's names, the least number of their letters, and its action
Row = tuple[str, int, Action[Asked]]


class OptionTable(Generic[Asked]):
    """The options of a command, in the order in which HTCondor compares them: the first that fits is meant.

    A name that ends in a colon may be followed by a colon and more.
    """

    def __init__(self, *rows: Row[Asked]) -> None:
        self._rows = [(name, least, action) for names, least, action in rows for name in names.split()]

    def read(
        self,
        asked: Asked,
        words: Iterable[str],
        command: str,
        other: Action[Asked],
        show: Callable[[str], str] = str,
    ) -> Asked:
        """Read a command's words: ``other`` is the action of those that the table does not have.

        ``show`` makes the text of a word that is in octets.
        """
        left = Words(words)
        for word in left:
            given = Given(word, left, command, show(word))
            if not (word.startswith("-") and self.act(asked, given)):
                other(asked, given)
        return asked

    def act(self, asked: Asked, given: Given) -> bool:
        """Do the action of an option; False if the table does not have the option."""
        for name, least, action in self._rows:
            given.name = name.removesuffix(":")
            if name == given.name:
                fits, given.more = is_option(given.word, name, least), None
            else:
                fits, given.more = is_colon_option(given.word, given.name, least)
            if fits:
                action(asked, given)
                return True
        return False


def sets(**values: object) -> Action[object]:
    """An action that sets fields."""

    def action(asked: object, given: Given) -> None:
        vars(asked).update(values)

    return action


def takes(field: str, message: str, *, dash: bool = True) -> Action[object]:
    """An action that takes a value as a field, or appends it to a field that is a list."""

    def action(asked: object, given: Given) -> None:
        value = given.value(message, dash=dash)
        if isinstance(getattr(asked, field), list):
            getattr(asked, field).append(value)
        else:
            setattr(asked, field, value)

    return action


def ignores(asked: object, given: Given) -> None:
    """The action of an option that changes nothing here."""


def ignores_value(message: str = "", *, dash: bool = True, help: bool = False) -> Action[object]:
    """An action that takes a value that changes nothing here; without a message the value may be missing."""

    def action(asked: object, given: Given) -> None:
        if message:
            given.value(message, dash=dash, help=help)
        else:
            given.words.take()

    return action


def refuses(
    reasons: Mapping[str, str], message: str = "Error: -{name} is not supported: {why}"
) -> Action[object]:
    """An action that refuses an option by name, with the reason."""

    def action(asked: object, given: Given) -> None:
        raise Usage(message.format(name=given.name, why=reasons[given.name], command=given.command))

    return action


def joined(all_of: Iterable[str], any_of: Iterable[str]) -> str:
    """The constraint that all of some conditions hold, and one of others; each may be empty."""
    parts = []
    for conditions, operator in ((all_of, " && "), (any_of, " || ")):
        once = list(dict.fromkeys(conditions))
        if once:
            parts.append("( " + operator.join(f"({condition})" for condition in once) + " )")
    return " && ".join(parts)


# Text with one character for each byte of its UTF-8, as HTCondor counts and cuts it.


def octets(text: str) -> str:
    """The bytes of a text, each as one character; ASCII stays what it is."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")


def text_of(octets: str) -> str:
    """Return the text of these bytes; bytes that are not UTF-8 become surrogates."""
    return octets if octets.isascii() else octets.encode("latin-1").decode("utf-8", "surrogateescape")
