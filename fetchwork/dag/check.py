"""Finds the commands of a DAG that can't be run here, before any node is submitted.

- PROVISIONER: DAGMan reads the node's state from the schedd's ad of it, and there is no schedd.
- An inline description (``JOB A { ... }``, ``SUBMIT-DESCRIPTION``) before HTCondor 24: such a DAGMan can only
  give it to a schedd, and would end the DAG at that node.

The check reads only the form of lines (dag_parser.cpp): a keyword in any case, with ``-`` equal to ``_``.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: the first HTCondor whose DAGMan writes inline descriptions to files
INLINE_SINCE = 24
_DESCRIBED = frozenset(("JOB", "NODE", "FINAL", "SERVICE", "PROVISIONER", "SUBMIT_DESCRIPTION"))
# blanks within quotes are part of a word
_WORD = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s"'])+|["']""")


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a DAG file: its words and its position."""

    path: Path
    line: int
    words: tuple[str, ...]

    @property
    def name(self) -> str:
        """The keyword in HTCondor's spelling."""
        return self.words[0].upper().replace("-", "_")

    @property
    def inline(self) -> bool:
        """Whether an inline description follows."""
        return self.name in _DESCRIBED and (self.words[-1] == "{" or self.words[-1].startswith("@="))

    def _folder(self, base: Path, behind: int) -> Path:
        """The directory named by DIR after ``behind`` words; ``base`` if there is no DIR."""
        words = [word.upper() for word in self.words[behind:-1]]
        return base / self.words[behind + words.index("DIR") + 1] if "DIR" in words else base

    def inner(self, base: Path) -> tuple[Path, Path] | None:
        """The DAG file that the command includes, if any, and the base directory of its paths."""
        if self.name == "INCLUDE" and len(self.words) > 1:
            return base / self.words[1], base
        if self.name == "SPLICE" and len(self.words) > 2:
            folder = self._folder(base, 3)
            return folder / self.words[2], folder
        if self.name == "SUBDAG" and len(self.words) > 3:
            folder = self._folder(base, 4)
            return folder / self.words[3], folder
        return None


def commands(path: Path) -> Iterator[Command]:
    """Yield the commands of a DAG file, without the lines of inline descriptions; raises OSError."""
    lines = iter(enumerate(path.read_text(errors="replace").splitlines(), 1))
    for number, line in lines:
        whole = line
        while whole.rstrip().endswith("\\"):
            whole = whole.rstrip()[:-1] + next(lines, (0, ""))[1]
        words = tuple(_unquoted(word) for word in _WORD.findall(whole))
        if not words or words[0].startswith(("#", "//")):
            continue
        found = Command(path, number, words)
        yield found
        if found.inline:
            end = "}" if words[-1] == "{" else f"@{words[-1][2:]}"
            for _, inner in lines:
                if inner.strip() == end:
                    break


def _unquoted(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" else word


def all_commands(path: Path, base: Path, seen: set[Path] | None = None) -> Iterator[Command]:
    """Yield a file's commands and those of its splices, sub-DAGs and included files that can be read now.

    The file's paths are relative to ``base``. Raises OSError for the first file only.
    """
    seen = set() if seen is None else seen
    seen.add(path.resolve())
    for command in commands(path):
        yield command
        inner = command.inner(base)
        if inner is None or inner[0].resolve() in seen or not inner[0].is_file():
            # DAGMan reports it itself, or a node will write it
            continue
        with contextlib.suppress(OSError):
            yield from all_commands(*inner, seen)


def problems(path: Path, base: Path, version: int) -> list[str]:
    """Return a line for each command of a DAG that HTCondor's major ``version`` can't run; raises OSError."""
    found = []
    for command in all_commands(path, base):
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
