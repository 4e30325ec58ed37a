"""No sentence has a mark that sentences.py looks for; its ALLOWED has the exceptions."""

from pathlib import Path

import pytest

from tests.house import sentences
from tests.house.sentences import ALLOWED, Sentence, all_sentences, files
from tests.house.source import ROOT


def test_no_sentence_has_to_be_decoded() -> None:
    assert not [f"{sentence} {sentence.marks}" for sentence in all_sentences(files()) if sentence.marks]


def test_each_exception_is_there() -> None:
    for name, beginning in ALLOWED:
        assert beginning in " ".join((ROOT / name).read_text(encoding="utf-8").split()), (
            f"{name}: {beginning}"
        )


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("What a host is told that makes itself known.", ["begins with a question word"]),
        ("What does a host learn?", []),
        ("The answer is none of these.", []),
        ("The answer is none.", ["is none"]),
        ("Nobody else can.", ["an indefinite person"]),
        ("The account `nobody` has no home.", []),
        ("Those that wait are told.", ["those that as a subject"]),
        ("The agent tells a host its name.", []),
    ],
)
def test_a_mark_is_found(text: str, marks: list[str]) -> None:
    assert Sentence(Path(ROOT / "README.md"), 1, text).marks == marks


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "a.py",
            '"""One thing here. Another thing\nthere."""\n',
            [(1, "One thing here."), (1, "Another thing there.")],
        ),
        (
            "a.py",
            "x = 1  # one two three\n# four five\n# six seven\n",
            [(1, "one two three"), (2, "four five six seven")],
        ),
        (
            "a.sql",
            "-- one two three\nSELECT 1; -- four five six\n",
            [(1, "one two three"), (2, "four five six")],
        ),
        (
            "a.md",
            "# A heading\n\nOne two\nthree.\n\n| one two three | e |\n",
            [(3, "One two three."), (6, "one two three")],
        ),
        (
            "a.c",
            "/* One two\n * three. */\nint x; // four five six\n",
            [(1, "One two three."), (3, "four five six")],
        ),
    ],
)
def test_sentences_of_a_file(tmp_path: Path, name: str, text: str, expected: list[tuple[int, str]]) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert [(found.line, found.text) for found in sentences.sentences(path)] == expected
