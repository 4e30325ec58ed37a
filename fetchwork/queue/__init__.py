"""The queue for Python programs: ``Queue`` follows ``htcondor2.Schedd`` in names and meaning, ``AsyncQueue``
is the same awaited.

    >>> import fetchwork >>> queue = fetchwork.Queue("service=pool") >>> result =
    queue.submit(fetchwork.Submit("executable = /bin/sleep\\narguments = 60\\nqueue 3"), owner="alice") >>>
    queue.query(f"ClusterId == {result.cluster()}", projection=["ProcId", "JobStatus"])

Both keep one connection (the asynchronous one two), made when first needed. Every method raises the
exceptions of ``fetchwork.errors``.
"""

from __future__ import annotations

from fetchwork.queue.asynchronous import AsyncQueue
from fetchwork.queue.synchronous import Queue

__all__ = ["AsyncQueue", "Queue"]
