"""The line of a key in a TOML text."""

from fetchwork.config.toml import key_lines, line_of

TEXT = '''\
# a comment = 1
[host]
name = "a"   # [database]
[database."ma.in"]
conninfo = """
[keyword.NOT]
port = 5
"""
[[slots.type]]
count = 2
keyword.sub = "x"

[[slots.type]]
cpus = [
    1,
]
[slots]
keyword = { 4 = "A" }
'''


def test_keys_tables_and_elements_are_found() -> None:
    lines = key_lines(TEXT)
    assert lines["host",] == 2
    assert lines["host", "name"] == 3
    assert lines["database", "ma.in", "conninfo"] == 5
    assert lines["slots", "type", 0, "count"] == 10
    assert lines["slots", "type", 0, "keyword", "sub"] == 11
    assert lines["slots", "type", 1] == 13
    assert lines["slots", "type", 1, "cpus"] == 14


def test_text_inside_a_long_string_is_no_key() -> None:
    lines = key_lines(TEXT)
    assert ("keyword", "NOT") not in lines
    assert not any("port" in key for key in lines)


def test_key_of_an_inline_table_has_the_line_of_the_table() -> None:
    assert line_of(("slots", "keyword", "4"), key_lines(TEXT)) == 18


def test_unknown_key_has_no_line() -> None:
    assert line_of(("agent", "user"), key_lines(TEXT)) is None
