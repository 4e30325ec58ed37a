"""The words that were retired, because HTCondor or English owns them, and the places where they may stay.

One thing has one word, everywhere: CONTRIBUTING.md has the list. Names are read in pieces
(``max_held_fetches`` is max, held, fetches; ``HeldFetch`` is held, fetch); comments, docstrings, messages and
documents as text.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.source import ROOT, hook_files, nodes, shown, tracked

#: pieces of names that are retired -> today's name
NAMES = {
    "bury": "give up",
    "chore": "maintenance",
    "chores": "maintenance",
    "duties": "leader tasks",
    "duty": "leader task",
    "kind": "autocluster, or type",
    "kinds": "autoclusters, or types",
    "lobby": "WaitingFetches",
    "place": "position in the queue, location in a file, machine or root of a pool, page",
    "places": "positions, locations, machines, pages",
    "site": "keyword context",
    "sites": "keyword contexts",
    "store": "host session",
    "stores": "host sessions",
    "stranger": "owner without an account, or another user",
    "strangers": "owners without an account, or other users",
    "stray": "unknown run",
    "strays": "unknown runs",
    "tick": "maintenance",
    "ticks": "maintenance",
}

#: words that no text may have, in any meaning -> the word to write
TEXT = {
    r"\blobby\b": "the waiting fetches",
    r"\bchores?\b": "maintenance",
    r"\b(duty|duties)\b": "leader task",
    r"\bstrangers?\b": "an owner without an account, or another user",
    r"\bstrays?\b": "an unknown run",
    r"\b(bury|buries|buried)\b": "give up",
    r"\bheld (fetch|request)(es)?\b|\bfetch(es)? (is|are|that is|that are) held\b": "a waiting fetch",
    r"\bhold(ing)? (a|the|its|every) fetch\b|\bhold_fetch|\bheld_fetch|\buntil_free\b": "a waiting fetch",
    r"\bkinds? of (waiting )?jobs?\b|\b(its|this|that|their|same|own) kinds?\b": "autocluster",
    r"\bwaiting_kinds\b|\bvalue_kind\b": "autocluster, or type",
}

#: (file, piece or text) -> why it may stay
ALLOWED: dict[tuple[str, str], str] = {
    ("fetchwork/process.py", "ticks"): "the kernel's clock ticks since the boot",
    ("fetchwork/pool/machine.py", "ticks"): "the same",
}

#: files that do not have the new words yet; this list should become empty
NOT_YET: set[str] = set()


@dataclass(frozen=True)
class Hit:
    path: Path
    line: int
    word: str
    better: str

    def __str__(self) -> str:
        return f"{shown(self.path)}:{self.line}: '{self.word}'; write: {self.better}"


def pieces(name: str) -> list[str]:
    """The words of a name: HeldFetch and held_fetch are held and fetch."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")


def python_names(path: Path) -> Iterator[tuple[int, str]]:
    """Every name that a module gives or uses, with its line; a name that it merely imports counts too."""
    for node in nodes(path):
        line = getattr(node, "lineno", 1)
        if isinstance(node, ast.Name):
            yield line, node.id
        elif isinstance(node, ast.Attribute):
            yield line, node.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield line, node.name
        elif isinstance(node, ast.arg | ast.keyword) and node.arg:
            yield line, node.arg
        elif isinstance(node, ast.alias):
            yield from ((line, part) for part in node.name.split("."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # keys of JSON, headings of tables, SQL's names in statements
            yield from ((line, found[0]) for found in re.finditer(r"[A-Za-z]+(_[A-Za-z]+)+", node.value))


def sql_names(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        code = re.sub(r"--.*", "", line)
        yield from ((number, found[0]) for found in re.finditer(r"[A-Za-z_][A-Za-z0-9_]*", code))


def setting_names(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r"\s*([A-Za-z_]\w*)\s*=", line)
        if found:
            yield number, found[1]


def sources() -> list[Path]:
    """The files that are searched for the words: all that are shipped or read, but not the tests."""
    folders = ("fetchwork", "hooks", "sql", "config-examples")
    suffixes = (".py", ".sql", ".md", ".toml", ".conf", ".service", ".j2", "")
    ours = [
        path for path in tracked() if path.relative_to(ROOT).parts[0] in folders and path.suffix in suffixes
    ]
    return [*ours, *(path for path in tracked() if path.parent == ROOT and path.suffix == ".md")]


def hits(path: Path) -> Iterator[Hit]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py" or path in hook_files():
        names = python_names(path)
    elif path.suffix == ".sql":
        names = sql_names(text)
    elif path.suffix == ".toml":
        names = setting_names(text)
    else:
        names = iter(())
    for line, name in names:
        for piece in pieces(name):
            if piece in NAMES and (shown(path), piece) not in ALLOWED:
                yield Hit(path, line, name, NAMES[piece])
    if path.name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        return  # they list the retired words
    for pattern, better in TEXT.items():
        for match in re.finditer(pattern, text, re.I):
            if (shown(path), match[0].lower()) not in ALLOWED:
                yield Hit(path, text.count("\n", 0, match.start()) + 1, match[0], better)


def test_no_retired_word_is_left() -> None:
    found = [str(hit) for path in sources() for hit in hits(path)]
    assert not found, "\n" + "\n".join(sorted(set(found)))


def test_what_is_allowed_is_there() -> None:
    for name, word in ALLOWED:
        assert word in (ROOT / name).read_text(encoding="utf-8").lower(), f"{name} has no '{word}' any more"


@pytest.mark.parametrize(
    ("name", "words"),
    [("max_held_fetches", ["max", "held", "fetches"]), ("HeldFetch", ["held", "fetch"]), ("kind", ["kind"])],
)
def test_names_are_looked_at_in_pieces(name: str, words: list[str]) -> None:
    assert pieces(name) == words
