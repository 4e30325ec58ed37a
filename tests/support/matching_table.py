"""Reads tests/data/matching.txt: pairs of a job ad and a slot ad, and HTCondor's decision on each."""

import re
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent.parent / "data"
DECISIONS = ("match", "job refuses", "slot refuses", "fetchwork refuses")

_BASE = re.compile(r"base (job|slot) (\w+)(?: from (\S+))?")
_PAIR = re.compile(r"(\w+) on (\w+): ([a-z ]+): (.+)")
_OVER = re.compile(r"    (job|slot)\.('[^']+'|\w+)(?: = (.*))?")
_ATTRIBUTE = re.compile(r"\s*('[^']+'|\w+)\s*=\s*(.*)")

Ad = dict[str, str]


@dataclass(frozen=True)
class Pair:
    """One pair; the ads are in old syntax."""

    name: str
    decision: str
    job: str
    slot: str


def pairs() -> list[Pair]:
    """All pairs of the table."""
    bases: dict[tuple[str, str], Ad] = {}
    found: list[tuple[str, str, dict[str, Ad]]] = []
    base: Ad = {}
    for number, line in enumerate((DATA / "matching.txt").read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if head := _BASE.fullmatch(line):
            base = bases[head[1], head[2]] = {}
            if head[3]:
                for attribute in (DATA / "ads" / head[3]).read_text().splitlines():
                    _set(base, attribute)
        elif head := _PAIR.fullmatch(line):
            assert head[3] in DECISIONS, f"line {number}: '{head[3]}'"
            ads = {"job": dict(bases["job", head[1]]), "slot": dict(bases["slot", head[2]])}
            found.append((head[4], head[3], ads))
        elif over := _OVER.fullmatch(line):
            ad = found[-1][2][over[1]]
            for name in [name for name in ad if name.lower() == over[2].lower()]:
                del ad[name]
            if over[3] is not None:
                ad[over[2]] = over[3]
        else:
            assert not found, f"line {number}: {line}"
            _set(base, line)
    return [Pair(name, decision, _text(ads["job"]), _text(ads["slot"])) for name, decision, ads in found]


def _set(ad: Ad, line: str) -> None:
    attribute = _ATTRIBUTE.fullmatch(line)
    assert attribute, line
    ad[attribute[1]] = attribute[2]


def _text(ad: Ad) -> str:
    return "".join(f"{name} = {value}\n" for name, value in ad.items())
