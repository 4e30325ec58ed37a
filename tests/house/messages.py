"""Every text that a user can see, collected into one page for reading: ``python -m tests.house.messages``.

The help of every command as click prints it; texts that Python raises, prints and logs, from the syntax
trees; texts that SQL raises; the comments of generated files. The page is for reading, so it has a line too
many rather than too few.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from fetchwork.cli import main_group
from tests.house.source import PACKAGE, ROOT, nodes, python_files, shown, tracked, tree

#: beginnings of strings that are statements for the database, or parts of them
_SQL = re.compile(
    r"\s*\(?(SELECT|INSERT|UPDATE|DELETE|WITH|FROM|WHERE|ORDER BY|GROUP BY|LEFT|JOIN|CROSS|CREATE|ALTER|DROP"
    r"|GRANT|REVOKE|SET|LISTEN|NOTIFY|BEGIN|COMMIT|COPY|CASE|WHEN|AND|OR|NOT|EXISTS|LIMIT|FETCH|DECLARE|ON|AS"
    r"|IS|ANY|EXPLAIN|VALUES|count\(|sum\(|coalesce\(|to_jsonb|unnest)\b"
)
_WORDS = re.compile(r"[A-Za-z]{2,}[,;:]? +[A-Za-z'\"{]|^[a-z{]+: ")


def text_of(node: ast.expr) -> str | None:
    """A string as it is written, with {...} for inserted values; None if the node is no string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{" + ast.unparse(part.value) + "}"
            for part in node.values
            if isinstance(part, ast.Constant | ast.FormattedValue)
        )
    return None


def _docstrings(path: Path) -> set[ast.AST]:
    """The nodes of strings that stand alone: docstrings, and those of attributes."""
    return {
        node.value
        for node in nodes(path)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.JoinedStr)
    }


def python_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Each string of a module that reads like words, with its line."""
    skipped = _docstrings(path)
    for node in nodes(path):
        if isinstance(node, ast.JoinedStr):
            skipped.update(part for part in ast.walk(node) if part is not node)
    for node in nodes(path):
        if node in skipped or not isinstance(node, ast.expr):
            continue
        text = text_of(node)
        if text and _WORDS.search(text) and not _SQL.match(text):
            yield node.lineno, text


def log_events(path: Path) -> Iterator[tuple[int, str]]:
    """Each ``event(log, LEVEL, name, field=...)`` of a module: the name and its fields."""
    for node in nodes(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "event":
            fields = [keyword.arg or f"**{ast.unparse(keyword.value)}" for keyword in node.keywords]
            yield node.lineno, " ".join([*(ast.unparse(arg) for arg in node.args[1:]), *fields])


def error_docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings of exceptions, which are their default messages."""
    for node in tree(path).body:
        if isinstance(node, ast.ClassDef):
            yield node.lineno, f"{node.name}: {ast.get_docstring(node) or ''}"


def sql_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Each literal of an SQL file that reads like words."""
    text = re.sub(r"--[^\n]*", lambda comment: " " * len(comment[0]), path.read_text(encoding="utf-8"))
    for match in re.finditer(r"'((?:[^']|'')*)'", text):
        if _WORDS.search(match[1]):
            yield text.count("\n", 0, match.start()) + 1, match[1].replace("''", "'")


def template_texts(path: Path) -> Iterator[tuple[int, str]]:
    """The comments of a generated file."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith(("#", ";")):
            yield number, line.strip()


def helps() -> Iterator[tuple[str, str]]:
    """The help of each command and of each group."""

    def walk(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
        yield context.command_path, command.get_help(context)
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                yield from walk(
                    inner, click.Context(inner, info_name=name, parent=context, max_content_width=100)
                )

    # a command keeps the help option of the first context that it is asked in
    settings = {**main_group.context_settings, "max_content_width": 100}
    yield from walk(main_group, click.Context(main_group, info_name="fetchwork", **settings))


def page() -> str:
    """The whole page."""
    lines: list[str] = []

    def section(title: str) -> None:
        lines.extend(["", f"==== {title}"])

    def block(path: Path, found: list[tuple[int, str]]) -> None:
        if found:
            lines.append(f"-- {shown(path)}")
            lines.extend(f"{number:5}  {text}" for number, text in sorted(found))

    section("help of the commands")
    for name, text in helps():
        lines.extend(["", f"$ {name} --help", text])
    section("default messages of exceptions")
    for path in (PACKAGE / "hookerrors.py", PACKAGE / "errors.py"):
        block(path, [*error_docstrings(path)])
    section("texts of Python")
    for path in python_files():
        block(path, [*python_texts(path)])
    section("log events")
    for path in python_files():
        block(path, [*log_events(path)])
    section("texts of SQL")
    for path in tracked():
        if path.suffix == ".sql" and ROOT / "sql" in path.parents:
            block(path, [*sql_texts(path)])
    section("comments of generated files")
    for path in tracked():
        if path.suffix == ".j2":
            block(path, [*template_texts(path)])
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
