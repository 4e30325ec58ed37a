"""Every setting of a host file, for a person to read."""

import json
from pathlib import Path

from pydantic import BaseModel

from fetchwork.config.sections import (
    Agent,
    Database,
    Files,
    Host,
    Keyword,
    Pilot,
    Slots,
    SlotType,
    Workstation,
)

#: each section of a host file, by its heading there
SECTIONS: list[tuple[str, type[BaseModel]]] = [
    ("[host]", Host),
    ("[database.NAME]", Database),
    ("[keyword.NAME]", Keyword),
    ("[slots]", Slots),
    ("[[slots.type]]", SlotType),
    ("[agent]", Agent),
    ("[files]", Files),
    ("[pilot]", Pilot),
    ("[workstation]", Workstation),
]


def reference() -> str:
    """Return every setting with its default, commented out: a host file that sets nothing."""
    lines = []
    for header, section in SECTIONS:
        about = " ".join((section.__doc__ or "").replace("`", "").split()).partition(": ")[2]
        lines += [f"# {about[:1].upper()}{about[1:]}", f"# {header}"]
        for name, field in section.model_fields.items():
            if name in ("type", "keyword") and section is Slots:
                continue
            default = field.default
            shown = "..." if default in (None, "") else json.dumps(plain_value(default))
            lines.append(f"{f'# {name} = {shown}':<42}  # {field.description}")
        lines.append("")
    lines += [
        "# Slots with a keyword of their own: a slot number or a range of them each.",
        "# [slots.keyword]",
    ]
    lines += ['# 4 = "NAME"', '# 5-6 = "none"']
    return "\n".join(lines) + "\n"


def plain_value(value: object) -> object:
    """A setting's default as JSON has it."""
    if isinstance(value, tuple):
        return [plain_value(item) for item in value]
    return str(value) if isinstance(value, Path) else value
