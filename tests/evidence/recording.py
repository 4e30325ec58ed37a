"""Writes the calls of an agent's process into a history: ``record`` is put before the agent's program.

It wraps the one place where a call meets a connection, so a call that the agent repeats by itself is two
calls of the history, as it is for the database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from fetchwork.db.calls.call import Call, Row
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import DatabaseUnavailable, FetchworkError
from tests.evidence.history import Outcome, Recorder, hashed, next_answer

#: a call of the history: its function and arguments, and its result from PostgreSQL's rows
_Shown = tuple[str, dict[str, Any], Callable[[list[Row]], Any]]
#: calls that end a run without an end of its job
GIVE_UPS = ("reject", "withdraw", "refuse_start", "starter_gone")

_current: ContextVar[Call[Any] | None] = ContextVar("current", default=None)


def prelude(path: Path, host: str) -> str:
    """The program text that makes an agent record its calls."""
    root = str(Path(__file__).parents[2])
    return (
        f"import sys; sys.path.insert(0, {root!r})\n"
        "from pathlib import Path\n"
        "from tests.evidence.recording import record\n"
        f"record(Path({str(path)!r}), {host!r})\n"
    )


def record(path: Path, host: str) -> None:
    """Record all calls of this process from now on, as those of ``host``."""
    recorder = Recorder(path)
    run, attempt = AsyncDatabase.run, AsyncDatabase._run

    async def recorded_run(self: AsyncDatabase, call: Call[Any], **options: Any) -> Any:
        token = _current.set(call)
        try:
            return await run(self, call, **options)
        finally:
            _current.reset(token)

    async def recorded_attempt(self: AsyncDatabase, *arguments: Any) -> list[Row]:
        call = _current.get()
        shown = [] if call is None else _shown(call, host)
        numbers = [recorder.invoke(host, function, **given) for function, given, _ in shown]

        def answer(outcome: Outcome, result: Any = None) -> None:
            for number in numbers:
                recorder.answer(number, outcome, result)

        try:
            rows = await attempt(self, *arguments)
        except DatabaseUnavailable:
            answer(Outcome.UNKNOWN)
            raise
        except FetchworkError as error:
            answer(Outcome.FAIL, type(error).__name__)
            raise
        except BaseException:
            answer(Outcome.UNKNOWN)
            raise
        for number, (_, _, result) in zip(numbers, shown, strict=True):
            value = result(rows)
            recorder.answer(number, Outcome.FAIL if value is LEFT_UNDONE else Outcome.OK, value)
        return rows

    for name, recorded in {"run": recorded_run, "_run": recorded_attempt}.items():
        setattr(AsyncDatabase, name, recorded)


#: the result of a report that the database left to a call of its own
LEFT_UNDONE = "left undone"


def _shown(call: Call[Any], host: str) -> list[_Shown]:
    """The calls of the history that this call is."""
    given = call.arguments

    def value(rows: list[Row]) -> Any:
        return call.read(rows)

    match call.function:
        case "hello":
            return [("hello", {"host": host}, lambda rows: None)]
        case "goodbye":
            return [("goodbye", {"host": host}, lambda rows: None)]
        case "beat":
            return [
                (
                    "beat",
                    {"host": host, "alive": given["alive"]},
                    lambda rows: [[row["run_id"], row["action"]] for row in rows],
                )
            ]
        case "claim_many":
            slots = [slot["slot"] for slot in given["slots"].obj]  # type: ignore[attr-defined]
            return [
                (
                    "claim",
                    {
                        "host": host,
                        "offer_s": given["offer_s"],
                        "lease_s": given["lease_s"],
                        "free": [slot["slot"] for slot in given["slots"].obj if slot["exclusive"]],  # type: ignore[attr-defined]
                    },
                    lambda rows: [_claimed(row, slots) for row in rows if row["problem"] is None],
                )
            ]
        case "next_runs":
            slots = given["slots"].obj  # type: ignore[attr-defined]
            return [_next(given, number, slot, host) for number, slot in enumerate(slots, 1)]
        case "accept" | "finish" | "start":
            about = {"starter": given.get("starter"), "reason": given.get("hook_reason")}
            about = {name: value for name, value in about.items() if value is not None}
            return [(call.function, {"run": given["run_id"], **about}, value)]
        case "heartbeat":
            return [("heartbeat", {"run": given["run_id"]}, lambda rows: rows[0]["action"])]
        case "host_runs":
            return [
                (
                    "host_runs",
                    {"host": host},
                    lambda rows: [
                        {"run": row["run_id"], "job": f"{row['cluster_id']}.{row['proc_id']}"} for row in rows
                    ],
                )
            ]
        case "slot_is_free":
            return [("slot_is_free", {"host": host, "slot": given["slot"]}, value)]
        case "report_runs":
            return _reports(given)
        case name if name in GIVE_UPS:
            return [("give_up", {"run": given["run_id"]}, value)]
    return []


def _claimed(row: Row, slots: list[str]) -> dict[str, Any]:
    return {
        "run": row["run_id"],
        "job": f"{row['cluster_id']}.{row['proc_id']}",
        "slot": slots[row["slot_number"] - 1],
        "token": hashed(row["token"]),
    }


def _next(given: Mapping[str, Any], number: int, slot: dict[str, Any], host: str) -> _Shown:
    """The part of one slot in a ``next_runs``, as a call of its own."""
    arguments = {
        "host": host,
        "slot": slot["slot"],
        "starter": slot["starter"],
        "lease_s": given["lease_s"],
        "same": slot["same"],
    }
    if slot["end"] is not None:
        arguments["run"] = given["end_ids"][slot["end"] - 1]

    def answer(rows: list[Row]) -> Any:
        (row,) = (row for row in rows if row["slot_number"] == number)
        return next_answer(row, given["compared"])

    return "next", arguments, answer


def _reports(given: Mapping[str, Any]) -> list[_Shown]:
    """The reports of one ``report_runs``, each as a call of its own."""

    def done(column: str, number: int, result: Any) -> Callable[[list[Row]], Any]:
        return lambda rows: result if number in (rows[0][column] or ()) else LEFT_UNDONE

    return [
        *(
            ("accept", {"run": run}, done("accepted", n, True))
            for n, run in enumerate(given["accept_ids"], 1)
        ),
        *(
            ("start", {"run": run, "starter": starter}, done("started", n, None))
            for n, (run, starter) in enumerate(zip(given["start_ids"], given["starters"], strict=True), 1)
        ),
        *(
            ("heartbeat", {"run": run}, done("renewed", n, None))
            for n, run in enumerate(given["update_ids"], 1)
        ),
        *(
            ("finish", {"run": run, "reason": "exit"}, done("finished", n, "completed"))
            for n, run in enumerate(given["exit_ids"], 1)
        ),
    ]
