"""``make evidence``: histories of many seeds, each judged by the checker; then each planted bug.

    make evidence                          ten minutes: new histories, then the planted bugs
    make evidence ARGS="--seeds 1-200"     these histories, then the planted bugs
    make evidence ARGS=--planted-only

Every third history is of a pool with real agents, the others of clients that follow an agent's rules. The
verdicts of all runs are kept in ``.evidence/verdicts.jsonl`` and added up; a history with an anomaly, or one
that could not be decided, is kept beside it. SIGTERM or Ctrl-C ends a run at once; the next one goes on.
"""

import argparse
import itertools
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tests.evidence.judging import KEPT, Task, Workers, seeds_for
from tests.evidence.planted import PLANTED
from tests.support.leftovers import MEMORY, VARIABLE, in_memory, watch_over_this_run

_VERDICTS = KEPT / "verdicts.jsonl"
#: within so many histories a planted bug must be found
MOST = 20


def _end_at_once(number: int, _: FrameType | None) -> NoReturn:
    """The watcher over this run kills and removes what is left."""
    os._exit(128 + number)


def main() -> int:
    """Play and judge; 1 if there was an anomaly, or a planted bug was not found."""
    arguments = _arguments()
    watch_over_this_run()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end_at_once)
    KEPT.mkdir(exist_ok=True)
    # a short name: sockets lie below it
    directory = MEMORY / f"{in_memory(os.environ[VARIABLE])}e"
    directory.mkdir(mode=0o755)
    workers = Workers(arguments.workers, directory, arguments.programs)
    found = bad = 0
    if not arguments.planted_only:
        bad = _histories(workers, arguments)
    if not arguments.histories_only:
        found = _planted(workers)
    workers.close()
    counts = Counter(_kept_verdicts().values())
    print(f"histories undecided: {counts['undecided']}")
    print(f"histories checked: {counts['ok'] + counts['anomalies']}")
    print(f"anomalies: {counts['anomalies']}")
    if not arguments.histories_only:
        print(f"planted bugs found: {found} of {len(PLANTED)}")
    return 1 if bad or (not arguments.histories_only and found < len(PLANTED)) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make evidence", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", metavar="FIRST-LAST", help="play these histories (default: new ones)")
    parser.add_argument(
        "--minutes", type=float, default=6.0, help="begin no history after so long (default: 6)"
    )
    parser.add_argument("--workers", type=int, default=3, help="histories at a time (default: 3)")
    parser.add_argument(
        "--programs",
        metavar="DIRECTORY",
        type=Path,
        help="of another PostgreSQL: postgres, initdb, pg_ctl, ...",
    )
    parser.add_argument("--planted-only", action="store_true", help="look for the planted bugs alone")
    parser.add_argument("--histories-only", action="store_true", help="leave out the planted bugs")
    return parser.parse_args()


def _histories(workers: Workers, arguments: argparse.Namespace) -> int:
    """Play histories until the time is over; the number of those with anomalies."""
    end = time.monotonic() + 60 * arguments.minutes
    bad = 0
    tasks = ((seed, None) for seed in _seeds(arguments.seeds))
    for (seed, _), problems in workers.judged(itertools.takewhile(lambda _: time.monotonic() < end, tasks)):
        verdict = "undecided" if problems is None else "anomalies" if problems else "ok"
        with _VERDICTS.open("a") as kept:
            kept.write(json.dumps({"seed": seed, "verdict": verdict}) + "\n")
        print(f"seed {seed}: {verdict}", file=sys.stderr, flush=True)
        if problems:
            bad += 1
            print(f"seed {seed}: {len(problems)} anomalies; the history is in {KEPT / f'history-{seed}'}")
            for line in problems[:5]:
                print("   ", line[:300], flush=True)
    return bad


def _seeds(asked: str | None) -> Iterator[int]:
    """The seeds that were asked for and have no verdict yet; without an end if none was asked for."""
    kept = _kept_verdicts()
    seeds: Iterable[int] = itertools.count(1)
    if asked:
        first, _, last = asked.partition("-")
        seeds = range(int(first), int(last or first) + 1)
    return (seed for seed in seeds if kept.get(seed, "undecided") == "undecided")


def _kept_verdicts() -> dict[int, str]:
    """By seed, the last verdict of all runs."""
    lines = _VERDICTS.read_text().splitlines() if _VERDICTS.exists() else []
    return {line["seed"]: line["verdict"] for line in map(json.loads, lines)}


def _planted(workers: Workers) -> int:
    """Look for each planted bug in one history after the other, until one shows it."""
    found: dict[int, int] = {}

    def tasks() -> Iterator[Task]:
        seeds = [seeds_for(planted) for planted in PLANTED]
        for _ in range(MOST):
            for number in range(len(PLANTED)):
                if number not in found:
                    yield next(seeds[number]), number

    for (seed, number), problems in workers.judged(tasks()):
        assert number is not None
        if problems and number not in found:
            found[number] = seed
            print(
                f"planted: {PLANTED[number].name}: found in history {seed}: {problems[0][:160]}", flush=True
            )
    for number, planted in enumerate(PLANTED):
        if number not in found:
            print(f"planted: {planted.name}: not found in {MOST} histories")
    return len(found)


if __name__ == "__main__":
    sys.exit(main())
