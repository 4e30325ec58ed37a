"""Contradictions between settings of a host file that are each well formed.

Only :mod:`fetchwork.config` calls this, and reports them beside the problems of single settings.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from fetchwork.config.sections import NO_KEYWORD, PLAIN, HostConfig, Slots
from fetchwork.config.toml import Key, slot_numbers

# A keyword becomes part of HTCondor setting names. HTCondor compares them without regard to case.
_KEYWORD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
_RESERVED_KEYWORDS = {NO_KEYWORD, "fetches_nothing", "startd", "starter"}
_SOCKET_PATH_BYTES = 100


class Problem(NamedTuple):
    """A problem of a host file: the key, the problem, and the allowed values."""

    key: Key
    wrong: str
    allowed: str


def contradictions(config: HostConfig) -> Iterator[Problem]:
    """Yield the conflicts between settings that are valid by themselves."""
    yield from _database_problems(config)
    yield from _agent_problems(config)
    yield from _keyword_problems(config)
    yield from _slot_problems(config)
    if config.pilot and config.workstation:
        yield Problem(("workstation",), "is given together with [pilot]", "one of the two")
    if config.pilot and config.agent.run == "systemd":
        yield Problem(("agent", "run"), "is 'systemd' on a pilot, which has no root", "'master'")


def _database_problems(config: HostConfig) -> Iterator[Problem]:
    used = {keyword.database for keyword in config.keywords.values()}
    for name, database in config.databases.items():
        key = ("database", name)
        if database.service and not database.conninfo.startswith("service="):
            yield Problem((*key, "service"), "is given together with conninfo", "one of the two")
        elif not database.conninfo:
            yield Problem(key, "has neither conninfo nor service", "one of the two")
        # a keyword whose database is wrong may have meant this one
        if name not in used and used <= set(config.databases):
            yield Problem(key, "is not used by any keyword", 'a keyword with database = "' + name + '"')


def _agent_problems(config: HostConfig) -> Iterator[Problem]:
    agent = config.agent
    if agent.run == "systemd" and agent.user == "" and not config.pilot:
        yield Problem(("agent", "user"), "is '', which systemd reads as root", "'condor', or another account")
    if agent.user == "root":
        yield Problem(
            ("agent", "user"),
            "is root, and a hook's answer must not come from root",
            "'condor', or another account",
        )
    if len(os.fsencode(config.socket)) > _SOCKET_PATH_BYTES:
        yield Problem(("agent", "socket"), "is too long for a Unix socket", "a path of at most 100 bytes")
    slowest = max(config.keywords.values(), key=lambda keyword: keyword.max_fetch_wait_s)
    if slowest.max_fetch_wait_s and not agent.max_waiting_fetches:
        yield Problem(
            ("agent", "max_waiting_fetches"),
            "is 0 although a keyword's max_fetch_wait_s lets fetches wait",
            "at least one per slot, or max_fetch_wait_s = 0",
        )


def _keyword_problems(config: HostConfig) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    directories: dict[Path, str] = {}
    for name, keyword in config.keywords.items():
        key = ("keyword", name)
        if not _KEYWORD.fullmatch(name):
            yield Problem(
                key,
                "has characters that an HTCondor keyword can't have",
                "a letter, then letters, digits and '_'",
            )
        if name.lower() in _RESERVED_KEYWORDS:
            yield Problem(key, "is a word with a meaning of its own", "another name")
        if name.lower() in seen:
            yield Problem(
                key,
                f"is [keyword.{seen[name.lower()]}] again: HTCondor ignores case",
                "names that differ otherwise",
            )
        seen[name.lower()] = name
        if name.upper().endswith(PLAIN):
            yield Problem(key, f"ends with {PLAIN}, which is for fetchwork's own keywords", "another name")
        if keyword.chain_s and not config.agent_updates:
            yield Problem(
                (*key, "chain_s"),
                "lets jobs run in chains, and this agent has no right to end one job of a chain",
                "0, or agent.root_part = true",
            )
        if not keyword.database:
            yield Problem(
                (*key, "database"), "is missing, and there are several databases", _one_of(config.databases)
            )
        elif keyword.database not in config.databases:
            yield Problem(
                (*key, "database"), f"there is no [database.{keyword.database}]", _one_of(config.databases)
            )
        if len(set(keyword.queues)) < len(keyword.queues):
            yield Problem((*key, "queues"), "names a queue twice", "each queue once")
        directory = config.hooks(name)
        if directory in directories:
            other = directories[directory]
            yield Problem(
                (*key, "hooks"),
                f"is also the directory of [keyword.{other}], and a hook knows its keyword by its directory",
                "a directory for each keyword",
            )
        directories[directory] = name


def _slot_problems(config: HostConfig) -> Iterator[Problem]:
    slots = config.slots
    allowed = _one_of(config.keywords, NO_KEYWORD)
    if slots.default is None and not (slots.type and all(slot_type.keyword for slot_type in slots.type)):
        yield Problem(("slots", "default"), "is missing, and there are several keywords", allowed)
    if slots.default is not None and slots.default not in (*config.keywords, NO_KEYWORD):
        yield Problem(("slots", "default"), f"there is no [keyword.{slots.default}]", allowed)
    numbers: set[int] = set()
    for index, slot_type in enumerate(slots.type):
        key = ("slots", "type", index)
        number = slot_type.number or index + 1
        if number in numbers:
            yield Problem((*key, "number"), f"slot type {number} is described twice", "each number once")
        numbers.add(number)
        if slot_type.keyword is not None and slot_type.keyword not in (*config.keywords, NO_KEYWORD):
            yield Problem((*key, "keyword"), f"there is no [keyword.{slot_type.keyword}]", allowed)
    partitionable = [slot for slot in config.slot_list() if slot.type.partitionable]
    if len({slot.keyword for slot in partitionable}) > 1 and not all(
        slot.type.cpus for slot in partitionable
    ):
        yield Problem(
            ("slots", "type"),
            "has partitionable slots of several keywords, whose dynamic slots must be named one by one",
            "cpus = ... in each partitionable slot type, or one keyword for all of them",
        )
    yield from _named_slot_problems(config)
    yield from _size_problems(config)
    first, every = slots.initial_update_interval_s, slots.update_interval_s
    if first > every:
        yield Problem(
            ("slots", "initial_update_interval_s"),
            f"({first}) is longer than update_interval_s ({every})",
            "at most update_interval_s",
        )
    known = all(name in (None, NO_KEYWORD, *config.keywords) for name in _slot_keywords(slots))
    if known and not config.keywords_in_use() and (slots.default or slots.type):
        yield Problem(("slots",), "leaves no slot that fetches", "at least one slot with a keyword")


def _slot_keywords(slots: Slots) -> Iterator[str | None]:
    yield slots.default
    yield from (slot_type.keyword for slot_type in slots.type)
    yield from slots.keyword.values()


def _named_slot_problems(config: HostConfig) -> Iterator[Problem]:
    count = len(config.slot_list())
    seen: dict[int, str] = {}
    for name, keyword in config.slots.keyword.items():
        key = ("slots", "keyword", name)
        named = slot_numbers(name)
        if named is None:
            yield Problem(key, f"{name!r} is not a slot number", "a number such as 4 or a range such as 1-3")
            continue
        if keyword not in (*config.keywords, NO_KEYWORD):
            yield Problem(key, f"there is no [keyword.{keyword}]", _one_of(config.keywords, NO_KEYWORD))
        if not count:
            yield Problem(
                key,
                "names a slot, but no [[slots.type]] describes the slots",
                "[[slots.type]] with count = ...",
            )
            continue
        if not named:
            yield Problem(key, f"the range {name!r} runs backwards", "the smaller number first")
        for number in named:
            if number > count:
                yield Problem(key, f"there is no slot {number} in the described slots", f"1 to {count}")
                break
            if number in seen:
                yield Problem(key, f"slot {number} is named already by {seen[number]!r}", "each slot once")
                break
            seen[number] = name


def _size_problems(config: HostConfig) -> Iterator[Problem]:
    if config.slots.limit_disk and not config.agent_updates:
        yield Problem(
            ("slots", "limit_disk"),
            "is true, and the agent has no right to end jobs (agent.root_part)",
            "false",
        )
    for setting in ("cpus", "memory_mib"):
        limit = getattr(config.host, setting)
        asked = sum(each.count * (getattr(each, setting) or 0) for each in config.slots.type)
        if limit and asked > limit:
            yield Problem(
                ("slots", "type"),
                f"asks for {asked} {setting}, the host has {limit}",
                f"at most {limit} in all",
            )
    disk = sum(each.count * int((each.disk or "0%")[:-1]) for each in config.slots.type)
    if disk > 100:
        yield Problem(("slots", "type"), f"asks for {disk}% of the disk", "at most 100% in all")


def _one_of(names: Mapping[str, object], *more: str) -> str:
    return "one of " + ", ".join(repr(name) for name in (*names, *more))
