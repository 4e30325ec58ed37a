"""The queue through this host's access point: the operations of a ``Session``, performed by it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from fetchwork.client.link import CHANGES, SILENCE_S, Link, acting_owner, names_database, socket_path
from fetchwork.errors import ConfigError
from fetchwork.ipc.frames import Json

if TYPE_CHECKING:
    from fetchwork.queue.everywhere import Everywhere
    from fetchwork.queue.reading.selecting import JobSpec
    from fetchwork.queue.session import Session
    from fetchwork.queue.submitting.contents import Progress
    from fetchwork.queue.submitting.submission import Description, SubmitResult

#: the attribute of a schedd's location ad that names its database
CONNINFO = "FetchWorkConninfo"
#: seconds that a submission may take: its description may run programs
SUBMIT_S = 900.0
#: seconds that the delivery of outputs may be silent
RETRIEVE_S = 3600.0
#: clusters in one question about ended jobs
AT_ONCE = 100


class RemoteSession:
    """A connection to an access point; ``owner`` is the account that root acts for."""

    def __init__(self, path: str, owner: str | None = None) -> None:
        self.path = path
        self._owner = owner or acting_owner()
        self._link = Link(path)
        #: as ``Session.looked``
        self.looked: Callable[[int], None] | None = None

    def __enter__(self) -> RemoteSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a later call makes a new one."""
        self._link.close()

    def perform(self, name: str, /, **arguments: object) -> Any:
        """The result of an operation (``operations.STEPS``)."""
        return self._link.ask(name, again=name not in CHANGES, **{**self._who(), **arguments})

    def found(self, name: str, /, **arguments: object) -> Iterator[Sequence[Any]]:
        """The items of an operation (``operations.STREAMS``), in pages."""
        # the access point sends nothing until there is an event
        silence_s = None if name == "events" else SILENCE_S
        # on a separate connection, so that other calls may run
        with Link(self.path) as link:
            yield from link.pages(
                name, silence_s=silence_s, looked=self.looked, **{**self._who(), **arguments}
            )

    def items(self, name: str, /, **arguments: object) -> Iterator[Any]:
        """As ``found``, item by item."""
        for page in self.found(name, **arguments):
            yield from page

    def submit(
        self,
        description: Description,
        *,
        count: int = 0,
        itemdata: Iterable[str | Mapping[str, str]] | None = None,
        owner: str | None = None,
        extra: Mapping[str, object] | None = None,
        queue: str | None = None,
        progress: Progress | None = None,
        key: str | None = None,
    ) -> SubmitResult:
        """Put jobs into the queue as ``submission.put`` does; ``progress`` reports that of the access point.

        Paths and programs of the description are taken with this process's account, directory and
        environment. ``key`` names the submission: a repeated key submits nothing, and returns the first
        result.
        """
        from fetchwork.queue.submitting.submission import SubmitResult, sendable

        what = sendable(description, count, itemdata, queue)
        answer = self._send(what, owner, extra, moved=progress, key=key or os.urandom(16).hex())
        result = SubmitResult(answer["cluster"], answer["count"], answer["common"])
        result.problems = answer["problems"]
        result.late = answer.get("late", False)
        return result

    def retrieve(self, jobs: Sequence[str] | None = None, *, progress: Progress | None = None) -> list[Json]:
        """Have the access point deliver outputs of jobs, or of all, to their destinations, as their owner."""
        answer: list[Json] = self._link.ask(
            "retrieve",
            again=True,
            silence_s=RETRIEVE_S,
            moved=progress,
            **self._who(),
            jobs=None if jobs is None else list(jobs),
        )
        return answer

    def submit_text(self, text: str, *, key: str | None = None) -> Json:
        """Submit a description's text; returns only cluster and count."""
        what = {"description": text, "count": 0, "itemdata": None, "queue": None}
        answer: Json = self._send(what, None, None, key=key or os.urandom(16).hex())
        return answer

    def check(
        self,
        description: Description,
        *,
        owner: str | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Raise the errors that ``submit`` would raise, and put nothing into the queue."""
        from fetchwork.queue.submitting.submission import sendable

        self._send(sendable(description), owner, extra, key=os.urandom(16).hex(), dry_run=True)

    def _send(
        self,
        what: Json,
        owner: str | None,
        extra: Mapping[str, object] | None,
        *,
        moved: Progress | None = None,
        **how: object,
    ) -> Any:
        mask = os.umask(0o077)
        os.umask(mask)
        # root is no valid Owner
        owner = self._owner or owner
        arguments: Json = {
            **({"as": owner} if owner else {}),
            **what,
            "cwd": os.getcwd(),  # noqa: PTH109 - the shell's working directory
            "env": dict(os.environ),
            "umask": mask,
            "extra": dict(extra or {}),
            **how,
        }
        return self._link.ask("submit", again=True, silence_s=SUBMIT_S, moved=moved, **arguments)

    def _who(self) -> Json:
        return {"as": self._owner} if self._owner else {}


AnySession: TypeAlias = "Session | RemoteSession | Everywhere"


def opened(
    conninfo: str | None,
    owner: str | None = None,
    *,
    name: str | None = None,
    everywhere: bool = False,
    reading: bool = False,
) -> AnySession:
    """A session with the queue: over the given connection string, else through this host's access point.

    ``name`` is one of the databases that this machine knows (``databases``); ``everywhere`` means all of
    them. If none is named and there is no access point, the first of them is used, or without any of them
    libpq's own environment. ``reading``: nothing will be changed, so a replica will do. ``owner``: the
    account that root acts for at the access point.
    """
    path = socket_path() if conninfo is None and name is None and not everywhere else None
    if path is not None:
        return RemoteSession(path, owner)
    # this imports the library for PostgreSQL, which a client of the access point does not need
    from fetchwork.queue import databases

    if everywhere:
        from fetchwork.queue.everywhere import Everywhere

        known = databases.known()
        if not known:
            raise ConfigError(
                [f"no databases are named; {databases.VARIABLE} or {databases.FILE} lists them"]
            )
        return Everywhere(known)
    return direct(conninfo, name=name, reading=reading)


def direct(conninfo: str | None, *, name: str | None = None, reading: bool = False) -> Session:
    """As ``opened``, but never through an access point."""
    from fetchwork.queue import databases
    from fetchwork.queue.session import Session

    one = databases.named(name) if name is not None else None
    if one is None and conninfo is None and not names_database():
        one = next(iter(databases.known()), None)
    if one is None:
        return Session(conninfo)
    return Session(one.for_reading() if reading else one.conninfo)


def ended_too(session: AnySession, spec: JobSpec | None) -> list[str] | None:
    """The ids of the jobs that a spec selects, in the queue and in history; None for None, which means all.

    A constraint might select all of history, so it is applied only to clusters with undelivered outputs.
    Raises ValueError for an empty constraint.
    """
    from fetchwork.queue.reading.selecting import as_ids, constraint_of, ids_of

    if spec is None:
        return None
    ids = ids_of(spec)
    if ids is not None:
        return as_ids(ids)
    constraint = constraint_of(spec)
    # even without any such cluster an invalid constraint must raise its error
    clusters: list[int] = session.perform("output_clusters") or [0]
    found: list[str] = []
    for begin in range(0, len(clusters), AT_ONCE):
        some = " || ".join(f"ClusterId == {cluster}" for cluster in clusters[begin : begin + AT_ONCE])
        chosen = {"constraint": f"({constraint}) && ({some})", "projection": ["ClusterId", "ProcId"]}
        ads = [
            *session.items("jobs", **chosen),
            *session.items("view", name="history", limit=-1, since=None, **chosen),
        ]
        found += [f"{ad['ClusterId']}.{ad['ProcId']}" for ad in ads]
    return found
