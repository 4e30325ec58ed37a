"""Every text that users see is on one page, to be read from time to time, and obeys a few plain rules."""

import ast
from collections.abc import Iterator
from pathlib import Path

from fetchwork.cli import COMMANDS
from tests.house import messages
from tests.house.source import PACKAGE, nodes, python_files, shown, tree

#: the page, for reading; git ignores it
PAGE = Path(__file__).with_name("messages.txt")

SECTIONS = (
    "help of the commands",
    "default messages of exceptions",
    "texts of Python",
    "log events",
    "texts of SQL",
    "comments of generated files",
)


def our_errors() -> set[str]:
    files = (PACKAGE / "errors.py", PACKAGE / "hookerrors.py")
    names = {node.name for path in files for node in tree(path).body if isinstance(node, ast.ClassDef)}
    return names | {"UsageError", "ClickException", "BadParameter"}


def raised() -> Iterator[tuple[str, str]]:
    """Each text that is raised as one of our errors or of click's, with its place."""
    errors = our_errors()
    for path in python_files():
        for node in nodes(path):
            if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call) or not node.exc.args:
                continue
            name = ast.unparse(node.exc.func).rpartition(".")[2]
            text = messages.text_of(node.exc.args[0])
            if name in errors and text:
                yield f"{shown(path)}:{node.lineno}", text


def test_every_text_is_on_one_page() -> None:
    page = messages.page()
    PAGE.write_text(page, encoding="utf-8")
    for section in SECTIONS:
        assert f"==== {section}\n" in page
    for commands in COMMANDS.values():
        for command in commands:
            assert f"$ fetchwork {command} --help\n" in page
    missing = [where for where, text in raised() if " " in text and text not in page]
    assert not missing


def test_an_error_begins_small_and_ends_without_a_full_stop() -> None:
    texts = list(raised())
    assert len(texts) > 100
    wrong = []
    for where, text in texts:
        first = text.split(" ", 1)[0].strip("'\":;,")
        is_name = not first.isalpha() or not first.istitle() or first in NAMES
        if (text.endswith(".") and not text.endswith("...")) or not is_name:
            wrong.append(f"{where}: {text}")
    assert not wrong, "\n".join(wrong)


#: words that always have a capital; a text of HTCondor's begins with "Number"
NAMES = {"Iwd", "Cmd", "Owner", "Environment", "Python", "Requirements", "Rank", "Number"}
