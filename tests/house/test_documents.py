"""The documents name only things that exist: files, links, commands, make targets."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fetchwork import __version__
from fetchwork.cli import main_group
from tests.house.source import ROOT, shown, tracked

DOCUMENTS = [path for path in tracked() if path.suffix == ".md"]

#: the first parts of paths in documents: the repository's own top level
_TOP = sorted({path.relative_to(ROOT).parts[0] for path in tracked() if path.parent != ROOT})
_PATH = re.compile(rf"(?<![\w/.$~-])((?:{'|'.join(map(re.escape, _TOP))})/[\w./*-]*[\w/*])")

#: a command line of ours: at the beginning of a line or code span, or after another command
_COMMAND = re.compile(
    r"(?:^|[`/$#] ?|&& |\$\()\s*(?:\S*/)?fetchwork(?: --dsn (?:\"[^\"]*\"|\S+))?"
    r" ([a-z]+(?:-[a-z]+)*)(?![_a-z])(?: ([a-z]+(?:-[a-z]+)*))?"
)

#: paths that only look like the repository's
_OTHERS = {
    "fetchwork/pool",
    "fetchwork/1",
    "fetchwork/NAME",
    "fetchwork/_config-examples",
    # made by a test, and absent from a clone
    "tests/house/messages.txt",
}


def named(document: Path) -> Iterator[str]:
    """Each path of the repository that a document names in a code span or block."""
    text = document.read_text(encoding="utf-8")
    blocks = re.findall(r"```.*?```|`[^`\n]+`", text, re.S)
    for block in blocks:
        for match in _PATH.finditer(block):
            if match[1] not in _OTHERS and not re.search(r"NAME|NNNN", match[1]):
                yield match[1]


@pytest.mark.parametrize("document", DOCUMENTS, ids=shown)
def test_every_path_that_a_document_names_exists(document: Path) -> None:
    missing = {path for path in named(document) if not [*ROOT.glob(path.rstrip("/"))]}
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=shown)
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text(encoding="utf-8"))
    missing = [
        link for link in links if not re.match(r"[a-z]+:", link) and not (document.parent / link).exists()
    ]
    assert not missing


def commands() -> dict[str, click.Command]:
    """Every command and group by its words."""
    found: dict[str, click.Command] = {}

    def walk(group: click.Group, words: tuple[str, ...]) -> None:
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            found[" ".join((*words, name))] = command
            if isinstance(command, click.Group):
                walk(command, (*words, name))

    walk(main_group, ())
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=shown)
def test_every_command_that_a_document_names_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    if document.name == "CHANGELOG.md":
        text = re.sub(r"\(was .*?\)", "", text, flags=re.S)
    known = commands()
    missing = []
    for line in "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.S)).splitlines():
        for match in _COMMAND.finditer(line):
            first, second = match[1], match[2]
            command = known.get(first)
            if command is None or (
                isinstance(command, click.Group) and second and f"{first} {second}" not in known
            ):
                missing.append(match[0])
    assert not missing


def test_every_make_target_that_a_document_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z%-]+):", makefile, re.M))
    benchmarks = {
        path.stem.removeprefix("bench_").replace("_", "-") for path in ROOT.glob("tests/benchmarks/bench_*")
    }
    missing = []
    for document in DOCUMENTS:
        for target in re.findall(r"[`\n]make ([a-z-]+)", document.read_text(encoding="utf-8")):
            bench = target.removeprefix("bench-")
            if target not in targets and not (target.startswith("bench-") and bench in benchmarks | {""}):
                missing.append(f"{shown(document)}: make {target}")
    assert not missing


def test_contributing_has_a_row_for_each_room() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = {
        path.parent for path in tracked() if path.parent.parent == ROOT / "fetchwork" and path.suffix == ".py"
    }
    assert not [shown(room) for room in rooms if f"| `{shown(room)}/` |" not in page]


def test_changelog_has_a_section_for_what_is_not_released() -> None:
    page = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## \[Unreleased\]$", page, re.M)


def test_the_version_stands_in_one_file() -> None:
    holders = [
        shown(path)
        for path in tracked()
        if path.suffix in (".py", ".toml", ".cfg")
        and re.search(rf"version\w* *= *[\"']{re.escape(__version__)}", path.read_text(encoding="utf-8"))
    ]
    assert holders == ["fetchwork/__init__.py"]
