"""Finds problems that keep a host file's settings from working, on this machine's disk and in its HTCondor.

Contradictions within the file are found when it is read (:mod:`fetchwork.config`). Here come the paths that
it names and, where HTCondor is installed, the settings of HTCondor that differ from the file.
"""

import grp
import os
import pwd
import re
import stat
import subprocess
from collections.abc import Iterator
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

from fetchwork.config import HostConfig, conninfo
from fetchwork.config.toml import Key, key_lines, line_of
from fetchwork.deploy import policies, sitehooks
from fetchwork.deploy.condorconfig import CondorConfig, Settings, parse_settings
from fetchwork.deploy.render import CONDOR_FILE, HOOKS, UNIT_FILE, render
from fetchwork.hook.spool import MODE

#: the directory of the systemd units that an administrator installs
UNIT_DIRECTORY = Path("/etc/systemd/system")

# settings to which ours is added: HTCondor's value must contain ours
_ADDED_TO = ("DAEMON_LIST", "STARTD_ATTRS")


class Finding(NamedTuple):
    """A problem and the allowed values; a warning may be intended."""

    where: str
    wrong: str
    allowed: str
    warning: bool = False

    @classmethod
    def parse(cls, problem: str) -> "Finding":
        """Return the finding that one problem of a ConfigError is."""
        start, _, allowed = problem.partition("; allowed: ")
        where, _, wrong = start.partition(": ")
        return cls(where, wrong, allowed)

    def __str__(self) -> str:
        return f"{self.where}: {'warning: ' if self.warning else ''}{self.wrong}; allowed: {self.allowed}"


class Locator:
    """Turns keys of a host file into ``FILE:LINE:KEY``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._lines = key_lines(path.read_text(encoding="utf-8"))
        except OSError:
            self._lines = {}

    def __call__(self, *key: str | int) -> str:
        """Return the location of a key, or of the nearest table around it."""
        whole: Key = key
        line = line_of(whole, self._lines)
        dotted = ".".join(str(part) for part in whole)
        return f"{self.path}:{line}:{dotted}" if line is not None else f"{self.path}:{dotted}"


def check_paths(config: HostConfig, locate: Locator) -> Iterator[Finding]:
    """Yield the problems of the files and directories that the host file names."""
    for name in config.keywords_in_use():
        yield from check_hooks(config, name, locate)
    yield from check_spool(config, locate("agent", "spool"))
    yield from check_socket(config, locate)
    yield from check_leftovers(config)
    if not os.access(config.command, os.X_OK):
        yield Finding(
            locate("agent", "venv"),
            f"'{config.command}' is missing or not executable",
            "the environment that fetchwork is installed in",
        )
    if locate.path.resolve() != config.host.file.resolve():
        yield Finding(
            locate("host", "file"),
            f"the agent will read '{config.host.file}', not this file",
            f"this file at '{config.host.file}', or host.file = \"{locate.path.resolve()}\"",
            warning=True,
        )
    else:
        yield from check_agent_reads(config, locate)
    yield from check_secrets(config, locate)


def check_hooks(config: HostConfig, keyword: str, locate: Locator) -> Iterator[Finding]:
    """Yield the problems that keep HTCondor from running a keyword's hooks, or the hooks from the agent."""
    directory = config.hooks(keyword)
    where = locate("keyword", keyword, "hooks")
    install = f"the hooks that 'fetchwork hooks install -c {locate.path}' makes"
    try:
        mode = directory.stat().st_mode
    except OSError as error:
        yield Finding(where, f"hook directory '{directory}': {_reason(error)}", install)
        return
    if not stat.S_ISDIR(mode):
        yield Finding(where, f"'{directory}' is not a directory", install)
        return
    if mode & stat.S_IWOTH:
        yield Finding(
            where, f"hook directory '{directory}' is world-writable, HTCondor refuses it", "mode 755"
        )
    if not mode & stat.S_IXOTH:
        yield Finding(where, f"hook directory '{directory}' is closed to the accounts of jobs", "mode 755")
    for hook in HOOKS:
        yield from _check_hook(directory / hook.lower(), where, install)
    expected = {"keyword": keyword, "socket": str(config.socket), "spool": str(config.agent.spool)}
    yield from _check_hook_conf(directory / "hook.conf", expected, where, install)
    where = locate("keyword", keyword, "chain_s")
    for wrong, allowed in policies.against_chains(config, keyword):
        yield Finding(where, wrong, allowed)


def _check_hook(path: Path, where: str, install: str) -> Iterator[Finding]:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        yield Finding(where, f"hook '{path}': {_reason(error)}", install)
        return
    if not stat.S_ISREG(mode):
        yield Finding(where, f"hook '{path}' is not a file", "an executable file of mode 755")
    elif mode & stat.S_IWOTH:
        yield Finding(
            where, f"hook '{path}' is world-writable, HTCondor refuses it", f"mode 755: chmod 755 '{path}'"
        )
    elif mode & 0o555 != 0o555:
        yield Finding(
            where,
            f"hook '{path}' is not executable for everyone (mode {stat.S_IMODE(mode):o})",
            f"mode 755: chmod 755 '{path}'",
        )


def _check_hook_conf(path: Path, expected: dict[str, str], where: str, install: str) -> Iterator[Finding]:
    """Hooks read hook.conf and not the host file: a change of the host file must reach hook.conf."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        yield Finding(where, f"'{path}': {_reason(error)}", install)
        return
    settings = _settings_of(text)
    if left := [name for name in settings if name.startswith("direct_")]:
        yield Finding(
            str(path), f"still sets {', '.join(left)}: a hook without an agent does no work", install
        )
    for name, value in expected.items():
        if settings.get(name) != value:
            there = f"sets {name} = {settings[name]}" if name in settings else f"does not set {name}"
            yield Finding(str(path), f"{there}; the host file has '{value}'", install)


def check_spool(config: HostConfig, where: str) -> Iterator[Finding]:
    """Yield the problems of the directory in which hooks, which may run as any account, leave reports.

    Some keep a hook from leaving one, others let accounts read it that should not.
    """
    spool, allowed = config.agent.spool, f"a directory of mode {MODE:o}"
    try:
        status = spool.stat()
    except OSError as error:
        yield Finding(where, f"spool '{spool}': {_reason(error)}", allowed)
        return
    mode = stat.S_IMODE(status.st_mode)
    problem = ""
    if not stat.S_ISDIR(status.st_mode):
        yield Finding(where, f"spool '{spool}' is not a directory", allowed)
    elif mode & 0o1733 != 0o1733:
        problem = "not every account can leave a report"
    elif not mode & stat.S_ISGID:
        problem = "the agent can't read the reports in it"
    elif mode & 0o044:
        problem = "every account can list the reports in it"
    elif config.agent.user:
        yield from _group_of_others(spool, status, where)
    if problem:
        yield Finding(where, f"spool '{spool}' has mode {mode:o}: {problem}", f"chmod {MODE:o} '{spool}'")


def _group_of_others(spool: Path, status: os.stat_result, where: str) -> Iterator[Finding]:
    """Yield a problem if other accounts are in the group by which the agent reads jobs' outputs."""
    if status.st_uid == 0:
        return
    owns = {each.pw_name: each.pw_uid for each in pwd.getpwall() if each.pw_gid == status.st_gid}
    own = [name for name, uid in owns.items() if uid not in (0, status.st_uid)]
    try:
        group = grp.getgrgid(status.st_gid)
    except KeyError:
        return
    others = own or [name for name in group.gr_mem if name not in owns]
    if others:
        yield Finding(
            where,
            f"spool '{spool}': {', '.join(sorted(others)[:5])} can read what jobs leave, being of the agent's"
            f" group '{group.gr_name}'",
            "an agent.user with a group of its own",
            warning=not own,
        )


def check_leftovers(config: HostConfig, unit_directory: Path = UNIT_DIRECTORY) -> Iterator[Finding]:
    """Yield installed parts of earlier versions of the host file that this version does not need."""
    yield from _left_unit(config, unit_directory)
    yield from _left_hooks(config)


def _left_unit(config: HostConfig, unit_directory: Path) -> Iterator[Finding]:
    unit = unit_directory / UNIT_FILE
    if config.agent.run == "systemd":
        return
    try:
        text = unit.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    # the agent of another host file is none of ours
    if re.search(rf"--config {re.escape(str(config.host.file))}(?:\s|$)", text):
        yield Finding(
            str(unit),
            f"starts a second agent: it is left from agent.run = 'systemd', now '{config.agent.run}'",
            f"systemctl disable --now {UNIT_FILE.removesuffix('.service')}, then rm '{unit}'",
        )


def _left_hooks(config: HostConfig) -> Iterator[Finding]:
    """Hooks of removed keywords that still name our agent; hooks that name another agent are not ours."""
    ours = {config.hooks(name) for name in config.keywords}
    for conf in sorted({conf for hooks in ours for conf in hooks.parent.glob("*/hook.conf")}):
        directory = conf.parent
        if directory in ours or (settings := _hook_settings(conf)) is None:
            continue
        if settings.get("socket") == str(config.socket):
            yield Finding(
                str(directory),
                f"has the hooks of keyword '{settings.get('keyword', '')}', which is not in the host file",
                f"rm -r '{directory}', once no job runs that came by it",
                warning=True,
            )


def _hook_settings(path: Path) -> dict[str, str] | None:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return _settings_of(text)


def _settings_of(hook_conf: str) -> dict[str, str]:
    return dict(re.findall(r"(?m)^\s*(\w+)\s*=\s*(.*?)\s*$", hook_conf))


def check_socket(config: HostConfig, locate: Locator) -> Iterator[Finding]:
    """Yield the problem that keeps the agent's account from making its socket."""
    directory, account = config.socket.parent, config.agent.user
    if not account:
        return
    try:
        status, owner = directory.stat(), pwd.getpwnam(account)
    except (OSError, KeyError):
        return  # the agent, or systemd, makes the directory
    groups = os.getgrouplist(account, owner.pw_gid)
    writable = (
        status.st_mode & stat.S_IWUSR
        if status.st_uid == owner.pw_uid
        else status.st_mode & (stat.S_IWGRP if status.st_gid in groups else stat.S_IWOTH)
    )
    if not writable:
        yield Finding(
            locate("agent", "socket"),
            f"account '{account}' cannot make the agent's socket in '{directory}'",
            f"a directory of that account: chown {account} '{directory}'",
        )


def check_secrets(config: HostConfig, locate: Locator) -> Iterator[Finding]:
    """Who can read the host file? The agent's account alone should."""
    try:
        for_all = bool(locate.path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return
    for name, database in config.databases.items():
        if not for_all or "password" not in conninfo.parse(database.conninfo):
            continue
        yield Finding(
            locate("database", name, "conninfo"),
            "holds a password in a file that everyone can read",
            f"chmod o-r '{locate.path}', or passfile=... in place of the password",
        )


def check_agent_reads(config: HostConfig, locate: Locator) -> Iterator[Finding]:
    """Yield that the agent's account can't read the host file; root alone can find that out."""
    account = config.agent.user
    if os.geteuid() != 0 or not account:
        return
    try:
        entry = pwd.getpwnam(account)
    except KeyError:
        return
    groups = os.getgrouplist(account, entry.pw_gid)
    reads = subprocess.run(
        ["test", "-r", str(locate.path.absolute())],
        user=entry.pw_uid,
        group=entry.pw_gid,
        extra_groups=groups,
        cwd="/",
        check=False,
    )
    if reads.returncode != 0:
        yield Finding(
            str(locate.path),
            f"account '{account}' (agent.user) cannot read it, so the agent ends at its start",
            f"chown {account} '{locate.path}', in a directory that this account may enter",
        )


class _Difference(NamedTuple):
    """A setting of HTCondor that works against the host file."""

    name: str
    wrong: str
    allowed: str
    warning: bool = False


def check_condor(config: HostConfig, condor: CondorConfig) -> Iterator[Finding]:
    """Yield the settings of HTCondor that differ from the host file."""
    expected = parse_settings(render(config, condor.version())[CONDOR_FILE])
    # a file that was generated without a known version suits this version too
    any_version = parse_settings(render(config)[CONDOR_FILE])
    actual = condor.settings()
    keyword_names = {
        "STARTD_JOB_HOOK_KEYWORD",
        *(f"{name}_HOOK_FETCH_WORK" for name in config.keywords_in_use()),
    }
    if not any(actual.get(name) for name in keyword_names):
        yield Finding(
            "HTCondor",
            f"does not read the configuration made from '{config.host.file}'",
            f"fetchwork config generate -c '{config.host.file}' -o DIR, DIR being one of"
            f" {actual.get('LOCAL_CONFIG_DIR') or 'LOCAL_CONFIG_DIR'}; then condor_reconfig",
        )
        return
    differences = [
        *_differing(config, condor, actual, expected, any_version),
        *_foreign(config, condor, actual, expected),
        *(_Difference(*found) for found in policies.problems(config, actual, condor)),
    ]
    # all at once: each call of condor_config_val reads the whole configuration
    origins = condor.origins([difference.name for difference in differences])
    for name, wrong, allowed, warning in differences:
        yield Finding(f"{origins.get(name.upper(), 'HTCondor')}:{name}", wrong, allowed, warning)


def _differing(
    config: HostConfig,
    condor: CondorConfig,
    actual: Settings,
    expected: dict[str, str],
    any_version: dict[str, str],
) -> Iterator[_Difference]:
    again = f"fetchwork config generate -c '{config.host.file}', then condor_reconfig"
    for name, value in expected.items():
        if name not in actual:
            yield _Difference(name, f"is not set; the host file says {_short(value)}", again)
        elif any(_agrees(name, text, actual[name]) for text in {value, any_version.get(name, value)}):
            continue
        elif name.endswith(sitehooks.PREPARE_JOB) and value.startswith("/"):
            yield from starmap(_Difference, sitehooks.prepare_job(name, value, condor))
        else:
            wrong = f"HTCondor uses {_short(actual[name])}, the host file says {_short(value)}"
            yield _Difference(name, wrong, f"without this line, or {again}")


def _foreign(
    config: HostConfig, condor: CondorConfig, actual: Settings, expected: dict[str, str]
) -> Iterator[_Difference]:
    """Yield settings that the host file does not make, but that work against it."""
    ours = Settings(expected)
    for name in sorted(actual):
        if not actual[name] or name in ours:
            continue
        if name == sitehooks.STARTER_KEYWORD:
            yield from starmap(_Difference, sitehooks.starter_keyword(config, condor))
        elif re.fullmatch(r"(STARTD|SLOT\d+(_\d+)?)_JOB_HOOK_KEYWORD", name):
            wrong = f"sets keyword {actual[name]!r}, which the host file does not"
            yield _Difference(name, wrong, "[slots.keyword]")
        elif re.fullmatch(r"SLOT_TYPE_\d+_JOB_HOOK_KEYWORD|SLOT\d+(_\d+)?_FETCHWORKDELAY", name):
            yield _Difference(name, "has no effect in HTCondor", "[slots.keyword] and fetch_delay_s", True)
        elif re.fullmatch(r"SLOT_TYPE_\d+_FETCHWORKDELAY", name):
            yield _Difference(name, "overrides the FetchWorkDelay of the host file", "without this line")


def _agrees(name: str, expected: str, actual: str) -> bool:
    if name in _ADDED_TO:
        own = re.sub(r"\$\([^)]*\)", " ", expected)
        return set(_words(own)) <= set(_words(actual))
    return "".join(expected.split()) == "".join(actual.split())


def _words(text: str) -> list[str]:
    return [word.upper() for word in re.split(r"[\s,]+", text) if word]


def _short(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:57] + "...")


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
