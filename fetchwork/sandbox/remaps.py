"""Where an output lands: the rules of ``TransferOutputRemaps`` (``filename_remap_find``).

A rule is ``name=target``; ``;`` separates rules, and a backslash takes the meaning from the ``;``, ``=`` or
backslash after it. Blanks around name and target are trimmed. A name is looked for as a whole; where it is
not found, its directory is, so that a directory takes its files along. What is found is looked for again.
"""

from fetchwork.hookerrors import FetchworkError

#: as HTCondor's MAX_REMAP_RECURSIONS: rules that lead further lead in a circle
MAX_STEPS = 128


class RemapLoop(FetchworkError):
    """The rules lead in a circle."""


def parse(text: object) -> dict[str, str]:
    """The rules of a value of TransferOutputRemaps; of two for one name the first counts."""
    rules: dict[str, str] = {}
    for rule in _split(text if isinstance(text, str) else "", ";"):
        name, *target = _split(rule, "=", 1)
        if target:
            rules.setdefault(unescaped(name.strip()), unescaped(target[0].strip()))
    return rules


def find(rules: dict[str, str], name: str) -> str | None:
    """Where the rules send ``name``; None where they say nothing of it. Raises RemapLoop."""
    return _find(rules, name, 0)


def _find(rules: dict[str, str], name: str, step: int) -> str | None:
    if step > MAX_STEPS:
        raise RemapLoop(f"transfer_output_remaps lead in a circle at '{name}'")
    target = rules.get(name)
    if target is not None:
        again = _find(rules, target, step + 1)
        return again if again is not None else target
    directory, slash, entry = name.rpartition("/")
    if not slash:
        return None
    moved = _find(rules, directory, step + 1)
    return None if moved is None else f"{moved}/{entry}"


def _split(text: str, mark: str, most: int = -1) -> list[str]:
    """The parts of a text between marks without a backslash before them; the parts keep theirs."""
    parts = [""]
    escaped = False
    for char in text:
        if char == mark and not escaped and len(parts) != most + 1:
            parts.append("")
        else:
            parts[-1] += char
        escaped = char == "\\" and not escaped
    return parts


def unescaped(text: str) -> str:
    """The text with each backslash taken away that stands before another character."""
    plain = ""
    escaped = False
    for char in text:
        if char == "\\" and not escaped:
            escaped = True
        else:
            plain += char
            escaped = False
    return plain
