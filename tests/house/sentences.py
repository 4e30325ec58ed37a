"""The sentences of the project, and the marks of those that a reader has to decode.

    python -m tests.house.sentences [PATH ...]              each marked sentence below the paths
    python -m tests.house.sentences --draw 100 --seed 7     a random sample, to be read without the code

A mark is a sign, not a proof: a sentence without one can still be hard to read. The sample shows that.
"""

import argparse
import ast
import random
import re
import sys
import textwrap
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.house import messages
from tests.house.source import PACKAGE, ROOT, hook_files, shown, tracked, tree

#: the mark's name -> its pattern, in a sentence whose code spans were taken out
MARKS = {
    "begins with a question word": re.compile(r"^\W*(what|whose|who|which|where|how)\b(?!-)", re.I),
    "is none": re.compile(r"\b(is|are|was|were) none\b(?! of\b)", re.I),
    "of whom": re.compile(r"\b(of|for|to|by|from|with) whom\b", re.I),
    "those that as a subject": re.compile(r"^\W*those (that|who|which|whose)\b", re.I),
    "an indefinite person": re.compile(r"\b(nobody|somebody|anybody|everybody)\b", re.I),
    "an indefinite relative": re.compile(r"\b(whoever|whatever|wherever|whomever|whosever)\b", re.I),
}
#: (file, beginning of the sentence) -> why it may stay
ALLOWED: dict[tuple[str, str], str] = {}

#: files and folders of data, licences and lists, which have no sentences of ours
_NOT_READ = ("LICENSE", "tests/data/", "tests/house/sentences.py", "tests/house/test_sentences.py")
#: code spans, quoted names and values, and links' targets
_CODE = re.compile(r"\{[^{}]*\}|``.+?``|`[^`\n]+`|\]\([^)]*\)|'[^'\s]{1,40}'|\"[^\"\s]{1,40}\"")
_SENTENCE_END = re.compile(r"(?<=[.!?])[)\"']*\s+(?=[A-Z`\"'(*\[])")
#: a comment is group 1: a ``#`` that is in no string
_STRING_OR_COMMENT = re.compile(
    r""""{3}(?:\\.|[^\\])*?"{3}|\'{3}(?:\\.|[^\\])*?\'{3}"""
    r"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(\#[^\n]*)""",
    re.S,
)
_NOT_PROSE = re.compile(r"^(#!|noqa\b|type:|pragma\b|ruff:|fmt:|mypy:|-\*-|SPDX)")


@dataclass(frozen=True)
class Sentence:
    path: Path
    line: int
    text: str

    @property
    def marks(self) -> list[str]:
        """The names of the marks that the sentence has."""
        if (shown(self.path), self.text[:40]) in ALLOWED:
            return []
        text = _CODE.sub("X", self.text)
        found = [name for name, pattern in MARKS.items() if pattern.search(text)]
        return [
            name
            for name in found
            if not (name.startswith("begins") and self.text.rstrip(")'\"").endswith("?"))
        ]

    def __str__(self) -> str:
        return f"{shown(self.path)}:{self.line}: {self.text}"


def sentences(path: Path) -> Iterator[Sentence]:
    """Each sentence of a file: of docstrings, comments, documents and messages, in this order."""
    for line, paragraph in _paragraphs(path):
        position = 0
        for text in _SENTENCE_END.split(paragraph):
            position = paragraph.find(text, position)
            words = " ".join(text.split())
            if len(re.findall(r"[A-Za-z]{2,}", words)) >= 3:
                yield Sentence(path, line + paragraph.count("\n", 0, position), words)


def files() -> list[Path]:
    """Every file whose sentences count: the project's own text and code."""
    suffixes = (".py", ".sql", ".md", ".c", ".h", ".j2", ".toml", ".html", ".js", ".css", ".sh")
    return [
        path
        for path in tracked()
        if not shown(path).startswith(_NOT_READ)
        and (path.suffix in suffixes or path in hook_files() or path.name == "Makefile")
    ]


def _paragraphs(path: Path) -> Iterator[tuple[int, str]]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py" or path in hook_files():
        yield from _docstrings(path, text)
        yield from _python_comments(text)
        if PACKAGE in path.parents:
            yield from messages.python_texts(path)
    elif path.suffix == ".sql":
        yield from _line_comments(text, "--")
        yield from messages.sql_texts(path)
    elif path.suffix in (".c", ".h", ".js", ".css"):
        yield from _block_comments(text)
        yield from _line_comments(text, "//")
    elif path.suffix == ".md":
        yield from _markdown(text)
    elif path.suffix == ".html":
        for match in re.finditer(r"\{#-?(.*?)-?#\}|>([^<>{}]+)<", text, re.S):
            yield text.count("\n", 0, match.start()) + 1, match[1] or match[2]
    else:
        yield from _line_comments(text, "#")


def _split(line: int, text: str) -> Iterator[tuple[int, str]]:
    """The paragraphs and list items of a text."""
    for block in re.finditer(r"(?:(?!\n[ \t]*\n|\n[ \t]*(?:[-*]|\d+\.)[ \t]).)+", text, re.S):
        found = block[0]
        begin = len(found) - len(found.lstrip())
        if found.strip() and not re.match(r"\s*(>>>|\$ )", found):
            stripped = re.sub(r"^\s*(?:[-*]|\d+\.)[ \t]+", "", found)
            yield line + text.count("\n", 0, block.start() + begin), stripped.strip()


def _docstrings(path: Path, text: str) -> Iterator[tuple[int, str]]:
    # of the package alone other tests read the trees too
    for node in _statements(tree(path) if PACKAGE in path.parents else ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            # an indented block after a paragraph is an example
            prose = re.sub(r"(?m)^ {4,}(?! )[^\n]*\n?", "\n", textwrap.dedent(_dedented(node.value.value)))
            yield from _split(node.lineno, prose)


def _statements(module: ast.Module) -> Iterator[ast.AST]:
    """Every statement of a module: a tenth of its nodes."""
    found: deque[ast.AST] = deque([module])
    while found:
        yield (node := found.popleft())
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):
            found.extend(getattr(node, field, ()))


def _dedented(docstring: str) -> str:
    first, newline, rest = docstring.partition("\n")
    return first + newline + textwrap.dedent(rest)


def _python_comments(text: str) -> Iterator[tuple[int, str]]:
    block: list[str] = []
    begin = last = column = position = 0
    row = 1
    for match in _STRING_OR_COMMENT.finditer(text):
        if match[1] is None:
            continue
        row += text.count("\n", position, match.start())
        position = match.start()
        start = position - text.rfind("\n", 0, position) - 1
        comment = match[1].lstrip("#:").strip()
        alone = not text[position - start : position].strip()
        if block and alone and row == last + 1 and start == column:
            block.append(comment)
        else:
            yield from _split(begin, "\n".join(block))
            block, begin, column = [comment], row, start if alone else -1
        if _NOT_PROSE.match(comment) or match[1].startswith("#!"):
            block.pop()
        last = row
    yield from _split(begin, "\n".join(block))


def _line_comments(text: str, sign: str) -> Iterator[tuple[int, str]]:
    block: list[str] = []
    begin = 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        match = re.match(rf"(.*?){re.escape(sign)}+[!:]?(?: (.*)|$)", line)
        alone = match is not None and not match[1].strip()
        if (
            match
            and sign != "#"
            and not alone
            and (match[1].count("'") % 2 or match[1].rstrip().endswith(":"))
        ):
            match = None  # within a literal, or a URL
        if match and sign == "#" and not alone:
            match = None
        if not (match and alone) and block:
            yield from _split(begin, "\n".join(block))
            block = []
        if match:
            if not block:
                begin = number
            block.append(match[2] or "")
            if not alone:
                yield from _split(begin, "\n".join(block))
                block = []


def _block_comments(text: str) -> Iterator[tuple[int, str]]:
    for match in re.finditer(r"/\*(.*?)\*/", text, re.S):
        lines = [re.sub(r"^\s*\*? ?", "", line) for line in match[1].split("\n")]
        yield from _split(text.count("\n", 0, match.start()) + 1, "\n".join(lines))


def _markdown(text: str) -> Iterator[tuple[int, str]]:
    text = re.sub(r"```.*?```|<!--.*?-->", lambda block: "\n" * block[0].count("\n"), text, flags=re.S)
    block: list[str] = []
    begin = 1
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if re.match(r"\s*(\||#|=+$|-+$)", line) or not line.strip():
            yield from _split(begin, "\n".join(block))
            block = []
            if re.match(r"\s*\|", line) and not re.match(r"[\s|:-]+$", line):
                for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")):
                    yield number, cell.strip()
        else:
            if not block:
                begin = number
            block.append(line)


def all_sentences(paths: Iterable[Path]) -> list[Sentence]:
    return [sentence for path in paths for sentence in sentences(path)]


def main(arguments: list[str]) -> int:
    """Print marked sentences, or a sample; the status is 1 if a sentence is marked."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.house.sentences",
        description="Sentences that a reader has to decode, or a sample.",
    )
    parser.add_argument("paths", nargs="*", help="files or folders of the repository (default: all)")
    parser.add_argument("--draw", type=int, metavar="N", help="print N sentences, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample (default: 1)")
    parser.add_argument("--all", action="store_true", help="print every sentence")
    options = parser.parse_args(arguments)
    chosen = [(ROOT / name).resolve() for name in options.paths] or [ROOT]
    for path in chosen:
        if not path.exists():
            parser.error(f"'{path}': no such file or folder")
    read = [path for path in files() if any(path == one or one in path.parents for one in chosen)]
    found = all_sentences(read)
    if options.draw is not None:
        sample = random.Random(options.seed).sample(found, min(options.draw, len(found)))
        for number, sentence in enumerate(sample, 1):
            print(f"{number:4}  {sentence}")
        return 0
    if options.all:
        for sentence in found:
            print(sentence)
        return 0
    marked = [sentence for sentence in found if sentence.marks]
    for sentence in marked:
        print(f"{sentence}  [{', '.join(sentence.marks)}]")
    print(f"{len(marked)} of {len(found)} sentences are marked", file=sys.stderr)
    return 1 if marked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
