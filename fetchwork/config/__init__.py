"""The host file: one short TOML file that says how an execute host fetches work.

The agent, ``fetchwork config``, ``fetchwork doctor`` and the personal pool all read it through :func:`load`.
Everything has a default, so a host on which all slots draw from one queue needs only a ``[database.NAME]``
and a ``[keyword.NAME]``. All problems of a file are reported at once, each as
``FILE:LINE:KEY: what is wrong; what is allowed``.

A keyword is HTCondor's hook keyword. Its hooks are installed in a directory of its own, and that directory
tells a hook which keyword (so which queues and which database) it serves. This works for startd and starter
hooks, for static and dynamic slots; no attribute of a slot's or job's ad is in all of their input.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from fetchwork.config.messages import shape_problem, show, toml_problem
from fetchwork.config.reference import reference
from fetchwork.config.rules import Problem, contradictions
from fetchwork.config.sections import DEFAULT_FILE, HOOKS_ROOT, PLAIN, HostConfig, Keyword, Slot
from fetchwork.config.toml import Key, key_lines, line_of
from fetchwork.errors import ConfigError

__all__ = [
    "PLAIN",
    "HostConfig",
    "Keyword",
    "Slot",
    "default_file",
    "from_dict",
    "load",
    "parse",
    "reference",
]


def default_file() -> Path:
    """The default host file: ``FETCHWORK_CONFIG``, else ``/etc/fetchwork/host.toml``."""
    return Path(os.environ.get("FETCHWORK_CONFIG") or DEFAULT_FILE)


def load(path: Path | str | None = None) -> HostConfig:
    """Read the host file at ``path``, else the default one; raises ConfigError with every problem it has."""
    file = Path(path) if path is not None else default_file()
    try:
        text = file.read_bytes().decode("utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        allowed = "a host file in TOML"
        if isinstance(error, PermissionError):
            allowed = "root and the agent's account, which it is for: run this as one of them"
        raise ConfigError([f"{file}: cannot be read: {reason}; allowed: {allowed}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{file}: is not UTF-8 text; allowed: a host file in TOML"]) from error
    return parse(text, str(file))


def parse(text: str, source: str = "host.toml") -> HostConfig:
    """Read a host file's text; messages name it ``source``."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([toml_problem(str(error), source, text)]) from error
    return _checked(data, source, key_lines(text))


def from_dict(data: Mapping[str, object], source: str = "settings") -> HostConfig:
    """Check settings that a program made up, such as a personal pool's, in the shape of a host file."""
    return _checked(dict(data), source, {})


def _checked(data: dict[str, object], source: str, lines: dict[Key, int]) -> HostConfig:
    try:
        config = _filled(HostConfig.model_validate(data))
        problems = list(contradictions(config))
    except ValidationError as error:
        problems = [shape_problem(detail) for detail in error.errors()]
        problems += _more_problems(data, [problem.key for problem in problems])
    else:
        if not problems:
            return config
    problems.sort(key=lambda problem: line_of(problem.key, lines) or 0)
    raise ConfigError([show(problem, source, lines) for problem in problems])


def _more_problems(data: dict[str, object], wrong: list[Key]) -> list[Problem]:
    """Return the contradictions in a file from which the ``wrong`` keys were removed."""
    try:
        rest = HostConfig.model_validate(_without(data, wrong))
    except ValidationError:
        return []
    return [
        problem
        for problem in contradictions(_filled(rest))
        if not any(problem.key[: len(key)] == key or key[: len(problem.key)] == problem.key for key in wrong)
    ]


def _without(data: object, keys: list[Key]) -> object:
    if isinstance(data, dict):
        gone = {key[0] for key in keys if len(key) == 1}
        return {
            name: _without(value, [key[1:] for key in keys if len(key) > 1 and key[0] == name])
            for name, value in data.items()
            if name not in gone
        }
    if isinstance(data, list):
        return [
            _without(value, [key[1:] for key in keys if len(key) > 1 and key[0] == index])
            for index, value in enumerate(data)
        ]
    return data


def _filled(config: HostConfig) -> HostConfig:
    """Fill in the defaults that depend on other settings."""
    agent, slots = config.agent, config.slots
    systemd = agent.run == "systemd"
    if config.pilot and "spool" not in agent.model_fields_set:
        agent = agent.model_copy(update={"spool": config.pilot_directory / "run/spool"})
    # under condor_master the agent is not root, so its socket is in a directory that outlives a reboot
    socket_path = Path("/run/fetchwork") if systemd else agent.spool.parent
    agent = agent.model_copy(
        update={
            "socket": agent.socket or socket_path / "agent.sock",
            "user": ("" if config.pilot else "condor") if agent.user is None else agent.user,
        }
    )
    only_database = next(iter(config.databases)) if len(config.databases) == 1 else None
    only_keyword = next(iter(config.keywords)) if len(config.keywords) == 1 else None
    slots = slots.model_copy(
        update={
            "default": slots.default or only_keyword,
            "fetched_only": config.pilot is not None if slots.fetched_only is None else slots.fetched_only,
        }
    )
    hooks_root = config.pilot_directory / "hooks" if config.pilot else HOOKS_ROOT
    keywords = {
        name: _filled_keyword(keyword, hooks_root / name, only_database)
        for name, keyword in config.keywords.items()
    }
    databases = {
        name: database.model_copy(update={"conninfo": f"service={database.service}"})
        if database.service and not database.conninfo
        else database
        for name, database in config.databases.items()
    }
    return config.model_copy(
        update={"agent": agent, "keywords": keywords, "slots": slots, "databases": databases}
    )


def _filled_keyword(keyword: Keyword, hooks: Path, only_database: str | None) -> Keyword:
    return keyword.model_copy(
        update={"database": keyword.database or only_database, "hooks": keyword.hooks or hooks}
    )
