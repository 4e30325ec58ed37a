"""Pages of the stream of events, as readers ask for them."""

from tests.support.direct_queue import DirectQueue


def window(queue: DirectQueue, cursor: tuple[int, int]) -> tuple[list[int], tuple[int, int]]:
    """The events behind a cursor as a reader asks for them, and its next cursor."""
    queue.call("sequence_events")
    return page(queue, cursor, 1000)[:2]


def page(queue: DirectQueue, cursor: tuple[int, int], most: int) -> tuple[list[int], tuple[int, int], bool]:
    """This many events of the stream behind a cursor, the next cursor, and whether there are more."""
    ((*until, more),) = queue.rows(
        "SELECT until_batch, until_id, more FROM fetchwork.event_window(%s, %s, %s)", *cursor, most
    )
    ids = queue.rows(
        "SELECT EventId FROM fetchwork.events"
        " WHERE (batch, EventId) > (%s, %s) AND (batch, EventId) <= (%s, %s) ORDER BY batch, EventId",
        *cursor,
        *until,
    )
    return [event for (event,) in ids], (until[0], until[1]), more
