"""Jobs that arrive as tables are printed like the same jobs that arrive one by one: options x ads."""

import io
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from fetchwork.condor import commands
from fetchwork.condor.invocation import Invocation
from fetchwork.condor.printing import adfiles
from tests.commands import options

QUEUES = ("25.14.1.queue.ads", "23.9.6.queue.ads", "ended.ads", "odd.ads")


def is_literal(value: object) -> bool:
    if isinstance(value, list | dict) or value is None:
        return False
    return not (isinstance(value, str) and value.startswith("/Expr("))


def table(ads: list[dict[str, Any]]) -> dict[str, Any]:
    """A table of ads of literals, with and without common attributes."""
    names = list(dict.fromkeys(name for ad in ads for name in ad))
    same: dict[str, Any] = {}
    columns: dict[str, list[Any]] = {}
    for name in names:
        values = [ad.get(name) for ad in ads]
        if None not in values and len(set(map(repr, values))) == 1 and len(name) % 2:
            same[name] = values[0]
        else:
            columns[name] = values
    return {"jobs": len(ads), "same": same, "columns": columns}


class Queue:
    """Answers with the ads of a file, as tables or one by one."""

    def __init__(self, ads: list[dict[str, Any]], size: int | None) -> None:
        self._ads, self._size = ads, size
        self.tables = 0

    def perform(self, name: str, **_: object) -> Any:
        return {"database": "q", "host": "h", "port": 1} if name == "location" else []

    def items(self, name: str, **_: object) -> Iterator[dict[str, Any]]:
        if name == "jobs":
            yield from self._ads
        elif self._size is None:
            yield {"ads": self._ads}
        else:
            for begin in range(0, len(self._ads), self._size):
                self.tables += 1
                yield table(self._ads[begin : begin + self._size])

    def close(self) -> None: ...


def printed(ads: list[dict[str, Any]], size: int | None, line: str) -> tuple[int, bytes, bytes, int]:
    queue = Queue(ads, size)
    out, err = io.BytesIO(), io.BytesIO()
    words = ["condor_q", "-allusers", *shlex.split(line)]
    run = Invocation(
        words,
        io.BytesIO(),
        out,
        err,
        lambda: queue,  # type: ignore[arg-type, return-value]
        environment={},
        directory=options.DATA,
        user="alice",
    )
    status = commands.run(run)
    return status, out.getvalue(), err.getvalue(), queue.tables


@pytest.mark.parametrize("file", QUEUES)
def test_a_table_is_printed_as_its_ads_are(file: str, utc: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1795225768.0)
    read = list(adfiles.read((options.DATA / file).read_text(errors="replace"), "auto"))
    ads = [{name: value for name, value in ad.json.items() if is_literal(value)} for ad in read]
    assert len(ads) > 1
    tables = 0
    for line in options.of("condor_q"):
        if "-analy" in line or "-better" in line or "-global" in line:
            continue
        expected = printed(ads, None, line)
        for size in (1, 4, 10_000):
            said = printed(ads, size, line)
            assert said[:3] == expected[:3], (line, size)
            tables += said[3]
    assert tables > 200


def test_numbers_that_are_equal_and_printed_differently_stay_apart(utc: None) -> None:
    values = [1, 1.0, True, 0, 0.0, -0.0, False, "1", None, "x", "é", '"', 2**40, 1e300]
    ads: list[dict[str, Any]] = [
        {"ClusterId": 1, "ProcId": n, "Owner": "alice", "X": value, ("y", "Y")[n % 2]: n // 3}
        for n, value in enumerate(values)
    ]
    ads = [{name: value for name, value in ad.items() if value is not None} for ad in ads]
    lines = ["-af:j X y", "-af:h X Y", "-af:r X", "-af:V X Y", "-format '%d ' X -format '%s\\n' Y"]
    lines += ["-af 'X + 1'", "-af 'ifThenElse(isUndefined(X), Y, X)'", "-af 'eval(\"Y\")'", "-af:t \"'X'\" X"]
    for line in lines:
        assert printed(ads, 100, line)[:3] == printed(ads, None, line)[:3], line
    assert printed(ads, 100, "-af X")[1].splitlines()[:6] == [b"1", b"1.0", b"true", b"0", b"0.0", b"-0.0"]
