"""What of a DAG can't be run here, found before anything is submitted.

- PROVISIONER: DAGMan reads the node's state from a schedd's ad of it, and there is no schedd.
- An inline description (``JOB A { ... }``, ``SUBMIT-DESCRIPTION``) before HTCondor 24: that DAGMan gives it
  to a schedd alone, and would end the DAG when it comes to the node.

Only the form of lines is looked at (dag_parser.cpp): a keyword in any case, where ``-`` and ``_`` are one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: the first HTCondor whose DAGMan writes inline descriptions to files
INLINE_SINCE = 24
_INNER = {"SPLICE": 2, "INCLUDE": 1}


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a DAG file: its words, and where it begins."""

    path: Path
    line: int
    words: tuple[str, ...]

    @property
    def name(self) -> str:
        """The keyword in HTCondor's spelling."""
        return self.words[0].upper().replace("-", "_")

    @property
    def inline(self) -> bool:
        """Does a description follow?"""
        return self.words[-1] == "{" or self.words[-1].startswith("@=")


def commands(path: Path) -> Iterator[Command]:
    """The commands of a DAG file, without the lines of inline descriptions; raises OSError."""
    lines = iter(enumerate(path.read_text(errors="replace").splitlines(), 1))
    for number, line in lines:
        whole = line
        while whole.rstrip().endswith("\\"):
            whole = whole.rstrip()[:-1] + next(lines, (0, ""))[1]
        words = tuple(whole.split())
        if not words or words[0].startswith(("#", "//")):
            continue
        found = Command(path, number, words)
        yield found
        if found.inline:
            end = "}" if words[-1] == "{" else f"@{words[-1][2:]}"
            for _, inner in lines:
                if inner.strip() == end:
                    break


def all_commands(path: Path, seen: set[Path] | None = None) -> Iterator[Command]:
    """The same, with those of splices and included files that can be read; raises OSError for the first."""
    seen = set() if seen is None else seen
    seen.add(path.resolve())
    for command in commands(path):
        yield command
        position = _INNER.get(command.name)
        if position is None or len(command.words) <= position:
            continue
        words = [word.upper() for word in command.words]
        base = path.parent
        if command.name == "SPLICE" and "DIR" in words[:-1]:
            base = base / command.words[words.index("DIR") + 1]
        inner = base / command.words[position]
        if inner.resolve() in seen or not inner.is_file():
            # DAGMan has its own words for it
            continue
        yield from all_commands(inner, seen)


def problems(path: Path, version: int) -> list[str]:
    """What can't be run of the DAG in a file, by HTCondor's major ``version`` here; raises OSError."""
    found = []
    for command in all_commands(path):
        if command.name == "PROVISIONER":
            found.append(
                f"{command.path}:{command.line}: PROVISIONER can't be honoured: DAGMan asks a schedd for the"
                " state of this node; allowed: a JOB that its users are children of"
            )
        elif command.inline and version < INLINE_SINCE:
            found.append(
                f"{command.path}:{command.line}: {command.name} with its description inline needs HTCondor"
                f" {INLINE_SINCE} or later, here is {version}; allowed: the name of a submit file"
            )
    return found
