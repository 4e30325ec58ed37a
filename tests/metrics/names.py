"""The metrics that METRICS.md documents."""

import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "fetchwork/metrics/METRICS.md"


def documented(section: str = "") -> set[str]:
    """Their names; ``section``: a word in the heading of the section."""
    parts = DOCUMENT.read_text(encoding="utf-8").split("\n## ")[1:]
    return {
        name
        for part in parts
        if section in part.partition("\n")[0]
        for name in re.findall(r"^\| `([A-Za-z_]+)` \|", part, re.M)
    }
