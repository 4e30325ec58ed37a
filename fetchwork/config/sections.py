"""The sections and settings of a host file, each with its default and with the values that are allowed.

The message about a refused value ends with the setting's description, and ``fetchwork config settings``
prints it.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator

from fetchwork.config import conninfo as _conninfo
from fetchwork.config.hostname import full_hostname, listen_address, pilot_name
from fetchwork.config.toml import keywords_by_number

#: in place of a keyword: the slot fetches nothing
NO_KEYWORD = "none"
#: the end of the name of HTCondor's second keyword, for jobs that need no JOB_EXIT
PLAIN = "_PLAIN"

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


def _listen_address(value: str) -> str:
    listen_address(value)
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
    """A whole number with its range; the message about a refused value has ``what`` and the range."""
    return Field(default, ge=low, le=high, description=f"{what}, {low} to {high}")


class Host(_Section):
    """``[host]``: the machine."""

    name: Annotated[str, _matching(_DOMAIN)] | None = Field(
        None,
        description="the host's name (default: HTCondor's FULL_HOSTNAME; of a pilot its account and directory"
        " come first): letters, digits, '.' and '-'",
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
    """``[database.NAME]``: the database of a queue; give ``conninfo`` or ``service``."""

    conninfo: Annotated[str, AfterValidator(_conninfo_text)] = Field(
        "",
        description="a libpq connection string ('host=db.example.org dbname=fetchwork') or URI",
    )
    service: Name | None = Field(None, description="the name of a service in pg_service.conf")
    credential_key: PathSetting | None = Field(
        None,
        description="the absolute path of the file that `fetchwork db credential-key` makes",
    )


class Agent(_Section):
    """``[agent]``: the one resident process of the host."""

    run: Literal["master", "systemd"] = Field(
        "master", description="'master' (condor_master runs it) or 'systemd' (gets a unit)"
    )
    venv: PathSetting = Field(
        Path("/opt/fetchwork"),
        description="the absolute path of the environment that fetchwork is installed in",
    )
    socket: PathSetting | None = Field(
        None, description="an absolute path of at most 100 bytes (a Unix socket's limit)"
    )
    spool: PathSetting = Field(
        Path("/var/lib/fetchwork/spool"), description="the absolute path of a directory of mode 3733"
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
    root_part: bool = Field(
        True,
        description="true (a small part of the agent stays root, where HTCondor runs as root, to signal jobs)"
        " or false (UPDATE_JOB_INFO signals them, at their next update)",
    )
    metrics: Annotated[str, AfterValidator(_listen_address)] | None = Field(
        None, description="an address and port, '127.0.0.1:9118' or ':9118', where Prometheus may ask"
    )
    pool_size: int = _number(2, 1, 32, "connections to each database")
    lease_s: int = _number(120, 5, 3600, "whole seconds after which a silent host's runs are given up")
    max_waiting_fetches: int = _number(256, 0, 4096, "fetches that may wait in the agent at once")


class Keyword(_Section):
    """``[keyword.NAME]``: the queues from which slots with this hook keyword take jobs, and how often."""

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
        10,
        1,
        86400,
        "whole seconds between two fetches of an idle slot (FetchWorkDelay; where it is left out, 1 while a"
        " partitionable slot has room)",
    )
    max_fetch_wait_s: int = _number(
        30, 0, 600, "whole seconds that a fetch may wait in the agent for work (0 = not at all)"
    )
    job_exit_timeout_s: int = _number(
        600, 10, 600, "whole seconds before the starter kills JOB_EXIT (KEYWORD_HOOK_JOB_EXIT_TIMEOUT)"
    )
    chain_s: int = _number(
        0,
        0,
        86400,
        "whole seconds for which one starter may run short jobs one after the other, those that leave nothing"
        " but their exit status (0 = never; needs compiled hooks)",
    )


class Files(_Section):
    """``[files]``: how files travel with jobs."""

    shared: Annotated[tuple[PathSetting, ...], Field(strict=False)] = Field(
        (Path("/"),),
        description="a list of directories that this host shares with those who submit; [] = none",
    )
    cache_mib: int = _number(10240, 0, 1 << 26, "MiB of input files that the agent keeps for the next jobs")
    parked_mib: int = _number(
        102400, 1, 1 << 26, "MiB of one account's output files that may wait on this host to be delivered"
    )
    plugin_limit_s: int = _number(
        3600, 10, 72000, "whole seconds that one run of a file transfer plugin may take"
    )


class SlotType(_Section):
    """``[[slots.type]]``: a number of equal slots; HTCondor divides unset resources evenly."""

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
    """``[slots]``: the slots, and the keyword with which each one fetches."""

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
    limit_memory: bool | None = Field(
        None,
        description="true (HTCondor limits the memory of jobs by cgroups, those of a schedd as well) or false"
        " (nothing does; default: true where fetched_only, elsewhere the agent watches fetched jobs)",
    )
    limit_disk: bool = Field(
        False,
        description="true (the agent holds fetched jobs whose scratch directory takes more than the disk of"
        " their slot) or false (nothing does, as with HTCondor's own default)",
    )
    hide_gpus: bool | None = Field(
        None,
        description="true (where jobs have cgroups HTCondor hides other slots' GPUs from a schedd's jobs, and"
        " all GPUs from fetched ones) or false (jobs may open every GPU; default where fetched_only, or"
        " limit_memory = true)",
    )
    type: Annotated[tuple[SlotType, ...], Field(strict=False)] = Field(
        (), description="tables [[slots.type]]; without any, HTCondor's own slot settings stay as they are"
    )
    keyword: Mapping[str, str] = Field(
        default_factory=dict,
        description='lines like 4 = "OTHER" or 1-3 = "none", a slot number or range each',
    )


class Pilot(_Section):
    """``[pilot]``: a startd on its own (glide-in): without a collector, with outbound connections only."""

    directory: PathSetting | None = Field(
        None, description="the absolute path of the pilot's own directory (default: that of host.file)"
    )
    idle_shutdown_s: int = _number(
        1200, 0, 604800, "whole seconds without a claim after which it ends (0 = never)"
    )


class Workstation(_Section):
    """``[workstation]``: a person's own machine, which fetches only while its user is away."""

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
    files: Files = Field(default_factory=Files, description="the table [files]")
    pilot: Pilot | None = Field(None, description="the table [pilot]")
    workstation: Workstation | None = Field(None, description="the table [workstation]")

    @property
    def name(self) -> str:
        """The host's name as the database knows it: ``host.name``, else HTCondor's FULL_HOSTNAME.

        A pilot, of which there may be several on one machine, puts its account and directory before it.
        """
        if self.host.name or not self.pilot:
            return self.host.name or full_hostname()
        return pilot_name(self.pilot_directory, full_hostname())

    @property
    def pilot_directory(self) -> Path:
        """The directory of a pilot."""
        assert self.pilot, "asked of pilots only"
        return self.pilot.directory or self.host.file.parent

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

    @property
    def agent_updates(self) -> bool:
        """Whether the agent itself updates running jobs, and no UPDATE_JOB_INFO does.

        It needs the right to signal them: it runs as the jobs' account, or a part of it stays root.
        """
        return self.agent.root_part or self.agent.user == ""

    def is_told_replies(self, keyword: str) -> bool:
        """Whether REPLY_FETCH reports the startd's decision on offers to the slots of ``keyword``.

        It does not if the agent updates running jobs and none of these slots is partitionable: a slot's next
        fetch shows the decision (``handlers.requests.reply``). A partitionable slot asks again in any case.
        """
        slots = [slot for slot in self.slot_list() if slot.keyword == keyword]
        return not (self.agent_updates and slots) or any(slot.type.partitionable for slot in slots)

    @property
    def memory_by_cgroup(self) -> bool:
        """Whether HTCondor gives every job of this host a cgroup with a memory limit."""
        asked = self.slots.limit_memory
        return bool(self.slots.fetched_only) if asked is None else asked

    @property
    def hides_gpus(self) -> bool:
        """Whether HTCondor's own way of hiding GPUs stays on, by which fetched jobs get none."""
        asked = self.slots.hide_gpus
        return not (self.slots.fetched_only or self.slots.limit_memory) if asked is None else asked

    @property
    def has_gpus(self) -> bool:
        """Whether some slot of the host file has GPUs."""
        return any(each.gpus for each in self.slots.type)

    def hooks(self, keyword: str) -> Path:
        """The directory with the hooks of ``keyword``; the directory's hook.conf names the keyword."""
        return self.keywords[keyword].hooks or HOOKS_ROOT / keyword

    def slot_types(self) -> tuple[tuple[int, SlotType], ...]:
        """The described slot types by HTCondor's type number, in its order."""
        numbered = [(each.number or index, each) for index, each in enumerate(self.slots.type, start=1)]
        return tuple(sorted(numbered, key=lambda pair: pair[0]))

    def slot_list(self) -> tuple[Slot, ...]:
        """Every described slot, numbered as HTCondor numbers them; empty without ``[[slots.type]]``."""
        named = dict(keywords_by_number(self.slots.keyword))
        slots: list[Slot] = []
        for _, slot_type in self.slot_types():
            for _ in range(slot_type.count):
                number = len(slots) + 1
                keyword = named.get(number) or slot_type.keyword or self.slots.default
                slots.append(Slot(number, slot_type, None if keyword in (None, NO_KEYWORD) else keyword))
        return tuple(slots)

    def keywords_in_use(self) -> tuple[str, ...]:
        """The keywords that some slot fetches with, in the file's order."""
        slots = self.slot_list()
        used = {slot.keyword for slot in slots} if slots else {self.slots.default}
        return tuple(keyword for keyword in self.keywords if keyword in used)
