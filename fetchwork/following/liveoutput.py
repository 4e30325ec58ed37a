"""The output of a running job, as it comes: its host sends it to the database while a client asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fetchwork.errors import NotFound
from fetchwork.queue.remote import AnySession

#: seconds between two requests
PAUSE_S = 1.0


@dataclass(frozen=True)
class Piece:
    """A piece of a job's output, or a line about the job itself."""

    #: 1: stdout, 2: stderr, 0: the text is about the job
    stream: int
    text: str
    #: bytes left out before it: the beginning, or output that came faster than the host sends it
    skipped: int = 0


def follow_output(
    session: AnySession, cluster: int, proc: int, *, pause: Callable[[float], None] = time.sleep
) -> Iterator[Piece]:
    """Yield a job's output until the job has left the queue; wait for a job that does not run yet.

    After a run that ends otherwise, follow the next one. Raises NotFound for a job that is not in the queue.
    """
    run: int | None = None
    over: int | None = None
    at: dict[str, int | None] = {}
    reported = ""
    while True:
        try:
            answer = session.perform("live_output", cluster=cluster, proc=proc, run_id=run, **at)
        except NotFound:
            if run is None and over is None and not reported:
                raise
            return
        if answer is None or answer["run"] == over:
            # the job's last run is over, or its first has not begun
            run, at = None, {}
            if reported != "waits" and answer is None:
                reported = "waits"
                yield Piece(0, f"job {cluster}.{proc} does not run now; its output follows when it does")
            pause(PAUSE_S)
            continue
        run, at = answer["run"], {name: answer[name] for name in ("stdout_at", "stderr_at")}
        for stream, skipped, text in answer["pieces"]:
            yield Piece(stream, text, skipped)
        if answer["running"]:
            if reported != "runs":
                reported = "runs"
            if not answer["pieces"]:
                pause(PAUSE_S)
        elif not answer["pieces"]:
            if answer["problem"]:
                yield Piece(0, f"job {cluster}.{proc} can't be followed: {answer['problem']}")
            over, run, at = run, None, {}
