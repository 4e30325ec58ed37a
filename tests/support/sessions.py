"""The session behind a queue, for tests that look at the database over the queue's own connection."""

from fetchwork.queue import Queue
from fetchwork.queue.session import Session


def session_of(queue: Queue) -> Session:
    assert isinstance(queue._session, Session), "the queue has to have a connection string"
    return queue._session
