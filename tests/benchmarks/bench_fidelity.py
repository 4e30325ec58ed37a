"""The same script of many steps to a schedd and to the queue: the number of identical answers.

    make bench-fidelity
    python tests/benchmarks/bench_fidelity.py --all

One pool of the newest HTCondor has a schedd, and an access point of the queue. The script
(tests/condor/fidelity_steps.py) asks both through the bindings and the commands of this HTCondor: names,
submit, query, act, edit, history, event log. The answers are compared without what must differ, by the tables
of tests/condor/fidelity.py. Different answers are counted by kind and reason; --all prints each.

The last line is the number of identical answers (goal: three quarters and more).
"""

import argparse
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fetchwork.pool import PersonalPool
from tests.condor.fidelity import Alices, Compared, compared, reason
from tests.dag.conftest import CONFIG
from tests.dag.sides import Point, Queue
from tests.dag.suites import NEWEST


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="print each different answer")
    parser.add_argument("--share", type=int, default=1, help="one step of so many")
    asked = parser.parse_args()
    config = re.sub(r"(?m)^START = .*$", "START = true", CONFIG)
    with tempfile.TemporaryDirectory(prefix="fetchwork-bench-") as temporary:
        os.chmod(temporary, 0o755)
        host = {"slots": {"fetched_only": False}}
        pool = PersonalPool(Path(temporary) / "pool", suite=NEWEST, slots=4, config=config, host=host)
        with pool:
            point = Point(pool).start()
            steps = compared(Queue(pool, point), Alices(pool), asked.share)
            point.stop()
    show(steps, every=asked.all)


def show(steps: Sequence[Compared], *, every: bool) -> None:
    """Print the number of identical answers, and the reasons of the others; with ``every`` each of these."""
    kinds = Counter(step.kind for step in steps)
    same = Counter(step.kind for step in steps if step.identical)
    reasons: Counter[tuple[str, str]] = Counter()
    for step in steps:
        if step.identical:
            continue
        reasons[step.kind, reason(step)] += 1
        if every:
            print(f"{step.kind}: {step.step}")
            print(f"    schedd: {json.dumps(step.theirs)[:400]}")
            print(f"    queue:  {json.dumps(step.ours)[:400]}")
    for kind, number in kinds.items():
        print(f"{kind}: {same[kind]} of {number}")
        for (of, why), times in reasons.items():
            if of == kind:
                print(f"    {times}: {why}")
    print(f"identical steps: {sum(same.values())} of {len(steps)}")


if __name__ == "__main__":
    main()
