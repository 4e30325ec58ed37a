"""The state file of the event logs: the position up to which each is written."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fetchwork.accesspoint.joblogs import Log
from fetchwork.errors import FetchworkError
from fetchwork.queue.events.jobevents import Cursor


@dataclass(frozen=True, slots=True)
class Kept:
    """The cursor up to which every event is in its log; logs that are behind have cursors of their own."""

    cursor: Cursor
    behind: Mapping[Log, Cursor]
    #: whether logs that are not behind have no entries of later events
    exact: bool = False


class StateFile:
    """Stores one ``Kept`` in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        #: the flag ``exact`` in the file
        self._exact = False

    def load(self) -> Kept | None:
        """Return the state saved last; None without a file. Raises FetchworkError."""
        try:
            state = json.loads(self._path.read_text())
            # first, because its form says whether an earlier fetchwork wrote the file
            cursor = Cursor.parse(str(state["cursor"]))
            behind = {Log(owner, path, xml): Cursor.parse(at) for owner, path, xml, at in state["behind"]}
            self._exact = state["exact"] is True
            return Kept(cursor, behind, self._exact)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FetchworkError(f"cannot read state file '{self._path}': {error}") from None

    def save(self, kept: Kept) -> None:
        """Save the state; a crash leaves the new state or the old one."""
        behind = [[log.owner, log.path, log.xml, str(cursor)] for log, cursor in kept.behind.items()]
        text = json.dumps(
            {
                "cursor": str(kept.cursor),
                "behind": behind,
                "exact": kept.exact,
                "saved_at": int(time.time()),
            }
        )
        temporary = self._path.with_name(self._path.name + ".new")
        with temporary.open("w") as file:
            file.write(text)
            file.flush()
            # or a power failure may leave an empty file under its name
            os.fsync(file.fileno())
        temporary.replace(self._path)
        if self._exact:
            # nor may it restore the flag after further entries
            directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        self._exact = kept.exact
