"""HTCondor on this host: is it there, which keyword has each slot, does it use what the host file says?"""

import difflib
import re
from collections.abc import Iterator

from fetchwork.config import HostConfig
from fetchwork.deploy.check import check_condor
from fetchwork.deploy.condorconfig import CondorConfig, CondorConfigError, Settings
from fetchwork.deploy.keywords import FETCHES_NOTHING
from fetchwork.deploy.layout import delay_of_a_slot_with_room, shortage, slots_in_words
from fetchwork.doctor.line import Line, failed, ok, warned

_KEYWORD = re.compile(r"(STARTD|SLOT\d+(?:_\d+)?)_JOB_HOOK_KEYWORD")
_SHOWN = 4
_SLOW_FILL_S = 2


def check(config: HostConfig, condor: CondorConfig) -> Iterator[Line]:
    """Yield what HTCondor's configuration says about fetching."""
    try:
        version = condor.version()
        settings = condor.settings()
    except CondorConfigError as error:
        yield failed("HTCondor", str(error), "install HTCondor, or set CONDOR_CONFIG as condor_master has it")
        return
    text = ".".join(map(str, version))
    named = config.htcondor_version
    if named and named != version[: len(named)]:
        remedy = f'host.htcondor = "{text}", fetchwork config generate, condor_reconfig'
        yield warned("HTCondor", f"is {text}, the host file is for {config.host.htcondor}", remedy)
    else:
        yield ok("HTCondor", text)
    yield from _name(config, condor)
    misspelt = list(_keywords(config, settings))
    yield from misspelt
    if problem := shortage(config, condor):
        yield failed("slots", f"slots.type {problem}", "fewer or smaller slots; fetchwork config install")
    yield from _slots(condor, settings)
    yield from _differences(config, condor, quiet=any(line.verdict == "FAIL" for line in misspelt))


def _name(config: HostConfig, condor: CondorConfig) -> Iterator[Line]:
    """Does HTCondor know this host by the name that the database has?"""
    name = condor.value("FULL_HOSTNAME")
    if config.pilot:
        if config.host.name:
            yield warned(
                "host name",
                f"is set: no other pilot may have '{config.host.name}'",
                "without host.name its account and directory make it unique",
            )
        return
    if name and name.lower() != config.name.lower():
        yield warned(
            "host name",
            f"HTCondor calls this host '{name}', and fetchwork '{config.name}'",
            f'host.name = "{name}", or without host.name; then restart the agent',
        )


def _keywords(config: HostConfig, settings: Settings) -> Iterator[Line]:
    """Does the keyword of each slot have hooks?"""
    by_keyword: dict[str, list[str]] = {}
    for name in sorted(settings, key=_numbers):
        match = _KEYWORD.fullmatch(name)
        if match and settings[name]:
            by_keyword.setdefault(settings[name], []).append(match[1].lower())
    if not by_keyword:
        yield failed(
            "keywords",
            "no slot has a hook keyword, so none fetches",
            f"fetchwork config generate -c '{config.host.file}'"
            f" -o {settings.get('LOCAL_CONFIG_DIR') or 'DIR'}, then condor_reconfig",
        )
    for keyword, slots in by_keyword.items():
        who = "all other slots" if slots == ["startd"] and len(by_keyword) > 1 else _joined(slots)
        if keyword.upper() == FETCHES_NOTHING:
            yield ok("keywords", f"{who}: none, by the host file")
        elif settings.get(f"{keyword}_HOOK_FETCH_WORK"):
            yield ok("keywords", f"{who}: {keyword}")
        else:
            close = difflib.get_close_matches(
                keyword.upper(), [name.upper() for name in config.keywords], n=1
            )
            hint = f" (did you mean {close[0]}?)" if close else ""
            yield failed(
                "keywords",
                f"{who}: keyword {keyword!r} has no hooks{hint}: {keyword}_HOOK_FETCH_WORK is not set",
                f"fetchwork config generate -c '{config.host.file}', then condor_reconfig",
            )


def _slots(condor: CondorConfig, settings: Settings) -> Iterator[Line]:
    """Which slots does HTCondor make, and how soon is a partitionable one full?"""
    words = slots_in_words(settings)
    if words is None:
        return
    text, partitionable = words
    delay_s = delay_of_a_slot_with_room(condor) if partitionable else None
    if delay_s is None:
        yield ok("slots", text)
    elif delay_s > _SLOW_FILL_S:
        yield warned(
            "slots",
            f"{text}; each fetch starts one job, and with room it fetches every {delay_s:.0f} s only",
            "an agent, and no fetch_delay_s or fetch_delay_s = 1",
        )
    else:
        yield ok("slots", f"{text}; while it has room it fetches every {delay_s:.0f} s")


def _differences(config: HostConfig, condor: CondorConfig, quiet: bool) -> Iterator[Line]:
    findings = list(check_condor(config, condor))
    for finding in findings[:_SHOWN]:
        verdict = warned if finding.warning else failed
        yield verdict("settings", f"{finding.where}: {finding.wrong}", finding.allowed)
    if len(findings) > _SHOWN:
        more = len(findings) - _SHOWN
        yield failed("settings", f"and {more} more", f"fetchwork config check -c '{config.host.file}'")
    if not findings and not quiet:
        yield ok("settings", "HTCondor uses what the host file says")


def _numbers(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name) if part]


def _joined(slots: list[str]) -> str:
    names = ["every slot" if slot == "startd" else slot for slot in slots]
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])} and {len(names) - 5} more"
