"""The rules for SQL: each finds its defect, and the files of ``sql/`` obey them."""

from pathlib import Path

import pytest

from tests.house.lint_sql import blanked, form, headers, listing, problems

FUNCTION = """-- Answers.
CREATE OR REPLACE FUNCTION fetchwork.answer()
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN 42;
END
$$;
"""


def test_our_sql_keeps_the_rules() -> None:
    assert [str(problem) for problem in problems()] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1;\n", []),
        ("select 1;\n", ["keyword 'select' is not in upper case"]),
        ("SELECT a.Name FROM_it;\n", ["name 'FROM_it' is not in lower case"]),
        ("SELECT 'Select From', \"Name\"; -- From where\n", []),
        ("SELECT 1; \n", ["blanks at the end of the line"]),
        ("SELECT\n\t1;\n", ["a tab; allowed: four blanks", "indentation that is not a multiple of four"]),
        ("SELECT\n  1;\n", ["indentation that is not a multiple of four"]),
        ("SELECT 1;", ["the file does not end with one line end"]),
        ("SELECT 1;\n\n", ["the file does not end with one line end"]),
        (f"SELECT {'1' * 110};\n", ["118 columns; allowed: 110"]),
        (f"-- {'x' * 110}\n", ["113 columns; allowed: 110"]),
        ("SELECT a.x FROM t AS a;\n", ["FROM is not on a line of its own"]),
        ("SELECT a.x\nFROM t AS a WHERE a.x = 1;\n", ["WHERE is not on a line of its own"]),
        ("UPDATE t AS a SET x = 1;\n", ["SET is not on a line of its own"]),
        ("DELETE FROM t AS a\nWHERE a.x IN (SELECT b.x FROM u AS b WHERE b.y);\n", []),
        ("INSERT INTO t (x) VALUES (1);\n", ["VALUES is not on a line of its own"]),
        ("SELECT a.x IS DISTINCT FROM a.y\nFROM t AS a;\n", []),
        ("FROM t AS a LEFT JOIN u AS b ON b.x = a.x;\n", ["LEFT JOIN is not on a line of its own"]),
    ],
)  # fmt: skip
def test_lines(text: str, expected: list[str]) -> None:
    assert [problem.text for problem in form("functions/x.sql", text)] == expected


def test_a_problem_says_where_it_is() -> None:
    (problem,) = form("views/x.sql", "SELECT\n    a\n;select;\n")
    assert str(problem) == "sql/views/x.sql:3: keyword 'select' is not in upper case"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", []),
        ("-- Answers.\n", "", ["no header above CREATE FUNCTION"]),
        ("-- Answers.\n", "-- Answers.\n\n", ["no header above CREATE FUNCTION"]),
        ("fetchwork.answer", "fetchwork.other", ["the file does not make answer and nothing else"]),
        (
            "$$;\n",
            f"$$;\n{FUNCTION.replace('answer', 'other')}",
            ["the file does not make answer and nothing else"],
        ),
        # a public function may have a second form
        ("$$;\n", f"$$;\n{FUNCTION}", []),
        (
            "SET search_path = pg_catalog, pg_temp\n",
            "SET search_path = public\n",
            ["search_path is not pinned to pg_catalog, pg_temp"],
        ),
        (
            "SECURITY DEFINER\nSET search_path = pg_catalog, pg_temp\n",
            "",
            ["search_path is not pinned to pg_catalog, pg_temp"],
        ),
        (
            "    RETURN 42",
            "    PERFORM FROM t AS a\n    FOR UPDATE;\n    RETURN 42",
            ["it locks, and no comment says what"],
        ),
        ("    RETURN 42", "    -- locks a\n    PERFORM FROM t AS a\n    FOR UPDATE;\n    RETURN 42", []),
    ],
)
def test_functions(old: str, new: str, expected: list[str]) -> None:
    text = FUNCTION.replace(old, new, 1) if old else FUNCTION
    found = headers("functions/x/answer.sql", text, frozenset({"answer"}))
    assert [problem.text for problem in found] == expected


def test_definer_without_a_caller() -> None:
    found = headers("functions/x/answer.sql", FUNCTION, frozenset())
    assert [problem.text for problem in found] == ["SECURITY DEFINER, but grants.sql lets no role call it"]


def test_a_body_that_only_other_functions_call_has_their_search_path() -> None:
    text = FUNCTION.replace("SECURITY DEFINER\nSET search_path = pg_catalog, pg_temp\n", "")
    assert list(headers("functions/x/answer.sql", text, frozenset())) == []


def test_a_body_that_is_parsed_when_it_is_made_needs_no_search_path() -> None:
    text = "-- One.\nCREATE OR REPLACE FUNCTION fetchwork.one()\nRETURNS integer\nLANGUAGE sql\nRETURN 1;\n"
    assert list(headers("functions/x/one.sql", text, frozenset())) == []


def test_views_have_a_header() -> None:
    text = "CREATE OR REPLACE VIEW fetchwork.ones AS\nSELECT 1 AS one;\n"
    assert list(headers("views/ones.sql", f"-- Ones.\n{text}", frozenset())) == []
    assert [p.text for p in headers("views/ones.sql", text, frozenset())] == ["no header above CREATE VIEW"]


def test_the_list_of_files() -> None:
    install = "-- functions/a: As.\n\\ir functions/a/x.sql\n\\ir functions/a/x.sql\n\\ir views/v.sql\n"
    files = {"functions/a/x.sql", "views/w.sql", "install.sql"}
    assert [problem.text for problem in listing(install, files)] == [
        "'functions/a/x.sql' is listed twice",
        "'views/v.sql' does not exist",
        "'views/v.sql' is not under a heading '-- views: ...'",
        "'views/w.sql' is not listed",
    ]


def test_all_files_of_a_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "views").mkdir()
    (tmp_path / "views/ones.sql").write_text("-- Ones.\nCREATE VIEW fetchwork.ones AS\nselect 1 AS one;\n")
    (tmp_path / "install.sql").write_text("-- views: All.\n\\ir views/ones.sql\n")
    (tmp_path / "grants.sql").write_text("-- None.\n")
    assert [str(problem) for problem in problems(tmp_path)] == [
        "sql/views/ones.sql:3: keyword 'select' is not in upper case",
        "sql/install.sql:1: 'grants.sql' is not listed",
    ]


def test_strings_and_comments_are_no_code() -> None:
    text = "SELECT 'it''s' -- don't\n, $re$a'b$re$, \"Q\";"
    assert "".join(blanked(text).split()) == "SELECT,,;"
    assert len(blanked(text)) == len(text)
