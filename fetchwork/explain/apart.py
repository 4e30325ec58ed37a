"""Judges a job against the known slots in a separate process, which may be killed without harm."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable

from fetchwork.db.calls.call import JsonObject, Row
from fetchwork.errors import ClassAdError, FetchworkError
from fetchwork.explain.judging import Clause, Judged, Refusal
from fetchwork.matchmaker.bounds import ITEM_CPU_S


class TooCostly(FetchworkError):
    """Judging took too much CPU time or memory."""


def judge_apart(ad: JsonObject, owner: str, queue: str, slots: Iterable[Row]) -> Judged:
    """Judge a job by each of the slots, with the ads that the database has.

    Raises ClassAdError if the job's ad can't be read, TooCostly if its evaluation had to be ended.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "fetchwork.explain.judging"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        text=True,
    )
    with process:
        assert process.stdin and process.stdout
        # a process that was killed shows this by its exit status
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps({"ad": ad, "owner": owner, "queue": queue}), file=process.stdin)
            for slot in slots:
                print(json.dumps(slot), file=process.stdin)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        text = process.stdout.read()
    if process.returncode != 0:
        raise TooCostly(f"it takes more than {ITEM_CPU_S} s of CPU on one slot, or too much memory")
    answer = json.loads(text)
    if "problem" in answer:
        raise ClassAdError(answer["problem"])
    return Judged(
        answer["slots"],
        answer["verdicts"],
        [Clause(**clause) for clause in answer["clauses"]],
        answer["resources"],
        [Refusal(**refusal) for refusal in answer["refusals"]],
    )
