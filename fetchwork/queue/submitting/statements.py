"""Finds a submit description's queue statement and the commands above it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fetchwork.errors import SubmitError


@dataclass(frozen=True)
class Statement:
    """The queue statement: its own lines, the commands above it, and its line number."""

    commands: str
    queue: str
    line: int


def queue_statement(text: str) -> Statement | None:
    """The queue statement of a submit description; raises SubmitError if other lines follow it."""
    # at some NULs HTCondor's Submit loops for ever, at others it cuts the text
    if "\0" in text:
        number = len(text[: text.index("\0") + 1].splitlines())
        raise SubmitError(f"line {number} has a NUL; allowed: text without NUL")
    found: Statement | None = None
    commands: list[str] = []
    depth = 0
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if found is not None and line.strip() and not line.lstrip().startswith("#"):
            raise SubmitError(
                f"line {number}: Extra data found after queue statement;"
                " allowed: one queue statement, which ends the description"
            )
        whole = line
        while whole.endswith("\\"):
            whole += "\n" + next(lines, (0, ""))[1]
        word = whole.split(None, 1)[0].lower() if whole.strip() else ""
        if word == "queue":
            if depth:
                raise SubmitError(f"line {number}: queue inside if; allowed: queue outside of if ... endif")
            if re.search(r"\(\s*$", whole):
                # item data follow, up to a line that begins with a parenthesis
                for _, item in lines:
                    whole += "\n" + item
                    if item.lstrip().startswith(")"):
                        break
                else:
                    raise SubmitError(f"line {number}: the items of queue have no closing ')'")
            found = Statement("\n".join(commands), whole, number)
            continue
        depth += (word == "if") - (word == "endif")
        commands.append(whole)
        if heredoc := re.match(r"\s*[\w.+]+\s*@=(\w+)\s*$", whole):
            for _, item in lines:
                commands.append(item)
                if item.strip() == f"@{heredoc[1]}":
                    break
    return found


def with_commands(text: str, lines: Sequence[str]) -> str:
    """The description with more commands before its queue statement."""
    if not lines:
        return text
    added = "\n".join(lines)
    statement = queue_statement(text)
    if statement is None:
        return f"{text}\n{added}\n"
    return f"{statement.commands}\n{added}\n{statement.queue}\n"


def assignments(text: str) -> Iterator[tuple[str, int]]:
    """The name of each command of a description, and the number of its line."""
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"\s*([+\w.]+)\s*=", line):
            yield match[1], number
