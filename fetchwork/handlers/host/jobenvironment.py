"""The variables of a job's environment that come from its slot: devices, and the number of threads.

HTCondor's starter takes them from the slot's ad, but a fetched job's starter has an empty one. So PREPARE_JOB
adds them to the job's Environment, as the starter would (starter.cpp, PublishToEnv): the devices override the
job's own values, the numbers of threads do not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fetchwork.classad.ads import parse_expr, print_old
from fetchwork.classad.values import ClassAd, evaluate
from fetchwork.handlers.starterad import Literal
from fetchwork.hook.jobcheck import quoted_word, split_words

#: `NAME=/regex/replacement/` in ENVIRONMENT_FOR_Assigned...; any character may take the slash's place
_RULE = re.compile(r"[\s,]*([^\s=]+)(?:=\s*(\S)(.*?)\2(.*?)\2)?")
_GPUS = "GPUs"
_DIGITS_ONLY = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
#: separates the words of V1 syntax, unless EnvDelim names another character
_V1_DELIMITER = ";"


@dataclass(frozen=True, slots=True)
class StarterSettings:
    """The settings of HTCondor's configuration that a starter uses for a job's environment.

    ``devices`` and ``unassigned`` are ENVIRONMENT_FOR_Assigned* and ENVIRONMENT_VALUE_FOR_UnAssigned* by
    resource; ``sets_nvidia`` is AUTO_SET_NVIDIA_VISIBLE_DEVICES.
    """

    version: tuple[int, ...]
    threads: tuple[str, ...]
    devices: Mapping[str, str]
    unassigned: Mapping[str, str]
    sets_nvidia: bool = True

    @property
    def has_long_ids(self) -> bool:
        """Whether CUDA_VISIBLE_DEVICES has whole identifiers (HTCONDOR-3350)."""
        if self.version[:1] == (24,):
            return self.version >= ((24, 0, 14) if self.version[1] == 0 else (24, 12, 14))
        return self.version >= ((25, 0, 3) if self.version[:2] == (25, 0) else (25, 3, 1))


def of_slot(slot: ClassAd, settings: StarterSettings) -> tuple[dict[str, str], dict[str, str]]:
    """The variables that a slot always sets, and the variables that it sets if the job does not."""
    forced: dict[str, str] = {}
    resources = _words(slot.get("MachineResources"))
    for name in resources:
        attribute = f"Assigned{name}"
        assigned, rules = slot.get(attribute), settings.devices.get(name, "")
        if not isinstance(assigned, str):
            if name not in slot or not rules:
                continue
            assigned = settings.unassigned.get(name, "")
        forced |= _devices(rules, assigned)
        forced[f"_CONDOR_{attribute}"] = assigned
    if settings.sets_nvidia and _GPUS.lower() in (name.lower() for name in resources):
        identifiers = _identifiers(slot)
        forced["NVIDIA_VISIBLE_DEVICES"] = identifiers or "none"
        if identifiers and settings.has_long_ids:
            forced["CUDA_VISIBLE_DEVICES"] = identifiers
    cpus = slot.get("Cpus")
    count = int(cpus) if isinstance(cpus, int | float) else 0
    return forced, {name: str(count) for name in settings.threads} if count > 0 else {}


def line(job: Mapping[str, Literal], forced: Mapping[str, str], unless_set: Mapping[str, str]) -> str | None:
    """Return the line with the Environment for a job; None if the ad's own is an expression.

    ``job`` has the literals among Environment, Env and EnvDelim of its ad.
    """
    name = "Environment" if "Environment" in job else "Env"
    text = job.get(name, "")
    if not isinstance(text, str):
        # an expression, which only the starter evaluates
        return None
    words = split_words(text) if name == "Environment" else _split_v1(text, job.get("EnvDelim"))
    there = dict(word.partition("=")[::2] for word in words)
    added: dict[str, str] = {}
    has_said = False
    for variable, value in unless_set.items():
        # as in the starter: after a variable that the job sets, it sets none until one that the job set empty
        has_said = bool(there[variable]) if variable in there else has_said
        if not has_said:
            added[variable] = value
    added |= forced
    # if a variable comes twice, its last value counts
    added = {name: value for name, value in added.items() if there.get(name) != value}
    whole = " ".join(map(quoted_word, [*words, *(f"{name}={value}" for name, value in added.items())]))
    ad = ClassAd()
    ad["Environment"] = whole
    return print_old(ad)


def _split_v1(text: str, delimiter: Literal) -> list[str]:
    given = delimiter if isinstance(delimiter, str) and delimiter else _V1_DELIMITER
    return [word.strip() for word in re.split(f"[{re.escape(given)}\n]", text) if word.strip()]


def _devices(rules: str, assigned: str) -> dict[str, str]:
    """The variables that ENVIRONMENT_FOR_Assigned... makes of the assigned devices."""
    found: dict[str, str] = {}
    for rule in _RULE.finditer(rules):
        name, separator, pattern, replacement = rule.groups()
        if separator is None:
            # a name alone ends the list, as in the starter
            digits = re.sub(r"[^0-9,]", "", assigned) if name in _DIGITS_ONLY else assigned
            return {**found, name: digits}
        if name == "CUDA_VISIBLE_DEVICES" and not pattern:
            found[name] = re.sub(r"[^0-9,]", "", assigned)
            continue
        try:
            expression = re.compile(pattern)
        except re.error:
            return found
        found[name] = ",".join(_replaced(expression, replacement, one) for one in _words(assigned))
    return found


def _replaced(pattern: re.Pattern[str], replacement: str, device: str) -> str:
    def of_group(found: re.Match[str]) -> str:
        return re.sub(
            r"\$([0-9])",
            lambda number: (found[int(number[1])] or "") if int(number[1]) <= pattern.groups else "",
            replacement,
        )

    return pattern.sub(of_group, device, count=1)


def _identifiers(slot: ClassAd) -> str:
    """NVIDIA's identifiers of the devices that the slot's jobs may use."""
    first = evaluate(slot, parse_expr("AvailableGPUs[0].Id"))
    prefix = "" if isinstance(first, str) and first.startswith("MIG-") else "GPU-"
    joined = evaluate(
        slot, parse_expr(f'join(",", evalInEachContext(strcat("{prefix}", DeviceUuid), AvailableGPUs))')
    )
    return joined if isinstance(joined, str) else ""


def _words(text: object) -> Sequence[str]:
    return re.split(r"[\s,]+", text.strip()) if isinstance(text, str) and text.strip() else ()
