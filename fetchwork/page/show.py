"""The display of values: Jinja's environment, with the filters that the templates use."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fetchwork.classad.exprform import expr_text
from fetchwork.codes import STATUS_NAMES
from fetchwork.dag import drawing
from fetchwork.page import machines, timeline
from fetchwork.queue.reading.phases import outcome
from fetchwork.queue.reading.views import Row

HERE = Path(__file__).parent
#: units of a chart: the width of a step, and the height of all
WIDE = 10
HIGH = 100
_ROUND_TIMES = (10, 60, 120, 300, 600, 1200, 3600, 7200, 4 * 3600, 12 * 3600, 86400)


def moment(epoch: float | None) -> str:
    """A time of day, with its date, in UTC."""
    return "" if epoch is None else datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d %H:%M:%S")


def ago(epoch: float) -> str:
    """A time as people say it: '5 min ago', 'in 2 h'."""
    passed = time.time() - epoch
    return f"{short(passed)} ago" if passed >= 0 else f"in {short(-passed)}"


def host_path(name: str) -> str:
    """The address of a host's page."""
    return "/hosts/" + quote(name, safe="")


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


def scale(rows: Sequence[Row], names: Sequence[str], *, seconds: bool = False) -> float:
    """The top of a chart's scale: a round number that no value exceeds; of seconds a round time."""
    most: float = max((row[name] or 0 for row in rows for name in names), default=0)
    if seconds:
        return next((top for top in _ROUND_TIMES if top >= most), 86400 * math.ceil(most / 86400))
    power: int = 10 ** max(0, len(str(int(most))) - 1)
    return next(top * power for top in (2, 4, 6, 8, 10) if top * power >= most)


def bars(
    rows: Sequence[Row], names: Sequence[str], top: float, *, stacked: bool = False
) -> list[dict[str, object]]:
    """Bars of a chart of ``HIGH`` units, side by side for each row, or on each other."""
    drawn: list[dict[str, object]] = []
    wide = WIDE - 2 if stacked else (WIDE - 2) / len(names)
    for index, row in enumerate(rows):
        below = 0.0
        for part, name in enumerate(names):
            height = round(HIGH * (row[name] or 0) / top, 1)
            if height:
                x = WIDE * index + 1 + (0 if stacked else wide * part)
                y = round(HIGH - below - height, 1)
                drawn.append({"x": x, "y": y, "width": wide, "height": height, "name": name})
            below += height if stacked else 0
    return drawn


def line(rows: Sequence[Row], name: str, top: float) -> str:
    """A chart's line as points of an SVG; a missing value is left out."""
    return " ".join(
        f"{WIDE * index + WIDE // 2},{round(HIGH - HIGH * row[name] / top, 1)}"
        for index, row in enumerate(rows)
        if row[name] is not None
    )


def spark(values: Sequence[float]) -> str:
    """A small line of 60 x 16 units as points of an SVG."""
    top = max(values, default=0) or 1
    step = 60 / max(1, len(values) - 1)
    return " ".join(
        f"{round(step * n, 1)},{round(15 - 14 * value / top, 1)}" for n, value in enumerate(values)
    )


def short(seconds: float | None) -> str:
    """A length of time with one unit, as scales and lists show it: '45 s', '12 min', '3 h', '2 d'."""
    if seconds is None:
        return ""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{round(seconds / unit, 1):g} {name}"
    return f"{round(seconds)} s"


def clock(epoch: float, *, days: bool = False) -> str:
    """A time of day at a scale: '14:15', of a week '26 Nov 14:00'."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%-d %b %H:%M" if days else "%H:%M")


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
    )
    jinja.filters.update(short=short, clock=clock, ago=ago, host_path=host_path)
    jinja.filters["node_name"] = drawing.short
    jinja.filters["when"] = jinja.get_template("when.html").module.when  # type: ignore[attr-defined]
    jinja.globals.update(bars=bars, line=line, scale=scale, spark=spark)
    jinja.globals.update(drawn=timeline.drawn, outcome=outcome, problems=machines.problems)
    jinja.globals.update(groups=machines.groups, summed=machines.summed)
    return jinja
