"""Rules for the SQL files, which no tool checks: ``python -m tests.house.lint_sql``, part of ``make lint``.

Form: 110 columns, a clause a line, keywords in upper case and names in lower case, indentation by fours.
Functions: a header above, one function in a file of its name, SECURITY DEFINER only where a role may call
it, a pinned search_path there and where a role may call a body of text: other bodies run within such a call.
A function that locks names the lock, and the calls that it waits for. Files: each is in ``install.sql`` once,
under a heading of its folder.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SQL = Path(__file__).resolve().parents[2] / "sql"
COLUMNS = 110


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: words of SQL and PL/pgSQL that are no names of tables, columns or variables here
KEYWORDS = _words(
    """
    ADD ALL ALTER ALWAYS AND ANY ARRAY AS ATOMIC BEGIN BETWEEN BY CASCADE CASE CHECK COLLATE COMMENT CONFLICT
    CONSTRAINT CONTINUE CREATE CROSS CYCLE DECLARE DEFAULT DEFERRABLE DEFERRED DEFINER DELETE DESC
    DISTINCT DO DROP ELSE ELSIF END ENUM ERRCODE EXCEPTION EXIT EXECUTE EXISTS FILTER FOR FOREACH FOREIGN
    FOUND FROM FULL FUNCTION GENERATED GRANT GROUP HAVING IDENTITY IF IMMUTABLE IN INDEX INITIALLY
    INNER INSERT INTO IS JOIN LANGUAGE LATERAL LIKE LIMIT LOCK LOOP MATERIALIZED MESSAGE MODE NO NOT
    NOTHING NULL NULLS OF OFFSET OR ORDER ORDINALITY OUT PARALLEL PARTITION PERFORM PRIMARY QUERY RAISE
    RANGE RECURSIVE REFERENCES WINDOW
    RETURN RETURNING RETURNS REVOKE SAFE SCHEMA SECURITY SELECT SEQUENCE SET SETOF SHARE SKIP STABLE
    TABLE TABLES THEN TO TYPE UNION UNIQUE UNLOGGED UPDATE USING VARIADIC VIEW VOLATILE WHEN WHERE
    WHILE WITH ZONE
    """
)
#: words that are keywords in one place and names in another, so either case is right
EITHER = _words(
    """
    ACCESS AT COLUMN E EXCLUSIVE EXTERNAL FUNCTIONS KEY LAST LEFT LOCKED NEXT ON OVER PUBLIC REPLACE SQLSTATE
    STORAGE TIME TRUE U USAGE VALUES
    """
)
#: words that begin a line of their own outside parentheses
CLAUSES = (
    *(
        "SELECT",
        "FROM",
        "WHERE",
        "SET",
        "INTO",
        "GROUP BY",
        "ORDER BY",
        "HAVING",
        "LIMIT",
        "OFFSET",
        "RETURNING",
    ),
    "VALUES", "ON CONFLICT", "FOR UPDATE", "FOR KEY SHARE", "CROSS JOIN", "LEFT JOIN", "JOIN",
)  # fmt: skip
_STATEMENT = re.compile(
    r"(SELECT|UPDATE|DELETE FROM|INSERT INTO|PERFORM|FROM|WHERE|SET|LEFT JOIN|CROSS JOIN|JOIN)\b"
)
#: clause words that belong to the words before them
_PARTS = re.compile(
    r"((SELECT|PERFORM|DELETE|DISTINCT) FROM|INSERT INTO|RETURNING .* INTO|DO UPDATE SET"
    r"|DEFAULT VALUES|SET DEFAULT)$"
)
_LOCKS = re.compile(r"FOR UPDATE|FOR KEY SHARE|LOCK TABLE|pg_(try_)?advisory")


@dataclass(frozen=True)
class Problem:
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"sql/{self.path}:{self.line}: {self.text}"


def blanked(text: str) -> str:
    """The code alone: comments, strings and quoted names become blanks, so that columns and lines stay.

    A body between ``$$`` is code; any other dollar quote is a string.
    """

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    parts = r"--[^\n]*|'(?:[^']|'')*'|\"[^\"]*\"|\$(?!roles)(\w+)\$.*?\$\1\$"
    return re.sub(parts, blank, text, flags=re.S)


def _depths(line: str) -> Iterator[tuple[int, int]]:
    """Each column with the number of parentheses that are open there."""
    depth = 0
    for column, letter in enumerate(line):
        depth += letter in "(["
        depth -= letter in ")]"
        yield column, depth


def _second_clause(line: str) -> str | None:
    """A clause that begins in the middle of a line that begins with another, outside parentheses."""
    body = line.strip()
    if not _STATEMENT.match(body):
        return None
    for column, depth in _depths(body):
        if depth or column == 0 or body[column - 1] != " ":
            continue
        for clause in CLAUSES:
            end = column + len(clause)
            if not body.startswith(clause, column) or body[end : end + 1].strip():
                continue
            if clause == "JOIN" and body[:column].endswith(("LEFT ", "CROSS ")):
                continue
            if not _PARTS.search(body[:end]) and not re.search(r"IS( NOT)? DISTINCT $", body[:column]):
                return clause
    return None


def form(path: str, text: str) -> Iterator[Problem]:
    """Rules for each line."""
    if not text.endswith("\n") or text.endswith("\n\n"):
        yield Problem(path, text.count("\n") + 1, "the file does not end with one line end")
    for number, (line, code) in enumerate(zip(text.splitlines(), blanked(text).splitlines(), strict=True), 1):
        if len(line) > COLUMNS:
            yield Problem(path, number, f"{len(line)} columns; allowed: {COLUMNS}")
        if line != line.rstrip():
            yield Problem(path, number, "blanks at the end of the line")
        if "\t" in line:
            yield Problem(path, number, "a tab; allowed: four blanks")
        if code.strip() and (len(line) - len(line.lstrip())) % 4:
            yield Problem(path, number, "indentation that is not a multiple of four")
        if path.startswith("install.sql"):
            continue
        for word in re.findall(r"(?<![\w.$])[A-Za-z_]\w*", code):
            upper = word.upper()
            if upper in KEYWORDS and word != upper:
                yield Problem(path, number, f"keyword '{word}' is not in upper case")
            elif upper not in KEYWORDS | EITHER and word != word.lower():
                yield Problem(path, number, f"name '{word}' is not in lower case")
        if clause := _second_clause(code):
            yield Problem(path, number, f"{clause} is not on a line of its own")


def headers(path: str, text: str, granted: frozenset[str]) -> Iterator[Problem]:
    """Rules for the file of a function or a view."""
    name = Path(path).stem
    what = "FUNCTION" if path.startswith("functions/") else "VIEW"
    made = [
        (number, match[1])
        for number, line in enumerate(text.splitlines(), 1)
        if (match := re.match(rf"CREATE (?:OR REPLACE )?{what} fetchwork\.(\w+)", line))
    ]
    # a public function may have a second form
    if {each for _, each in made} != {name}:
        yield Problem(path, 1, f"the file does not make {name} and nothing else")
        return
    lines = text.splitlines()
    header = lines[: made[0][0] - 1]
    if not header or not all(line.startswith("--") for line in header):
        yield Problem(path, made[0][0], f"no header above CREATE {what}")
    if what == "VIEW":
        return
    code = blanked(text)
    definer = "SECURITY DEFINER" in code
    called = "AS $$" in code and name in granted
    if (definer or called) and "SET search_path = pg_catalog, pg_temp" not in code:
        yield Problem(path, made[0][0], "search_path is not pinned to pg_catalog, pg_temp")
    if definer and name not in granted:
        yield Problem(path, made[0][0], "SECURITY DEFINER, but grants.sql lets no role call it")
    comments = " ".join(line for line in lines if line.strip().startswith("--"))
    if _LOCKS.search(code) and not re.search(r"lock|wait|one call at a time|at a time does", comments, re.I):
        yield Problem(path, made[0][0], "it locks, and no comment says what")


def listing(install: str, files: set[str]) -> Iterator[Problem]:
    """Rules for ``install.sql``: every file once, and a heading for each folder."""
    headed: str | None = None
    seen: set[str] = set()
    for number, line in enumerate(install.splitlines(), 1):
        if heading := re.match(r"-- (functions/\w+|\w+): ", line):
            headed = heading[1]
        if not (listed := re.match(r"\\ir (\S+)$", line)):
            continue
        path = listed[1]
        folder = path.rpartition("/")[0] or path.removesuffix(".sql")
        if path not in files:
            yield Problem("install.sql", number, f"'{path}' does not exist")
        if path in seen:
            yield Problem("install.sql", number, f"'{path}' is listed twice")
        if folder != headed:
            yield Problem("install.sql", number, f"'{path}' is not under a heading '-- {folder}: ...'")
        seen.add(path)
    for path in sorted(files - seen - {"install.sql"}):
        yield Problem("install.sql", 1, f"'{path}' is not listed")


def problems(sql: Path = SQL) -> list[Problem]:
    """The problems in all of ``sql``."""
    texts = {
        path.relative_to(sql).as_posix(): path.read_text(encoding="utf-8") for path in sql.rglob("*.sql")
    }
    granted = frozenset(re.findall(r"fetchwork\.(\w+)", blanked(texts.get("grants.sql", ""))))
    found: list[Problem] = []
    for path, text in sorted(texts.items()):
        found += form(path, text)
        if path.startswith(("functions/", "views/")):
            found += headers(path, text, granted)
    return [*found, *listing(texts.get("install.sql", ""), set(texts))]


if __name__ == "__main__":
    wrong = problems()
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(1 if wrong else 0)
