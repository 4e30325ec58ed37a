"""The ad of the slot on which a job is about to start.

A fetched job's starter has an empty ad for its machine. A static slot, and a dynamic slot that is used again,
has sent its ad with its fetch. A slot that is carved out of a partitionable one for a fetched job has sent
nothing when the job starts, and only the startd knows its devices: HTCondor's condor_status asks it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from fetchwork.errors import FetchworkError, one_line
from fetchwork.handlers.host.jobenvironment import StarterSettings
from fetchwork.log import event
from fetchwork.sandbox import hostsettings

log = logging.getLogger(__name__)

#: seconds for an answer of the startd
ANSWER_S = hostsettings.ANSWER_S
#: the configuration is read again after this
SETTINGS_S = 300.0
#: a startd without an answer is logged at most once in this time
LOG_S = 60.0
#: commands at a time, so that many starts at once do not take the whole host
AT_ONCE = 4
_RESOURCES = re.compile(rb'(?mi)^MachineResources\s*=\s*"([^"\n]*)"\s*$')
_NAME = re.compile(rb'(?mi)^Name\s*=\s*"([^"\n]*)"\s*$')
_ADDRESS = re.compile(rb'(?mi)^MyAddress\s*=\s*"(<[^"\n]*>)"\s*$')
# attributes that condor_status never shows
_PRIVATE = re.compile(
    rb"(?mi)^(?:ClaimId|ClaimIds|ClaimIdList|Capability|ChildClaimIds|PairedClaimId|"
    rb"SplitClaimId|TransferKey|_condor_priv\w*)\s*=[^\n]*\n?"
)
# the agent's own, from the daemon that started it: not for other programs
_INHERITED = ("CONDOR_INHERIT", "CONDOR_PRIVATE_INHERIT")
_NAMES = (
    "CONDOR_VERSION",
    "STARTER_NUM_THREADS_ENV_VARS",
    "AUTO_SET_NVIDIA_VISIBLE_DEVICES",
    "STARTD_ADDRESS_FILE",
)


class SlotUnknown(FetchworkError):
    """The ad of a slot can't be had from the startd."""


class SlotAds:
    """HTCondor's ads of this host's slots, and the starter's settings for them."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._settings: dict[tuple[str, ...], tuple[float, StarterSettings, str]] = {}
        self._logged_at = float("-inf")

    async def of(self, slot: str, fetched: bytes) -> bytes:
        """Return the ad of ``slot``; ``fetched`` is the slot ad of the job's fetch, empty if unknown.

        Raises SlotUnknown.
        """
        name = _NAME.search(fetched)
        if name is not None and name[1].decode(errors="replace").lower() == slot.lower():
            return _PRIVATE.sub(b"", fetched)
        address = _ADDRESS.search(fetched)
        where = address[1].decode(errors="replace") if address else await self._address()
        constraint = f'Name == "{slot}"' if re.fullmatch(r"[\w.@+-]+", slot) else "false"
        printed = await self._run("condor_status", "-direct", where, "-long", "-constraint", constraint)
        ad = printed.strip(b"\n").partition(b"\n\n")[0]
        if not ad:
            raise SlotUnknown(f"the startd has no slot '{slot}'")
        return _PRIVATE.sub(b"", ad + b"\n")

    async def settings(self, slot_ad: bytes) -> StarterSettings:
        """Return HTCondor's settings for the environment of jobs on a slot with this ad.

        Raises SlotUnknown.
        """
        found = _RESOURCES.search(slot_ad)
        resources = tuple(re.findall(r"[\w.]+", found[1].decode(errors="replace"))) if found else ()
        return (await self._configuration(resources))[0]

    async def _address(self) -> str:
        return await asyncio.to_thread(_first_line, (await self._configuration(()))[1])

    async def _configuration(self, resources: tuple[str, ...]) -> tuple[StarterSettings, str]:
        known = self._settings.get(resources)
        if known is not None and time.monotonic() < known[0] + SETTINGS_S:
            return known[1:]
        names = [
            *_NAMES,
            *(f"ENVIRONMENT_FOR_Assigned{name}" for name in resources),
            *(f"ENVIRONMENT_VALUE_FOR_UnAssigned{name}" for name in resources),
        ]
        printed = await self._run(*hostsettings.command(names))
        try:
            values = hostsettings.read(printed, names)
        except hostsettings.SettingsUnknown as problem:
            raise SlotUnknown(str(problem)) from None
        version, threads, sets_nvidia, address_file, *of_resources = values
        settings = StarterSettings(
            version=tuple(map(int, re.findall(r"\d+", version))),
            threads=tuple(re.findall(r"[^\s,]+", threads)),
            devices=dict(zip(resources, of_resources[: len(resources)], strict=True)),
            unassigned=dict(zip(resources, of_resources[len(resources) :], strict=True)),
            sets_nvidia=sets_nvidia.strip().lower() not in ("false", "0", "no", "f"),
        )
        self._settings[resources] = time.monotonic(), settings, address_file
        return settings, address_file

    async def _run(self, *command: str) -> bytes:
        if shutil.which(command[0]) is None:
            raise SlotUnknown(f"'{command[0]}' is not on PATH")
        async with self._turns:
            return await asyncio.to_thread(_output, command)

    def complain(self, problem: object, **fields: object) -> None:
        """Log that a slot's ad can't be had, at most once in ``LOG_S``."""
        if time.monotonic() >= self._logged_at + LOG_S:
            self._logged_at = time.monotonic()
            event(log, logging.WARNING, "slot_unknown", problem=problem, **fields)


def _output(command: tuple[str, ...]) -> bytes:
    environment = {name: value for name, value in os.environ.items() if name not in _INHERITED}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=ANSWER_S,
            check=False,
            env=environment,
            cwd="/",
        )
    except OSError as error:
        raise SlotUnknown(f"cannot run '{command[0]}': {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise SlotUnknown(f"'{command[0]}' was not done in {ANSWER_S:.0f} s") from None
    if done.returncode:
        problem = one_line(done.stderr.decode(errors="replace"), 200)
        raise SlotUnknown(f"'{command[0]}' failed: {problem}")
    return done.stdout


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text().split("\n", 1)[0]
    except (OSError, ValueError) as error:
        raise SlotUnknown(f"cannot read the startd's address in '{path}': {error}") from None
