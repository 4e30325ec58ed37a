"""The queue for Python programs.

``Queue`` follows ``htcondor2.Schedd`` in names and meaning, ``AsyncQueue`` is the same awaited::

    import fetchwork

    queue = fetchwork.Queue("service=pool")
    description = fetchwork.Submit("executable = /bin/sleep\\narguments = 60\\nqueue 3")
    result = queue.submit(description, owner="alice")
    queue.query(f"ClusterId == {result.cluster()}", projection=["ProcId", "JobStatus"])

Both keep one connection (the asynchronous one two), made when first needed. Every method raises the
exceptions of ``fetchwork.errors``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fetchwork.queue.asynchronous import AsyncQueue as AsyncQueue
    from fetchwork.queue.synchronous import Queue as Queue

__all__ = ["AsyncQueue", "Queue"]


def __getattr__(name: str) -> type[AsyncQueue] | type[Queue]:
    # imported on use: a command needs at most one of them, and none if it asks an access point
    if name == "AsyncQueue":
        from fetchwork.queue.asynchronous import AsyncQueue

        return AsyncQueue
    if name == "Queue":
        from fetchwork.queue.synchronous import Queue

        return Queue
    raise AttributeError(f"module 'fetchwork.queue' has no attribute {name!r}")
