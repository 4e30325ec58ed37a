"""The destination of an output by the rules of ``TransferOutputRemaps`` (``filename_remap_find``).

A rule is ``name=target``; ``;`` separates rules, and a backslash quotes a ``;``, ``=`` or backslash after it.
Blanks around name and target are trimmed. The whole name is looked up first, then its directory, so that a
directory takes its files along. The target is looked up again.
"""

from fetchwork.hookerrors import FetchworkError

#: HTCondor's MAX_REMAP_RECURSIONS: rules that take more steps lead in a circle
MAX_STEPS = 128


class RemapLoop(FetchworkError):
    """The rules lead in a circle."""


def parse(text: object) -> dict[str, str]:
    """The rules of a value of TransferOutputRemaps; of two rules for a name the first counts."""
    rules: dict[str, str] = {}
    for rule in _split(text if isinstance(text, str) else "", ";"):
        name, *target = _split(rule, "=", 1)
        if target:
            rules.setdefault(unescaped(name.strip()), unescaped(target[0].strip()))
    return rules


def find(rules: dict[str, str], name: str) -> str | None:
    """The target of ``name`` by the rules; None if no rule concerns it. Raises RemapLoop."""
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
    """The parts of a text between unquoted marks; the parts keep their backslashes."""
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
    """The text without the backslashes that quote a character."""
    plain = ""
    escaped = False
    for char in text:
        if char == "\\" and not escaped:
            escaped = True
        else:
            plain += char
            escaped = False
    return plain
