"""Ads as HTCondor's daemons pass them to hooks: ``Name = expression`` lines, the expressions left as text.

A simulated daemon reads a dozen attributes of each ad and passes the others on, thousands of times a second,
so an expression is parsed only when it is read.
"""

import re
from collections.abc import Iterator

_LINE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")


class TextAd:
    """Attribute name -> expression; names keep their case and are found without it."""

    def __init__(self) -> None:
        self._lines: dict[str, tuple[str, str]] = {}

    @classmethod
    def parse(cls, text: bytes | str) -> "TextAd | None":
        """Parse an ad's lines; None if one is malformed: HTCondor then drops them all."""
        ad = cls()
        lines = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        for line in lines.replace("\r\n", "\n").split("\n"):
            name, equals, expression = line.partition("=")
            name, expression = name.strip(), expression.strip()
            if not line.strip():
                continue
            if not equals or not expression or not _LINE.match(name):
                return None
            ad._lines[name.lower()] = (name, expression)
        return ad

    def copy(self) -> "TextAd":
        """Return a copy."""
        other = TextAd()
        other._lines = dict(self._lines)
        return other

    def update(self, other: "TextAd") -> None:
        """Take over every attribute of another ad."""
        self._lines.update(other._lines)

    def put(self, name: str, expression: str) -> None:
        """Set an attribute to an expression."""
        self._lines[name.lower()] = (name, expression)

    def put_text(self, name: str, text: str) -> None:
        """Set an attribute to a string."""
        # old syntax: a backslash is a backslash, unless a quote follows
        self.put(name, '"' + text.replace('"', '\\"') + '"')

    def expression(self, name: str) -> str | None:
        """An attribute's expression."""
        line = self._lines.get(name.lower())
        return line[1] if line else None

    def text(self, name: str) -> str | None:
        """An attribute that is a string."""
        expression = self.expression(name)
        if expression is None or len(expression) < 2 or expression[0] != '"' or expression[-1] != '"':
            return None
        return expression[1:-1].replace('\\"', '"')

    def number(self, name: str) -> float | None:
        """An attribute that is a number."""
        try:
            return float(self.expression(name) or "")
        except ValueError:
            return None

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._lines

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._lines.values())

    def __bytes__(self) -> bytes:
        """The lines, sorted by name as daemons print them."""
        lines = sorted(self._lines.items())
        return "".join(f"{name} = {expression}\n" for _, (name, expression) in lines).encode()
