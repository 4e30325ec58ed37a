"""What a running job writes, as it comes: its host ships it to the database while somebody asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fetchwork.errors import NotFound
from fetchwork.queue.remote import AnySession

#: seconds between two questions
PAUSE_S = 1.0


@dataclass(frozen=True)
class Piece:
    """Something that a job wrote, or with neither stream what becomes of it."""

    #: 1: stdout, 2: stderr, 0: the text is about the job
    stream: int
    text: str
    #: bytes before it that were left out: the beginning, or what came faster than it is shipped
    skipped: int = 0


def follow_output(
    session: AnySession, cluster: int, proc: int, *, pause: Callable[[float], None] = time.sleep
) -> Iterator[Piece]:
    """Yield what a job writes until it has left the queue; one that does not run yet is waited for.

    Raises NotFound for a job that is not in the queue. A run that ends otherwise is followed by the next.
    """
    run: int | None = None
    over: int | None = None
    at: dict[str, int | None] = {}
    told = ""
    while True:
        try:
            answer = session.perform("live_output", cluster=cluster, proc=proc, run_id=run, **at)
        except NotFound:
            if run is None and over is None and not told:
                raise
            return
        if answer is None or answer["run"] == over:
            # its last run is over, or it has none yet
            run, at = None, {}
            if told != "waits" and answer is None:
                told = "waits"
                yield Piece(0, f"job {cluster}.{proc} does not run now; its output follows when it does")
            pause(PAUSE_S)
            continue
        run, at = answer["run"], {name: answer[name] for name in ("stdout_at", "stderr_at")}
        for stream, skipped, text in answer["pieces"]:
            yield Piece(stream, text, skipped)
        if answer["running"]:
            if told != "runs":
                told = "runs"
            if not answer["pieces"]:
                pause(PAUSE_S)
        elif not answer["pieces"]:
            if answer["problem"]:
                yield Piece(0, f"job {cluster}.{proc} can't be followed: {answer['problem']}")
            over, run, at = run, None, {}
