"""The host file: one short TOML file that says how an execute host fetches work.

The agent, the hooks' direct mode, ``fetchwork config``, ``fetchwork doctor`` and the personal pool all
read it through :func:`load`. Everything has a default, so a host on which all slots draw from one queue
needs only a ``[database.NAME]`` and a ``[keyword.NAME]``. All problems of a file are reported at once, each
as ``FILE:LINE:KEY: what is wrong; what is allowed``.

A keyword is HTCondor's hook keyword. Its hooks are installed in a directory of its own, and that directory
tells a hook which keyword (so which queues and which database) it serves. This holds for startd and starter
hooks, static and dynamic slots alike, as no attribute of a slot's or job's ad would.
"""

import difflib
import json
import os
import re
import socket
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic_core import ErrorDetails

from fetchwork import conninfo as _conninfo
from fetchwork.configrules import NO_KEYWORD, Problem, contradictions, named_slots
from fetchwork.errors import ConfigError
from fetchwork.tomllines import Key, key_lines, line_of

DEFAULT_FILE = Path("/etc/fetchwork/host.toml")
HOOKS_ROOT = Path("/usr/local/libexec/fetchwork")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_ACCOUNT = re.compile(r"([a-z_][a-z0-9_.-]{0,31})?")
# HTCondor expands `$(`, systemd `%`, and neither agrees with the other on quotes and spaces
_PATH = re.compile(r"[A-Za-z0-9/._+@~:,=-]+")
_DOMAIN = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_OLDEST_HTCONDOR = (23, 0)


def _matching(pattern: re.Pattern[str]) -> AfterValidator:
    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(f"{value!r} has characters that do not belong there" if value else "is empty")
        return value

    return AfterValidator(check)


def _absolute_path(value: object) -> Path:
    if not isinstance(value, str | Path):
        raise ValueError(f"{value!r} is not a string")
    text = str(value)
    if not text.startswith("/"):
        raise ValueError(f"{text!r} is not an absolute path")
    if not _PATH.fullmatch(text):
        raise ValueError(f"{text!r} has characters that HTCondor or systemd would read as their own")
    return Path(text)


def _version(value: str) -> str:
    if not re.fullmatch(r"[0-9]+\.[0-9]+(\.[0-9]+)?", value):
        raise ValueError(f"{value!r} is not an HTCondor version")
    if tuple(map(int, value.split("."))) < _OLDEST_HTCONDOR:
        raise ValueError(f"HTCondor {value} is older than fetchwork knows")
    return value


def _conninfo_text(value: str) -> str:
    if problem := _conninfo.problem(value):
        raise ValueError(problem)
    return value


def _percent(value: str) -> str:
    if not re.fullmatch(r"([1-9][0-9]?|100)%", value):
        raise ValueError(f"{value!r} is not a share of the disk")
    return value


PathSetting = Annotated[Path, PlainValidator(_absolute_path)]
Name = Annotated[str, _matching(_NAME)]
Account = Annotated[str, _matching(_ACCOUNT)]
Names = Annotated[tuple[Name, ...], Field(strict=False, min_length=1)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _number(default: int | None, low: int, high: int, what: str) -> Any:
    """A whole number with its range; ``what`` and the range are what a refused value is answered with."""
    return Field(default, ge=low, le=high, description=f"{what}, {low} to {high}")


class Host(_Section):
    """``[host]``: the machine."""

    name: Annotated[str, _matching(_DOMAIN)] | None = Field(
        None, description="the host's name as HTCondor shows it in Machine: letters, digits, '.' and '-'"
    )
    uid_domain: Annotated[str, _matching(_DOMAIN)] | None = Field(
        None, description="a domain such as 'example.org': letters, digits, '.' and '-'"
    )
    htcondor: Annotated[str, AfterValidator(_version)] | None = Field(
        None, description="a version such as '23.9.6' or '25.0', 23.0 or later"
    )
    file: PathSetting = Field(DEFAULT_FILE, description="the absolute path of this file on the host")
    cpus: int | None = _number(None, 1, 4096, "cores that HTCondor may give out (NUM_CPUS)")
    memory_mib: int | None = _number(None, 64, 1 << 26, "MiB of memory that HTCondor may give out (MEMORY)")
    pipe_buffer_max: int = _number(65536, 10240, 1 << 20, "bytes of a fetched job ad (PIPE_BUFFER_MAX)")


class Database(_Section):
    """``[database.NAME]``: where a queue lives; give ``conninfo`` or ``service``."""

    conninfo: Annotated[str, AfterValidator(_conninfo_text)] = Field(
        "",
        description="a libpq connection string ('host=db.example.org dbname=fetchwork') or URI",
    )
    service: Name | None = Field(None, description="the name of a service in pg_service.conf")


class Agent(_Section):
    """``[agent]``: the one resident process of the host."""

    run: Literal["master", "systemd", "none"] = Field(
        "master",
        description="'master' (condor_master runs it), 'systemd' (gets a unit) or 'none' (hooks do without)",
    )
    venv: PathSetting = Field(
        Path("/opt/fetchwork"),
        description="the absolute path of the environment that fetchwork is installed in",
    )
    socket: PathSetting | None = Field(
        None, description="an absolute path of at most 100 bytes (a Unix socket's limit)"
    )
    spool: PathSetting = Field(
        Path("/var/lib/fetchwork/spool"), description="the absolute path of a directory of mode 1733"
    )
    log: PathSetting | None = Field(
        None,
        description="the absolute path of a log file (default: under condor_master in its LOG, else stderr)",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="'debug', 'info', 'warning' or 'error'"
    )
    user: Account | None = Field(
        None, description="an account such as 'condor', not root; '' = the account that runs condor_master"
    )
    pool_size: int = _number(2, 1, 32, "connections to each database")
    lease_s: int = _number(120, 15, 3600, "whole seconds after which a silent host's runs are given up")
    max_held_fetches: int = _number(256, 0, 4096, "fetches that may wait in the agent at once")


class Keyword(_Section):
    """``[keyword.NAME]``: what slots with this hook keyword draw from, and how often."""

    database: Name | None = Field(
        None, description="the name of a [database.NAME]; may be left out where there is one only"
    )
    queues: Names = Field(
        ("default",), description="a list of one or more queue names, in order of preference"
    )
    hooks: PathSetting | None = Field(
        None, description=f"the absolute path of a directory (default {HOOKS_ROOT}/KEYWORD)"
    )
    fetch_delay_s: int = _number(
        10, 1, 86400, "whole seconds between two fetches of an idle slot (FetchWorkDelay)"
    )
    hold_fetch_s: int = _number(
        30, 0, 600, "whole seconds that a fetch may wait in the agent for work (0 = not at all)"
    )
    job_exit_timeout_s: int = _number(
        30, 10, 600, "whole seconds before the starter kills JOB_EXIT (KEYWORD_HOOK_JOB_EXIT_TIMEOUT)"
    )


class SlotType(_Section):
    """``[[slots.type]]``: some equal slots; what is left out, HTCondor shares out evenly."""

    number: int | None = _number(None, 1, 99, "HTCondor's slot type number")
    count: int = _number(1, 1, 4096, "slots of this type")
    cpus: int | None = _number(None, 1, 4096, "cores of each slot")
    memory_mib: int | None = _number(None, 1, 1 << 26, "MiB of memory of each slot")
    disk: Annotated[str, AfterValidator(_percent)] | None = Field(
        None, description="a share of the disk, '1%' to '100%'"
    )
    gpus: int = _number(0, 0, 128, "GPUs of each slot")
    partitionable: bool = Field(False, description="true or false")
    keyword: str | None = Field(None, description="the name of a [keyword.NAME], or 'none'")


class Slots(_Section):
    """``[slots]``: which slots there are and whose work they fetch."""

    default: str | None = Field(
        None, description="the name of a [keyword.NAME], or 'none' (only slots named otherwise fetch)"
    )
    fetched_only: bool | None = Field(None, description="true (no schedd sends jobs to this host) or false")
    first_fetch_s: int = _number(
        30,
        1,
        300,
        "whole seconds from a startd's start to its first fetch on HTCondor 24 and later (UPDATE_INTERVAL)",
    )
    update_interval_s: int = _number(
        60, 5, 3600, "whole seconds between a job's updates (STARTER_UPDATE_INTERVAL)"
    )
    initial_update_interval_s: int = _number(
        8, 1, 600, "whole seconds to a job's first update (STARTER_INITIAL_UPDATE_INTERVAL)"
    )
    type: Annotated[tuple[SlotType, ...], Field(strict=False)] = Field(
        (), description="tables [[slots.type]]; without any, HTCondor's own slot settings stay as they are"
    )
    keyword: Mapping[str, str] = Field(
        default_factory=dict,
        description='lines like 4 = "OTHER" or 1-3 = "none", a slot number or range each',
    )


class Pilot(_Section):
    """``[pilot]``: a startd that stands alone (glide-in): no collector, only outbound connections."""

    idle_shutdown_s: int = _number(
        1200, 0, 604800, "whole seconds without a claim after which it ends (0 = never)"
    )


class Workstation(_Section):
    """``[workstation]``: somebody's own machine, which fetches only while nobody uses it."""

    idle_s: int = _number(900, 1, 86400, "whole seconds without keyboard and mouse before work is fetched")
    max_load: float = Field(
        0.3, ge=0.0, le=4096.0, strict=False, description="load that is not HTCondor's, 0 to 4096"
    )
    when_used: Literal["suspend", "evict"] = Field("suspend", description="'suspend' or 'evict'")
    max_suspend_s: int = _number(
        600, 1, 86400, "whole seconds that a job may stay suspended before it is evicted"
    )


class Slot(NamedTuple):
    """One slot of the described layout and the keyword that it fetches with (None = fetches nothing)."""

    number: int
    type: SlotType
    keyword: str | None


class HostConfig(_Section):
    """A whole host file, checked, with the defaults that depend on other settings filled in."""

    host: Host = Field(default_factory=Host, description="the table [host]")
    databases: Mapping[Name, Database] = Field(
        alias="database", min_length=1, description="a table [database.NAME] with conninfo or service"
    )
    agent: Agent = Field(default_factory=Agent, description="the table [agent]")
    keywords: Mapping[str, Keyword] = Field(
        alias="keyword", min_length=1, description="a table [keyword.NAME], even an empty one"
    )
    slots: Slots = Field(default_factory=Slots, description="the table [slots]")
    pilot: Pilot | None = Field(None, description="the table [pilot]")
    workstation: Workstation | None = Field(None, description="the table [workstation]")

    @property
    def name(self) -> str:
        """The host's name as the database knows it: ``host.name``, else what the machine calls itself."""
        return self.host.name or socket.getfqdn()

    @property
    def htcondor_version(self) -> tuple[int, ...] | None:
        """The HTCondor version that the file names, as numbers."""
        return tuple(map(int, self.host.htcondor.split("."))) if self.host.htcondor else None

    @property
    def command(self) -> Path:
        """The ``fetchwork`` executable on the host."""
        return self.agent.venv / "bin/fetchwork"

    @property
    def socket(self) -> Path:
        """The agent's Unix socket."""
        assert self.agent.socket is not None, "filled in when the file was read"
        return self.agent.socket

    def hooks(self, keyword: str) -> Path:
        """The directory with the hooks of ``keyword``; the directory's hook.conf names the keyword."""
        return self.keywords[keyword].hooks or HOOKS_ROOT / keyword

    def slot_types(self) -> tuple[tuple[int, SlotType], ...]:
        """The described slot types by HTCondor's type number, in its order."""
        numbered = [(kind.number or index, kind) for index, kind in enumerate(self.slots.type, start=1)]
        return tuple(sorted(numbered, key=lambda pair: pair[0]))

    def slot_list(self) -> tuple[Slot, ...]:
        """Every described slot, numbered as HTCondor numbers them; empty without ``[[slots.type]]``."""
        named = {number: keyword for _, number, keyword in named_slots(self.slots.keyword)}
        slots: list[Slot] = []
        for _, kind in self.slot_types():
            for _ in range(kind.count):
                number = len(slots) + 1
                keyword = named.get(number) or kind.keyword or self.slots.default
                slots.append(Slot(number, kind, None if keyword in (None, NO_KEYWORD) else keyword))
        return tuple(slots)

    def keywords_in_use(self) -> tuple[str, ...]:
        """The keywords that some slot fetches with, in the file's order."""
        slots = self.slot_list()
        used = {slot.keyword for slot in slots} if slots else {self.slots.default}
        return tuple(keyword for keyword in self.keywords if keyword in used)


def default_file() -> Path:
    """The host file where none is named: ``FETCHWORK_CONFIG``, else ``/etc/fetchwork/host.toml``."""
    return Path(os.environ.get("FETCHWORK_CONFIG") or DEFAULT_FILE)


def load(path: Path | str | None = None) -> HostConfig:
    """Read the host file at ``path``, else the default one; raises ConfigError with every problem it has."""
    file = Path(path) if path is not None else default_file()
    try:
        text = file.read_bytes().decode("utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError([f"{file}: cannot be read: {reason}; allowed: a host file in TOML"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{file}: is not UTF-8 text; allowed: a host file in TOML"]) from error
    return parse(text, str(file))


def parse(text: str, source: str = "host.toml") -> HostConfig:
    """Read a host file's text; ``source`` is what messages call it."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([_toml_problem(str(error), source, text)]) from error
    return _checked(data, source, key_lines(text))


def from_dict(data: Mapping[str, Any], source: str = "settings") -> HostConfig:
    """Check settings that a program made up (a personal pool), in the shape of a host file."""
    return _checked(dict(data), source, {})


def _checked(data: dict[str, Any], source: str, lines: dict[Key, int]) -> HostConfig:
    try:
        config = _filled(HostConfig.model_validate(data))
        problems = list(contradictions(config))
    except ValidationError as error:
        problems = [_shape_problem(detail) for detail in error.errors()]
        problems += _more_problems(data, [problem.key for problem in problems])
    else:
        if not problems:
            return config
    problems.sort(key=lambda problem: line_of(problem.key, lines) or 0)
    raise ConfigError([_show(problem, source, lines) for problem in problems])


def _more_problems(data: dict[str, Any], wrong: list[Key]) -> list[Problem]:
    """What the rest of a file contradicts, once the keys that are wrong in themselves are put aside."""
    try:
        rest = HostConfig.model_validate(_without(data, wrong))
    except ValidationError:
        return []
    return [
        problem
        for problem in contradictions(_filled(rest))
        if not any(problem.key[: len(key)] == key or key[: len(problem.key)] == problem.key for key in wrong)
    ]


def _without(data: Any, keys: list[Key]) -> Any:
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
    keywords = {
        name: _filled_keyword(keyword, name, only_database, agent)
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


def _filled_keyword(keyword: Keyword, name: str, only_database: str | None, agent: Agent) -> Keyword:
    update: dict[str, Any] = {
        "database": keyword.database or only_database,
        "hooks": keyword.hooks or HOOKS_ROOT / name,
    }
    if agent.run == "none" and "hold_fetch_s" not in keyword.model_fields_set:
        update["hold_fetch_s"] = 0
    return keyword.model_copy(update=update)


def _show(problem: Problem, source: str, lines: dict[Key, int]) -> str:
    line = line_of(problem.key, lines)
    where = f"{source}:{line}" if line is not None else source
    return f"{where}:{_dotted(problem.key)}: {problem.wrong}; allowed: {problem.allowed}"


def _dotted(key: Key) -> str:
    text = ""
    for part in key:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _toml_problem(message: str, source: str, text: str) -> str:
    match = re.fullmatch(r"(?s)(.*) \(at line (\d+), column (\d+)\)", message)
    if match:
        wrong, line = match[1], match[2]
    else:
        wrong, line = message.removesuffix(" (at end of document)"), str(max(1, len(text.splitlines())))
    wrong = wrong[:1].lower() + wrong[1:]
    allowed = "[table] headers and key = value lines, each key once"
    return f"{source}:{line}: is not TOML: {wrong}; allowed: {allowed}"


def _shape_problem(detail: ErrorDetails) -> Problem:
    key = _clean_key(detail["loc"])
    section, field = _described(key)
    allowed = (field.description if field is not None else "") or ""
    value = detail["input"]
    match detail["type"]:
        case "extra_forbidden":
            close = difflib.get_close_matches(str(key[-1]), section, n=1)
            hint = f", did you mean {close[0]!r}?" if close else ""
            return Problem(key, f"unknown key{hint}", ", ".join(section))
        case "missing":
            return Problem(key, "is missing", allowed)
        case "value_error":
            return Problem(key, str(detail["ctx"]["error"]), allowed)
        case "model_type" | "dict_type" | "mapping_type" | "model_attributes_type":
            return Problem(key, f"{_brief(value)} is not a table", allowed or "a table of key = value lines")
        case "too_short":
            return Problem(key, "is empty", allowed)
        case _:
            return Problem(key, f"{_brief(value)} is not allowed here", allowed or _plain(detail["msg"]))


def _clean_key(loc: tuple[int | str, ...]) -> Key:
    """The key of the file: pydantic adds the names of union members and of dictionary keys."""
    return tuple(
        part
        for part in loc
        if isinstance(part, int) or not re.match(r"\[key\]$|literal\[|function-|constrained-", part)
    )


def _brief(value: object) -> str:
    text = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else None
    text = text or repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _plain(message: str) -> str:
    return message[:1].lower() + message[1:]


def _described(key: Key) -> tuple[list[str], Any]:
    """The settings of the section that ``key`` stands in, and the field that it names, if there is one."""
    section, rest = _section(key)
    fields = {info.alias or name: info for name, info in section.model_fields.items()}
    return list(fields), fields.get(str(rest[0])) if rest else None


def _section(key: Key) -> tuple[type[BaseModel], Key]:
    match key:
        case ("database", _, _, *_):
            return Database, key[2:]
        case ("keyword", _, _, *_):
            return Keyword, key[2:]
        case ("slots", "type", int(), _, *_):
            return SlotType, key[3:]
        case (str(name), _, *_) if name in _SECTIONS:
            return _SECTIONS[name], key[1:]
        case _:
            return HostConfig, key


def reference() -> str:
    """Every setting with its default, commented out, as a host file that says nothing."""
    sections: list[tuple[str, type[BaseModel]]] = [
        ("[host]", Host),
        ("[database.NAME]", Database),
        ("[keyword.NAME]", Keyword),
        ("[slots]", Slots),
        ("[[slots.type]]", SlotType),
        ("[agent]", Agent),
        ("[pilot]", Pilot),
        ("[workstation]", Workstation),
    ]
    lines = []
    for header, section in sections:
        about = " ".join((section.__doc__ or "").replace("`", "").split()).partition(": ")[2]
        lines += [f"# {about[:1].upper()}{about[1:]}", f"# {header}"]
        for name, field in section.model_fields.items():
            if name in ("type", "keyword") and section is Slots:
                continue
            default = field.default
            shown = "..." if default in (None, "") else json.dumps(_plain_value(default))
            lines.append(f"{f'# {name} = {shown}':<42}  # {field.description}")
        lines.append("")
    lines += [
        "# Slots with a keyword of their own: a slot number or a range of them each.",
        "# [slots.keyword]",
    ]
    lines += ['# 4 = "NAME"', '# 5-6 = "none"']
    return "\n".join(lines) + "\n"


def _plain_value(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value


_SECTIONS: dict[str, type[BaseModel]] = {
    "host": Host,
    "agent": Agent,
    "slots": Slots,
    "pilot": Pilot,
    "workstation": Workstation,
}
