"""What goes wrong with one item, in words."""

from __future__ import annotations

from fetchwork.errors import ClassAdError


def sentence(error: Exception) -> str:
    """What an error says, in one short line that any reader can print."""
    text = str(error) if isinstance(error, ClassAdError) else f"{type(error).__name__}: {error}"
    return " ".join(text.encode("utf-8", "replace").decode().split())[:500]
