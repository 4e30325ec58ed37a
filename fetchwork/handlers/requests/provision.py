"""A job's view of its slot when it starts: devices and threads in its environment, and two files."""

from __future__ import annotations

from collections.abc import Mapping

from fetchwork.classad.ads import parse_old
from fetchwork.classad.values import evaluate, number
from fetchwork.errors import ClassAdError, FetchworkError
from fetchwork.handlers.context import Task
from fetchwork.handlers.host import jobenvironment
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.handlers.host.slotad import SlotUnknown
from fetchwork.handlers.requests import adfiles
from fetchwork.handlers.starterad import Reader


class NotProvided(FetchworkError):
    """The job can't have its devices or variables on this slot: it does not start."""


_JOB = Reader(("Environment", "Env", "EnvDelim", "RequestGPUs"))


def wants_devices(job: bytes) -> bool:
    """Whether the job of an ad asks for GPUs."""
    wanted = _JOB.read(job).get("RequestGPUs", 0)
    # the startd may evaluate another value to a number
    return not isinstance(wanted, int | float) or wanted > 0


async def provided(task: Task, slot: str, run: LiveRun | None, variables: Mapping[str, str]) -> bytes:
    """Return the body of PREPARE_JOB's answer: changes to the job's ad, and the ads for its files.

    ``variables`` are added to the job's environment beside those of the slot. Raises SlotUnknown, and
    NotProvided for a job with devices or such variables.
    """
    ads, job = task.context.slot_ads, task.request.body
    slot_ad = await ads.of(slot, run.fetched_by if run is not None else b"")
    settings = await ads.settings(slot_ad)
    try:
        parsed = parse_old(slot_ad)
    except ClassAdError as error:
        raise SlotUnknown(f"the ad of {slot} can't be read: {error}") from None
    literals = _JOB.read(job)
    if wants_devices(job):
        _check_devices(literals.get("RequestGPUs"), number(evaluate(parsed, "GPUs")), slot)
    forced, unless_set = jobenvironment.of_slot(parsed, settings)
    line = jobenvironment.line(literals, {**forced, **variables}, unless_set)
    if line is None and wants_devices(job):
        raise NotProvided("the job's Environment is an expression: its devices can't be added to it")
    if line is None and variables:
        raise _not_added(variables)
    if run is not None and run.chain is not None:
        run.chain.slot_now = slot_ad, parsed
    files = adfiles.ad_files(job, slot_ad, parsed, run.facts if run is not None else {})
    return (line or "").encode() + files


def without_slot(task: Task, variables: Mapping[str, str]) -> bytes:
    """Return the body if the slot is unknown: the job's ad with these variables; raises NotProvided."""
    if not variables:
        return b""
    line = jobenvironment.line(_JOB.read(task.request.body), variables, {})
    if line is None:
        raise _not_added(variables)
    return line.encode()


def _not_added(variables: Mapping[str, str]) -> NotProvided:
    return NotProvided(f"the job's Environment is an expression: {', '.join(variables)} can't be added to it")


def _check_devices(wanted: object, there: float | None, slot: str) -> None:
    if isinstance(wanted, int | float) and (there or 0) < wanted:
        raise NotProvided(f"the job asks for {wanted} GPUs, and {slot} has {there or 0:.0f}")
