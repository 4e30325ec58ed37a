"""A history: the calls of clients and their answers, and the real executions of jobs, as JSON lines.

HISTORY.md documents the format. A writer knows the clients' side alone; the checker reads nothing else.
"""

import enum
import hashlib
import itertools
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: the return time of a call that was never answered
NEVER = float("inf")


class Outcome(enum.StrEnum):
    """A client's knowledge about its call."""

    OK = "ok"
    #: refused: the call had no effect
    FAIL = "fail"
    #: no answer: the call had its effect, or had none, or will have it
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Call:
    """One call. Times are seconds of the machine's monotonic clock."""

    client: str
    function: str
    arguments: dict[str, Any]
    invoked: float
    returned: float = NEVER
    outcome: Outcome = Outcome.UNKNOWN
    #: the answer, or the name of the error
    result: Any = None


@dataclass(slots=True)
class Execution:
    """The time in which the process of a run existed."""

    client: str
    job: str
    run: int
    began: float
    ended: float = NEVER


@dataclass(slots=True)
class History:
    """Calls in the order of their invocation, executions, and the parameters of the workload."""

    parameters: dict[str, Any] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    executions: list[Execution] = field(default_factory=list)


def hashed(token: object) -> str:
    """A token as it stands in a history, where it authorizes nothing."""
    return hashlib.sha256(str(token).encode()).hexdigest()[:16]


def next_answer(row: Mapping[str, Any], compared: Sequence[str]) -> dict[str, Any]:
    """The answer of ``next_runs`` to a slot, by its row, as it stands in a history."""
    answer = {"ended": row["ended"]}
    if row["run_id"] is not None:
        answer |= {
            "run": row["run_id"],
            "job": f"{row['cluster_id']}.{row['proc_id']}",
            "token": hashed(row["token"]),
            "same": {name.lower(): value for name, value in row["ad"].items() if name.lower() in compared},
        }
    return answer


class Recorder:
    """Appends to a history's file; each line is written before the recorder returns.

    ``parameters`` are those of the whole history; one of its recorders writes them.
    """

    def __init__(self, path: Path, **parameters: Any) -> None:
        self._file = path.open("a", buffering=1)
        self._numbers = itertools.count()
        if parameters:
            self._write({"type": "history", "version": 1, "at": time.monotonic(), **parameters})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def invoke(self, client: str, function: str, **arguments: Any) -> str:
        """Note the beginning of a call; return its name."""
        number = f"{os.getpid()}-{next(self._numbers)}"
        self._write(
            {
                "type": "invoke",
                "call": number,
                "client": client,
                "function": function,
                "arguments": arguments,
                "at": time.monotonic(),
            }
        )
        return number

    def answer(self, number: str, outcome: Outcome, result: Any = None) -> None:
        """Note the end of a call."""
        self._write({"type": outcome, "call": number, "result": result, "at": time.monotonic()})

    def executed(self, client: str, job: str, run: int, began: float, ended: float | None) -> None:
        """Note that the process of a run existed in this time; without ``ended`` it still exists."""
        self._write(
            {"type": "executed", "client": client, "job": job, "run": run, "at": began, "ended": ended}
        )

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")


def read(*paths: Path) -> History:
    """The history in the files of its recorders; the last line of a killed process may be incomplete."""
    history = History()
    calls: dict[str, Call] = {}
    for entry in sorted(itertools.chain.from_iterable(map(_entries, paths)), key=lambda entry: entry["at"]):
        match entry.pop("type"):
            case "history":
                history.parameters = entry
            case "invoke":
                call = Call(entry["client"], entry["function"], entry["arguments"], entry["at"])
                calls[entry["call"]] = call
                history.calls.append(call)
            case "executed":
                ended = NEVER if entry["ended"] is None else entry["ended"]
                history.executions.append(
                    Execution(entry["client"], entry["job"], entry["run"], entry["at"], ended)
                )
            case outcome:
                call = calls[entry["call"]]
                call.outcome, call.result = Outcome(outcome), entry["result"]
                if call.outcome != Outcome.UNKNOWN:
                    call.returned = entry["at"]
    return history


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)
