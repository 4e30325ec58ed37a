"""Writes settings that a program made up as the text of a host file."""

import json
from collections.abc import Mapping


def to_toml(tables: Mapping[str, object]) -> str:
    """Return the text of a host file that holds ``tables``."""
    return "\n".join(_lines(tables, "")) + "\n"


def _lines(tables: Mapping[str, object], prefix: str) -> list[str]:
    plain: list[str] = []
    deeper: list[str] = []
    for key, value in tables.items():
        quoted = json.dumps(key)
        path = f"{prefix}.{quoted}" if prefix else quoted
        if isinstance(value, Mapping):
            deeper += ["", f"[{path}]", *_lines(value, path)]
        elif isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
            for each in value:
                deeper += ["", f"[[{path}]]", *_lines(each, path)]
        else:
            # JSON's strings, numbers, booleans and lists are TOML's too
            plain.append(f"{quoted} = {json.dumps(value)}")
    return plain + deeper
