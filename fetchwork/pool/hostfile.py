"""The host file of a private pool: the pool's own settings, overridden by its owner's."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

KEYWORD = "FETCHWORK"
DATABASE = "main"

_MEMORY_MIB_PER_SLOT = 512

#: tables of a host file, as TOML has them; they are checked when the file is read
Tables: TypeAlias = Mapping[str, Any]


def host_tables(
    directory: Path,
    *,
    venv: Path,
    user: str,
    conninfo: str,
    credential_key: Path | None,
    slots: int,
    partitionable: bool,
    name: str,
    asked: Tables,
) -> Tables:
    """The tables of the host file of the pool in ``directory``.

    ``asked`` has the shape of a host file. Its settings override the pool's; its keywords and slot
    types replace the pool's.
    """
    count = 1 if partitionable else slots
    type_ = {"count": count, "cpus": slots // count, "partitionable": partitionable}
    ours: Tables = {
        "host": {
            "name": name,
            "uid_domain": name,
            "file": str(directory / "host.toml"),
            "cpus": slots,
            "memory_mib": slots * _MEMORY_MIB_PER_SLOT,
        },
        "database": {
            DATABASE: {
                "conninfo": conninfo,
                **({} if credential_key is None else {"credential_key": str(credential_key)}),
            }
        },
        "agent": {
            "venv": str(venv),
            "user": user,
            "socket": str(directory / "run/agent.sock"),
            "spool": str(directory / "run/spool"),
        },
        "keyword": {name: {} for name in asked.get("keyword", {KEYWORD: {}})},
        # a pool is for trials: updates come soon
        "slots": {
            "fetched_only": True,
            "first_fetch_s": 1,
            "update_interval_s": 5,
            "initial_update_interval_s": 1,
            **({} if "type" in asked.get("slots", {}) else {"type": [type_]}),
        },
    }
    for keyword, table in ours["keyword"].items():
        table |= {"hooks": str(directory / "hooks" / keyword), "fetch_delay_s": 1}
    return _merged(ours, asked)


def _merged(ours: Tables, asked: Tables) -> Tables:
    merged = dict(ours)
    for key, value in asked.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
