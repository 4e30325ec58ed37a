"""The display of values: Jinja's environment, with the filters that the templates use."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fetchwork.classad.exprform import expr_text
from fetchwork.codes import STATUS_NAMES, EventType
from fetchwork.queue.reading.views import Row

HERE = Path(__file__).parent

#: ULogEventNumber -> its name on a page
_EVENTS = {
    EventType.SUBMIT: "submitted",
    EventType.EXECUTE: "started",
    EventType.EXECUTABLE_ERROR: "could not be executed",
    EventType.JOB_EVICTED: "evicted",
    EventType.JOB_TERMINATED: "ended",
    EventType.IMAGE_SIZE: "memory grew",
    EventType.GENERIC: "note",
    EventType.JOB_ABORTED: "removed",
    EventType.JOB_SUSPENDED: "suspended",
    EventType.JOB_UNSUSPENDED: "continued",
    EventType.JOB_HELD: "held",
    EventType.JOB_RELEASED: "released",
}


def moment(epoch: float | None) -> str:
    """A time of day, with its date, in UTC."""
    return "" if epoch is None else datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d %H:%M:%S")


def duration(seconds: float | None) -> str:
    """A length of time: '3 d 04:05:06', '04:05:06'."""
    if seconds is None:
        return ""
    days, rest = divmod(max(0, int(seconds)), 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days} d {clock}" if days else clock


def number(given: float | None) -> str:
    """A number in groups of three digits: 1,000,000; nothing for None."""
    if given is None:
        return ""
    return f"{int(given):,}" if given == int(given) else f"{given:,.2f}"


def since(epoch: float | None) -> str:
    """The time since a moment."""
    return "" if epoch is None else duration(time.time() - epoch)


def value(given: object) -> str:
    """An attribute's value as ClassAds write it."""
    if isinstance(given, str):
        text = expr_text(given)
        return json.dumps(given, ensure_ascii=False) if text is None else text
    if isinstance(given, bool):
        return "true" if given else "false"
    return json.dumps(given, ensure_ascii=False, default=str)


def command(ad: Mapping[str, object]) -> str:
    """A job's command line."""
    arguments = ad.get("Args", ad.get("Arguments", ""))
    program = str(ad.get("Cmd", "")).rpartition("/")[2]
    return f"{program} {arguments if isinstance(arguments, str) else ''}".strip()


def status(number: int) -> str:
    """The name of a JobStatus."""
    return STATUS_NAMES.get(number, str(number))


def happened(number: int) -> str:
    """The name of an event."""
    return _EVENTS.get(number, f"event {number}")


def bars(rows: Sequence[Row], names: Sequence[str], *, height: int = 120) -> list[dict[str, object]]:
    """Bars of a chart, side by side for each row: x, y, width, height, name, value, at."""
    top = max((row[name] or 0 for row in rows for name in names), default=0) or 1
    wide = 8 // max(1, len(names))
    return [
        {
            "x": 10 * index + wide * part + 1,
            "y": height - round(height * row[name] / top, 1),
            "width": wide,
            "height": round(height * row[name] / top, 1),
            "name": name,
            "value": row[name],
            "at": row["at"],
        }
        for index, row in enumerate(rows)
        for part, name in enumerate(names)
        if row[name]
    ]


def environment() -> Environment:
    """The templates; all text of people is escaped."""
    jinja = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters.update(
        moment=moment,
        duration=duration,
        since=since,
        number=number,
        value=value,
        command=command,
        status=status,
        happened=happened,
    )
    jinja.globals["bars"] = bars
    return jinja
