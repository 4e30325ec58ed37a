"""ClassAds in fetchwork and in the next HTCondor: the same expressions, evaluated by both in one run.

fetchwork reads, evaluates and prints expressions with the library of its bindings; a startd of HTCondor 25
evaluates the same ads with its own. Each expression is evaluated on both sides with and without a TARGET ad,
then once more by the other side from the printed line: so a job's ad reaches a startd, and a slot's ad an
agent. All ads of tests/data are evaluated too, and each of their jobs is matched with each slot.

    python -m tests.evidence.classads 100000 --seed 1       ends in `unexplained: 0`
    python -m tests.evidence.classads 100000 --suite sid    with the library in that suite's pool root

A difference counts as explained if ``KNOWN`` has its cause.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fetchwork.classad.bounds import MAX_CHAIN
from fetchwork.pool.cache import cached
from fetchwork.pool.condorroot import installed_root
from tests.evidence.expressions import SCOPES, Expressions
from tests.support.matching_table import pairs

#: the next HTCondor's bindings, as PyPI has them
PACKAGE = "htcondor==25.14.1"
PROGRAM = Path(__file__).with_name("classad_process.py")
DATA = Path(__file__).parent.parent / "data"
#: expressions that are sent to a process at once
BATCH = 5000

#: the way of a difference that HTCondor sees only in fetchwork's line
OURS = "HTCondor reads our line"

Answer = dict[str, Any]
Case = dict[str, Any]


@dataclass(frozen=True)
class Known:
    """A cause of differences: an expression that shows it, and its values if they are always the same."""

    name: str
    text: str
    ours: str
    theirs: str
    #: the answer of fetchwork to it
    handling: str
    explains: Callable[[Difference], bool]


@dataclass(frozen=True)
class Difference:
    """One expression of different meaning; ``way`` says which side printed the text."""

    text: str
    way: str
    ours: Answer
    theirs: Answer

    def __str__(self) -> str:
        keys = [
            key for key in ("read", "value", "matched", "names") if self.ours.get(key) != self.theirs.get(key)
        ]
        lines = [
            f"    {key}: {self.ours.get(key)!r:.200}; HTCondor: {self.theirs.get(key)!r:.200}" for key in keys
        ]
        return "\n".join([f"{self.text!r:.300} ({self.way})", *lines])


def _steps(difference: Difference) -> bool:
    pattern = rf"(?:[-!~+] ?|\.\w+| \S+ \S+){{{MAX_CHAIN}}}"
    return difference.text.count("?") > MAX_CHAIN or _names(difference, pattern)


def _digits(difference: Difference) -> bool:
    return difference.way == OURS and _names(difference, r"\d\.\d{15,}|\d{9}\.\d{9}")


def _names(difference: Difference, pattern: str) -> bool:
    return re.search(pattern, difference.text, re.I) is not None


KNOWN = (
    Known(
        "an attribute that refers to itself",
        "Loop || true",
        "error",
        "true",
        "a match or a policy sees it only in what asks whether it is undefined",
        lambda difference: _names(difference, r"\b(?:loop|circle)\b"),
    ),
    Known(
        "an attribute of a list that a function has made ends the process",
        '(split("a b")).x',
        "died",
        "died",
        "the matchmaker's worker ends, and the ad is set apart; a startd of either version would end",
        lambda difference: "died" in (difference.ours["read"], difference.theirs["read"]),
    ),
    Known(
        "more than 400 operators, signs, selections or conditions within each other",
        "Missing" + ".c" * 500,
        "undefined",
        "error",
        "more than 390 operators in a row are refused with that reason; the others do not occur in ads",
        _steps,
    ),
    Known(
        "a real of 17 digits within an expression",
        "Missing ?: 0.30000000000000004",
        "0.30000000000000004",
        "0.3",
        "HTCondor prints 16 digits, in all versions; fetchwork prints literals itself",
        _digits,
    ),
    Known(
        "the clock",
        "absTime()",
        "",
        "",
        "the two sides evaluate one after the other",
        lambda difference: _names(difference, r"(?:abs|format)time\(\s*\)"),
    ),
    Known(
        "a time that is no date of the calendar",
        "splitTime(Big)",
        "",
        "",
        "its parts come from memory that nothing has set, in all versions",
        lambda difference: (
            _names(difference, r"time|get(?:year|month|day|hours|minutes|seconds)")
            and _names(difference, r"\bbig\b|\d{17}|1e\+?[0-9]{2}|9\.3e18|abstime\(\"(?!\d{4}-)")
        ),
    ),
)


def library() -> Path:
    """The directory of the next HTCondor's bindings; raises OSError or CalledProcessError if pip fails."""

    def build(directory: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(directory)]
        subprocess.run([*pip, PACKAGE], check=True, timeout=600)

    return cached(f"{PACKAGE.replace('==', '-')}-{sys.version_info.major}.{sys.version_info.minor}", build)


class Side:
    """One library: a process for each batch, and another for the rest if an expression ends it."""

    def __init__(self, command: Sequence[str], ads: Sequence[str]) -> None:
        self._command = [*command]
        self._ads = json.dumps(ads) + "\n"

    def answers(self, cases: Sequence[Case]) -> list[Answer]:
        """The answers to the cases, in order."""
        answers: list[Answer] = []
        while len(answers) < len(cases):
            rest = [json.dumps(case) + "\n" for case in cases[len(answers) :]]
            ended = subprocess.run(
                self._command,
                input=self._ads + "".join(rest),
                capture_output=True,
                env={
                    **os.environ,
                    "TZ": "Europe/Berlin",
                    "LC_ALL": "C.UTF-8",
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
                cwd=PROGRAM.parents[2] if "-" in self._command else "/",
                text=True,
                check=False,
            )
            assert ended.returncode <= 0, ended.stderr[-2000:]
            answers += map(json.loads, ended.stdout.splitlines())
            if ended.returncode:
                answers.append({"read": "died"})
        return answers


def sides(ads: Sequence[str], suite: str | None = None) -> tuple[Side, Side]:
    """Fetchwork's side, and the next HTCondor's."""
    theirs = [sys.executable, str(PROGRAM), str(library())] if suite is None else _of_root(suite)
    return Side([sys.executable, str(PROGRAM), "-"], ads), Side(theirs, ads)


def _of_root(suite: str) -> list[str]:
    root = installed_root(suite)
    return ["chroot", str(root), "python3", "-c", PROGRAM.read_text(), "/usr/lib/python3/dist-packages"]


def compare(cases: Sequence[Case], ours: Side, theirs: Side) -> tuple[list[Difference], Counter[str]]:
    """The differences of some cases, and how many were read and had a defined value."""
    with ThreadPoolExecutor() as both:
        first = [both.submit(side.answers, cases) for side in (ours, theirs)]
        mine, other = (each.result() for each in first)
        printed = [_printed(cases, answers) for answers in (other, mine)]
        again = [
            both.submit(side.answers, lines) for side, lines in zip((ours, theirs), printed, strict=True)
        ]
        received, sent = (each.result() for each in again)
        reread = theirs.answers(printed[0])
    found: list[Difference] = []
    counts: Counter[str] = Counter()
    for case, one, two, three, four, five in zip(cases, mine, other, received, sent, reread, strict=True):
        text = case["text"] if "text" in case else case["line"]
        counts["read"] += one["read"] is not None
        counts["defined"] += one.get("matched", "error") not in ("error", "undefined")
        # a line may be fetchwork's own eval("..."), which only fetchwork takes apart
        if case.get("decides"):
            if _decides(one) != _decides(two):
                found.append(Difference(text, "decision", one, two))
            continue
        shown = "text" in case and _printed_form(one) != _printed_form(two)
        if shown or _values(one) != _values(two):
            found.append(Difference(text, "both read the text", one, two))
        elif one["read"] is not None and _values(one) != _values(four):
            found.append(Difference(text, OURS, one, four))
        # a line break in a string ends the line
        elif "\n" not in two.get("line", "\n") and _values(three) != _values(five):
            found.append(Difference(text, "both read HTCondor's line", three, five))
    return found, counts


def _printed_form(answer: Answer) -> tuple[object, ...]:
    return (answer["read"] or "").lower(), answer.get("names")


def _decides(answer: Answer) -> bool:
    """Whether Requirements with this value let the ads match."""
    return answer["matched"] not in ("undefined", "error", "false", "0")


def _values(answer: Answer) -> tuple[object, ...]:
    # fetchwork writes these names in HTCondor's own case
    return answer["read"] == "died", *(
        re.sub(r"(?i)version(?:l[et]|g[et]|eq)\(", lambda found: found[0].lower(), answer.get(name, ""))
        for name in ("value", "matched")
    )


def _printed(cases: Sequence[Case], answers: Sequence[Answer]) -> list[Case]:
    """The same cases, as the line that one side has printed."""
    return [
        {"my": case["my"], "target": case["target"], "line": answer["line"]} if "line" in answer else case
        for case, answer in zip(cases, answers, strict=True)
    ]


def cause(difference: Difference) -> str | None:
    """The name of a difference's cause in ``KNOWN``; None if it has none."""
    for known in KNOWN:
        if known.explains(difference):
            return known.name
    return None


def generated(seed: int, count: int) -> tuple[list[str], list[Case]]:
    """Ads and expressions of a seed."""
    expressions = Expressions(seed)
    ads = [ad for _ in range(SCOPES) for ad in expressions.scope()]
    cases = []
    for number in range(count):
        my = 2 * (number % SCOPES)
        cases.append({"text": expressions.expression(), "my": my, "target": my + 1})
    return ads, cases


def of_data() -> tuple[list[str], list[Case]]:
    """All ads of tests/data: each attribute in its ad, and the Requirements of each job and slot."""
    jobs: list[str] = []
    slots: list[str] = []
    for path in [
        *sorted(DATA.glob("ads/*.ad")),
        *sorted(DATA.glob("jobs/*.ads")),
        *DATA.glob("jobs/*.history"),
    ]:
        for text in re.split(r"\n(?:\*\*\*[^\n]*)?\n*(?=\n|\Z)|\n\*\*\*[^\n]*", path.read_text()):
            lines = [line for line in text.splitlines() if re.match(r"\w+ *=", line)]
            if lines:
                slot = any(line.startswith("Machine ") or line.startswith("SlotID ") for line in lines)
                (slots if slot else jobs).append("\n".join(lines) + "\n")
    ads = [*jobs, *slots]
    cases: list[Case] = []
    for number, ad in enumerate(ads):
        is_job = number < len(jobs)
        for line in ad.splitlines():
            cases.append(
                {
                    "line": "probe = " + line.partition("=")[2].strip(),
                    "my": number,
                    "target": len(jobs) if is_job else 0,
                }
            )
    for my in range(len(ads)):
        others = range(len(jobs), len(ads)) if my < len(jobs) else range(len(jobs))
        cases += [{"text": "Requirements", "decides": True, "my": my, "target": other} for other in others]
    for pair in pairs():
        cases += [
            {"text": "Requirements", "decides": True, "my": len(ads) + mine, "target": len(ads) + 1 - mine}
            for mine in (0, 1)
        ]
        ads += [pair.job, pair.slot]
    return ads, cases


def batches(
    ads: Sequence[str], cases: Sequence[Case], suite: str | None
) -> Iterator[tuple[list[Difference], Counter[str]]]:
    """Compare the cases, some at a time."""
    both = sides(ads, suite)
    for first in range(0, len(cases), BATCH):
        yield compare(cases[first : first + BATCH], *both)


def main() -> int:
    """Compare, and print the counts; 1 if a difference has no known cause."""
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.classads")
    parser.add_argument("count", type=int, nargs="?", default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--suite", help="with the library in the pool root of this Debian suite")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    causes: Counter[str | None] = Counter()
    began = time.monotonic()
    for ads, cases in (of_data(), generated(arguments.seed, arguments.count)):
        for found, more in batches(ads, cases, arguments.suite):
            counts += more
            counts["compared"] += min(BATCH, len(cases))
            for difference in found:
                name = cause(difference)
                causes[name] += 1
                if name is None and causes[None] <= 50:
                    print(difference)
    for name, number in causes.items():
        print(f"{name or 'without a known cause'}: {number}")
    print(f"compared: {counts['compared']}, read: {counts['read']}, defined: {counts['defined']}")
    print(f"{time.monotonic() - began:.0f} s; unexplained: {causes[None]}")
    return 1 if causes[None] else 0


if __name__ == "__main__":
    sys.exit(main())
