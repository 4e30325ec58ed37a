"""Renders a host file as HTCondor configuration and, if systemd runs the agent, as its unit.

All decisions are made here; the templates hold the words. The same host file always gives the same bytes.
"""

from collections.abc import Callable
from importlib.resources import files
from itertools import groupby
from typing import NamedTuple

import jinja2

from fetchwork.config import PLAIN, HostConfig, Keyword, Slot
from fetchwork.config.hostname import directory_word
from fetchwork.deploy.keywords import FETCHES_NOTHING, slot_keywords, startd_keyword

CONDOR_FILE = "50-fetchwork.conf"
UNIT_FILE = "fetchwork-agent.service"

HOOKS = ("FETCH_WORK", "REPLY_FETCH", "EVICT_CLAIM", "PREPARE_JOB", "UPDATE_JOB_INFO", "JOB_EXIT")

# The only delay that keeps a slot from fetching: a slot that never fetched counts as "last fetched at 0", so
# any smaller number still lets it fetch once.
NEVER = "2147483647"

#: a partitionable slot that can make a dynamic slot
HAS_ROOM = "PartitionableSlot =?= true && Cpus > 0 && Memory > 0"
#: seconds between the fetches of such a slot: HTCondor fetches no more often
FILL_DELAY_S = 1
#: seconds between the fetches of a slot that may run a chain: only its next ad says that it is retiring
CHAIN_DELAY_S = "5"

#: seconds since a slot became busy, or idle
ACTIVE_S = "time() - EnteredCurrentActivity"

# From this version on the end of a job does not start the next fetch: the slot waits for a timer. No version
# between 23.9 and 25.14 was tried; the settings for newer versions do no harm on older ones.
TIMER_DRIVEN = (24,)


class SlotRow(NamedTuple):
    """One line of the table of slots at the head of the file."""

    slots: str
    keyword: str
    database: str
    queues: str


def render(config: HostConfig, version: tuple[int, ...] | None = None) -> dict[str, str]:
    """Return file name -> text for a host.

    ``version`` is that of the machine's HTCondor; the host file's own ``host.htcondor`` overrides it.
    If neither is known, the output suits every version from 23.0.
    """
    version = config.htcondor_version or version
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - the output is no HTML
    )
    context = _context(config, version)
    rendered = {CONDOR_FILE: environment.get_template(f"{CONDOR_FILE}.j2").render(context)}
    if config.agent.run == "systemd":
        rendered[UNIT_FILE] = environment.get_template(f"{UNIT_FILE}.j2").render(context)
    return rendered


def _template(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def _context(config: HostConfig, version: tuple[int, ...] | None) -> dict[str, object]:
    timer_driven = version is None or version >= TIMER_DRIVEN
    used = {name: config.keywords[name] for name in config.keywords_in_use()}
    return {
        "config": config,
        "host": config.host,
        "agent": config.agent,
        "slots": config.slots,
        "pilot": config.pilot,
        "pilot_word": directory_word(config.pilot_directory) if config.pilot else None,
        "condor_directory": config.pilot_directory / "config.d" if config.pilot else "/etc/condor/config.d",
        "workstation": config.workstation,
        "version": ".".join(map(str, version)) if version else None,
        "timer_driven": timer_driven,
        "hooks": {name: hooks_of(config, name) for name in used},
        "agent_updates": config.agent_updates,
        "agent_user": f" --user {config.agent.user}" if config.agent.user and config.agent.root_part else "",
        "keywords": used,
        "rows": slot_rows(config),
        "startd_keyword": startd_keyword(config),
        "slot_keywords": slot_keywords(config),
        "fetches_nothing": FETCHES_NOTHING,
        # if each job's ad says whether it needs JOB_EXIT, nothing may override it
        "guard": (
            next(iter(used))
            if config.slots.fetched_only and len(used) == 1 and not config.agent_updates
            else None
        ),
        "plain": PLAIN if config.agent_updates else None,
        "types": [(number, each, slot_resources(config, number)) for number, each in config.slot_types()],
        "uses_gpus": config.has_gpus,
        "idle_delay": idle_delay(config),
        "fill_delay": HAS_ROOM,
        "busy_delay": busy_delay(config) if timer_driven else NEVER,
        "chain_delay": _by_slot(config, lambda keyword: CHAIN_DELAY_S if keyword.chain_s else NEVER),
        "never": NEVER,
        "poll_every_second": timer_driven and any(not keyword.max_fetch_wait_s for keyword in used.values()),
        "default_queues": queues_of(config, startd_keyword(config)),
        "slot_queues": {
            name: queues_of(config, None if keyword == FETCHES_NOTHING else keyword)
            for name, keyword in slot_keywords(config).items()
            if "_" not in name
        },
    }


def hooks_of(config: HostConfig, keyword: str) -> list[str]:
    """The hooks that HTCondor calls for the slots of a keyword, in HTCondor's order."""
    left_out = set()
    if config.agent_updates:
        left_out.add("UPDATE_JOB_INFO")
    if not config.is_told_replies(keyword):
        left_out.add("REPLY_FETCH")
    return [hook for hook in HOOKS if hook not in left_out]


def slot_rows(config: HostConfig) -> list[SlotRow]:
    """The slots by keyword, neighbours in one row; without a described layout, one row for all."""
    slots = config.slot_list()
    if not slots:
        assert config.slots.default is not None, "checked when the file was read"
        return [_row("all", config.slots.default, config.keywords[config.slots.default])]
    rows = []
    for keyword, group in groupby(slots, key=lambda slot: slot.keyword):
        numbers = [slot.number for slot in group]
        rows.append(_row(_range(numbers), keyword or "(none)", config.keywords[keyword] if keyword else None))
    return rows


def _row(slots: str, name: str, keyword: Keyword | None) -> SlotRow:
    if keyword is None:
        return SlotRow(slots, name, "", "")
    return SlotRow(slots, name, keyword.database or "", ", ".join(keyword.queues))


def slot_resources(config: HostConfig, number: int) -> str:
    """The value of ``SLOT_TYPE_<number>``; HTCondor divides the resources without a setting evenly."""
    slot_type = dict(config.slot_types())[number]
    parts = [
        f"cpus={slot_type.cpus or 'auto'}",
        f"memory={slot_type.memory_mib or 'auto'}",
        f"disk={slot_type.disk or 'auto'}",
    ]
    # a type that does not say how many GPUs would get its share of them
    if any(other.gpus for other in config.slots.type):
        parts.append(f"gpus={slot_type.gpus}")
    return ", ".join(parts)


def idle_delay(config: HostConfig) -> str:
    """Seconds between two fetches of a slot without a job, by slot if keywords differ.

    Each fetch of a partitionable slot fills one dynamic slot, so this is how fast a host with one fills. That
    is why it asks again at once while it has room, unless the host file names a delay. A fetch that finds
    no work waits in the agent.
    """
    static = config.slots.type and not any(each.partitionable for each in config.slots.type)

    def delay(keyword: Keyword) -> str:
        seconds = keyword.fetch_delay_s
        if static or "fetch_delay_s" in keyword.model_fields_set:
            return str(seconds)
        return f"ifThenElse({HAS_ROOM}, {FILL_DELAY_S}, {seconds})"

    return _by_slot(config, delay)


def busy_delay(config: HostConfig) -> str:
    """Seconds to the next fetch of a slot whose job runs.

    If fetches may wait in the agent, the one that waits when the job ends gives the slot its next job at
    once; without it the slot would wait for the next poll. After the first minute of a job this matters less,
    and a slot need not fetch again at once after a fetch without a job.

    Of a job of less than a second no fetch has begun when it ends, and the startd, which evaluates this once
    more then, still sees the slot as busy since the fetch that brought the job: only 0 lets it fetch at once,
    anything more has it wait for a second (Resource::tryFetchWork of 25.14). Not so a dynamic slot: it also
    evaluates this after each of its own fetches, and one whose ad is refused would fetch 60 times a second.
    """

    def delay(keyword: Keyword) -> str:
        if not keyword.max_fetch_wait_s:
            return NEVER
        return f"ifThenElse({ACTIVE_S} < 2 && DynamicSlot isnt true, 0, ifThenElse({ACTIVE_S} < 60, 1, 5))"

    return _by_slot(config, delay)


def _by_slot(config: HostConfig, value: Callable[[Keyword], str]) -> str:
    """An expression that is ``value(keyword)`` for each slot; a dynamic slot has its parent's SlotID."""
    default = startd_keyword(config) or config.keywords_in_use()[0]
    text = value(config.keywords[default])
    differing = [
        slot for slot in config.slot_list() if slot.keyword and value(config.keywords[slot.keyword]) != text
    ]
    for keyword, group in groupby(_neighbours(differing), key=lambda run: run[0].keyword):
        assert keyword is not None
        which = " || ".join(_is_slot(run) for run in group)
        text = f"ifThenElse({which}, {value(config.keywords[keyword])}, {text})"
    return text


def _neighbours(slots: list[Slot]) -> list[list[Slot]]:
    runs: list[list[Slot]] = []
    for slot in slots:
        if runs and runs[-1][-1].number == slot.number - 1 and runs[-1][-1].keyword == slot.keyword:
            runs[-1].append(slot)
        else:
            runs.append([slot])
    return runs


def _is_slot(run: list[Slot]) -> str:
    first, last = run[0].number, run[-1].number
    return f"SlotID == {first}" if first == last else f"(SlotID >= {first} && SlotID <= {last})"


def queues_of(config: HostConfig, keyword: str | None) -> str:
    """A ClassAd string with the queues that a keyword draws from, as ``condor_status`` shows them."""
    names = config.keywords[keyword].queues if keyword else ()
    return '"' + ",".join(names) + '"'


def _range(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
