"""Benchmarks of an older commit and of this checkout in turn (``make bench-compare OLD=commit WHICH=cycle``).

A machine's speed changes from minute to minute, so runs of both sides alternate. A benchmark in quotes may
have arguments, such as smaller sizes: ``WHICH="'cycle --jobs 600 --without-peers' match"``. The last lines
of a run are its figures, ``name: figure``. The medians, their ratio (new to old), and the spread of each
side are printed: half the distance of its extremes, in percent of the median. A round begins only if it can
end in time.
"""

import argparse
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
SIDES = ("old", "new")
_FIGURE = re.compile(r"(?P<name>.+): (?P<figure>-?[0-9][0-9,]*(?:\.[0-9]+)?)\b.*")


@dataclass
class Figures:
    """The figures of one benchmark."""

    name: str
    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)

    def line(self) -> str:
        """The figures' row of the table."""
        old, new = statistics.median(self.old), statistics.median(self.new)
        ratio = f"{new / old:.3f}" if old else "-"
        cells = (f"{old:g}", f"{new:g}", ratio, _spread(self.old), _spread(self.new), str(len(self.new)))
        return f"{self.name:<40}" + "".join(f"{cell:>12}" for cell in cells)


def _spread(figures: Sequence[float]) -> str:
    median = statistics.median(figures)
    return f"{50 * (max(figures) - min(figures)) / abs(median):.1f} %" if median else "-"


def figures_of(output: str) -> dict[str, float]:
    """The figures in a benchmark's last lines, by name; raises ValueError if the last line has no figure."""
    figures: dict[str, float] = {}
    lines = output.strip().splitlines()
    for line in reversed(lines):
        found = _FIGURE.fullmatch(line)
        if found is None:
            break
        figures[found["name"]] = float(found["figure"].replace(",", ""))
    if not figures:
        raise ValueError(f"the last line is '{lines[-1][:100] if lines else ''}', not 'name: figure'")
    return dict(reversed(figures.items()))


def compare(
    which: Sequence[str],
    run: Callable[[str, str], str],
    *,
    rounds: int,
    seconds: float,
    now: Callable[[], float] = time.monotonic,
) -> list[Figures]:
    """Run each benchmark on both sides in turn, ``rounds`` times or for about ``seconds``, at least once."""
    figures: dict[str, Figures] = {}
    began = now()
    longest = 0.0
    for number in range(rounds):
        round_began = now()
        if number and round_began - began + longest > seconds:
            break
        for benchmark in which:
            # neither side is always the first
            for side in SIDES if number % 2 == 0 else reversed(SIDES):
                for name, figure in figures_of(run(side, benchmark)).items():
                    getattr(figures.setdefault(name, Figures(name)), side).append(figure)
        longest = max(longest, now() - round_began)
    # a figure of one side alone cannot be compared
    return [one for one in figures.values() if one.old and one.new]


def main() -> None:
    """Check out the older commit, with its own dependencies, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", help="a commit")
    parser.add_argument(
        "which", nargs="+", help="benchmarks, as after 'make bench-', each with its arguments"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=45.0)
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fetchwork-compare-") as directory:
        checkout = Path(directory) / "old"
        subprocess.run(["git", "clone", "--quiet", "--no-checkout", ROOT, checkout], check=True)
        subprocess.run(["git", "-C", checkout, "checkout", "--quiet", options.old], check=True)
        subprocess.run(["make", "-s", "-C", checkout, ".venv/.installed"], check=True)

        def run(side: str, benchmark: str) -> str:
            where = checkout if side == "old" else ROOT
            name, _, arguments = benchmark.partition(" ")
            # else make passes on this command's own ARGS
            command = ["make", "-s", "-C", str(where), f"bench-{name}", f"ARGS={arguments}"]
            ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            print(f"{side} {ended.stdout.strip().rpartition(chr(10))[2]}", flush=True)
            return ended.stdout

        left_s = 60 * options.minutes - (time.monotonic() - began)
        figures = compare(options.which, run, rounds=options.rounds, seconds=left_s)
    print(f"\n{'benchmark':<40}" + "".join(f"{cell:>12}" for cell in (*SIDES, "ratio", *SIDES, "runs")))
    print("\n".join(one.line() for one in figures))


if __name__ == "__main__":
    main()
