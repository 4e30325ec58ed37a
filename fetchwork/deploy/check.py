"""Finds what would keep a host file's settings from working: on this machine's disk, and in its HTCondor.

What the file contradicts in itself is found when it is read (:mod:`fetchwork.config`). Here come the paths
that it names, and, where HTCondor is installed, whether what HTCondor would use is what the file says.
"""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fetchwork.classad.ads import parse_expr
from fetchwork.classad.values import ClassAd, evaluate
from fetchwork.config import HostConfig, conninfo
from fetchwork.config.tomllines import Key, key_lines, line_of
from fetchwork.deploy.condorconfig import CondorConfig, Settings, parse_settings
from fetchwork.deploy.render import CONDOR_FILE, HOOKS, render
from fetchwork.errors import ClassAdError

# settings that ours adds to: ours must be part of what HTCondor has
_ADDED_TO = ("DAEMON_LIST", "STARTD_ATTRS")


class Finding(NamedTuple):
    """One thing that is wrong, and what is allowed; a warning is a finding that may be meant."""

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


class Place:
    """Turns keys of a host file into ``FILE:LINE:KEY``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._lines = key_lines(path.read_text(encoding="utf-8"))
        except OSError:
            self._lines = {}

    def __call__(self, *key: str | int) -> str:
        """Return the place of a key, or of the nearest table around it."""
        whole: Key = key
        line = line_of(whole, self._lines)
        dotted = ".".join(str(part) for part in whole)
        return f"{self.path}:{line}:{dotted}" if line is not None else f"{self.path}:{dotted}"


def check_paths(config: HostConfig, place: Place) -> Iterator[Finding]:
    """Yield what is wrong with the files and directories that the host file names."""
    for name in config.keywords_in_use():
        yield from check_hooks(config, name, place)
    yield from check_spool(config.agent.spool, place("agent", "spool"))
    if not os.access(config.command, os.X_OK):
        yield Finding(
            place("agent", "venv"),
            f"'{config.command}' is not there or can't be run",
            "the environment that fetchwork is installed in",
        )
    if place.path.resolve() != config.host.file.resolve():
        yield Finding(
            place("host", "file"),
            f"the agent will read '{config.host.file}', not this file",
            f"this file at '{config.host.file}', or host.file = \"{place.path.resolve()}\"",
            warning=True,
        )
    yield from _check_secrets(config, place)


def check_hooks(config: HostConfig, keyword: str, place: Place) -> Iterator[Finding]:
    """Yield what would keep HTCondor from running the hooks of a keyword, or them from finding the agent."""
    directory = config.hooks(keyword)
    where = place("keyword", keyword, "hooks")
    install = f"what 'fetchwork hooks install -c {place.path}' makes"
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
    """The hooks read this file, and not the host file: a change of the one must reach the other."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        yield Finding(where, f"'{path}': {_reason(error)}", install)
        return
    found = dict(re.findall(r"(?m)^\s*(\w+)\s*=\s*(.*?)\s*$", text))
    for name, value in expected.items():
        if found.get(name) != value:
            said = f"says {name} = {found[name]}" if name in found else f"says no {name}"
            yield Finding(str(path), f"{said}, the host file has '{value}'", install)


def check_spool(spool: Path, where: str) -> Iterator[Finding]:
    """Yield what would keep a hook, which runs as any account, from leaving a report in the spool."""
    try:
        status = spool.stat()
    except OSError as error:
        yield Finding(where, f"spool '{spool}': {_reason(error)}", "a directory of mode 1733")
        return
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISDIR(status.st_mode):
        yield Finding(where, f"spool '{spool}' is not a directory", "a directory of mode 1733")
    elif mode & 0o1733 != 0o1733:
        yield Finding(
            where,
            f"spool '{spool}' has mode {mode:o}: not every account can leave a report",
            f"chmod 1733 '{spool}'",
        )
    elif mode & 0o044:
        yield Finding(
            where,
            f"spool '{spool}' has mode {mode:o}: every account can list the reports in it",
            f"chmod 1733 '{spool}'",
        )


def _check_secrets(config: HostConfig, place: Place) -> Iterator[Finding]:
    """Who can read the host file? With an agent only its account should; without one every hook must."""
    try:
        for_all = bool(place.path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return
    if config.agent.run == "none" and not for_all:
        yield Finding(
            str(place.path),
            "is closed to the accounts of jobs, whose hooks read it where there is no agent",
            f"chmod o+r '{place.path}', or an agent",
        )
    for name, database in config.databases.items():
        if not for_all or "password" not in conninfo.parse(database.conninfo):
            continue
        where = place("database", name, "conninfo")
        if config.agent.run == "none":
            yield Finding(
                where, "holds a password that every job can read", "an agent, or trust in jobs", warning=True
            )
        else:
            yield Finding(
                where,
                "holds a password in a file that everyone can read",
                f"chmod o-r '{place.path}', or passfile=... in place of the password",
            )


class _Difference(NamedTuple):
    """A setting of HTCondor that works against the host file."""

    name: str
    wrong: str
    allowed: str
    warning: bool = False


def check_condor(config: HostConfig, condor: CondorConfig) -> Iterator[Finding]:
    """Yield where HTCondor would use something else than the host file says."""
    expected = parse_settings(render(config, condor.version())[CONDOR_FILE])
    # generated elsewhere, where the version was not known, it suits this one too
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
            f"fetchwork config generate '{config.host.file}' -o DIR, DIR being one of"
            f" {actual.get('LOCAL_CONFIG_DIR') or 'LOCAL_CONFIG_DIR'}; then condor_reconfig",
        )
        return
    differences = [
        *_differing(config, actual, expected, any_version),
        *_foreign(config, actual, expected),
        *_start(condor.value("START")),
    ]
    # all at once: each call of condor_config_val reads the whole configuration
    origins = condor.origins([difference.name for difference in differences])
    for name, wrong, allowed, warning in differences:
        yield Finding(f"{origins.get(name.upper(), 'HTCondor')}:{name}", wrong, allowed, warning)


def _differing(
    config: HostConfig, actual: Settings, expected: dict[str, str], any_version: dict[str, str]
) -> Iterator[_Difference]:
    again = f"fetchwork config generate '{config.host.file}', then condor_reconfig"
    for name, value in expected.items():
        if name not in actual:
            yield _Difference(name, f"is not set, the host file says {_short(value)}", again)
        elif not any(_agrees(name, text, actual[name]) for text in {value, any_version.get(name, value)}):
            wrong = f"HTCondor uses {_short(actual[name])}, the host file says {_short(value)}"
            yield _Difference(name, wrong, f"without this line, or {again}")


def _foreign(config: HostConfig, actual: Settings, expected: dict[str, str]) -> Iterator[_Difference]:
    """Settings that the host file does not make, but that work against it."""
    ours = Settings(expected)
    for name in sorted(actual):
        if not actual[name] or name in ours:
            continue
        if name == "STARTER_JOB_HOOK_KEYWORD":
            wrong = f"gives every job of this host the hooks of {actual[name]!r}, whatever its slot's keyword"
            several = len(config.keywords_in_use()) > 1
            yield _Difference(name, wrong, "without this line" if several else "slots.fetched_only = true")
        elif re.fullmatch(r"(STARTD|SLOT\d+(_\d+)?)_JOB_HOOK_KEYWORD", name):
            wrong = f"sets keyword {actual[name]!r}, which the host file does not"
            yield _Difference(name, wrong, "[slots.keyword]")
        elif re.fullmatch(r"SLOT_TYPE_\d+_JOB_HOOK_KEYWORD|SLOT\d+(_\d+)?_FETCHWORKDELAY", name):
            yield _Difference(name, "has no effect in HTCondor", "[slots.keyword] and fetch_delay_s", True)
        elif re.fullmatch(r"SLOT_TYPE_\d+_FETCHWORKDELAY", name):
            yield _Difference(name, "overrides the FetchWorkDelay of the host file", "without this line")


def _start(start: str | None) -> Iterator[_Difference]:
    """START is looked at before there is a job: if it is false then, no slot ever fetches."""
    if not start:
        return
    try:
        alone = evaluate(ClassAd(), parse_expr(start))
    except ClassAdError as error:
        yield _Difference("START", str(error), "a ClassAd expression")
        return
    if alone is False:
        yield _Difference(
            "START",
            f"{_short(start)} is false without a job, so no slot will ever fetch",
            "an expression that is true or undefined without a job: compare with == in place of =?=",
        )


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
