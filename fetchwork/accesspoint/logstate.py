"""The state file of the event logs: up to where each is written."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fetchwork.accesspoint.joblogs import Log
from fetchwork.errors import FetchworkError
from fetchwork.queue.events import Cursor


@dataclass(frozen=True, slots=True)
class Kept:
    """The cursor behind which every event is in its log, but for logs that are behind, with their own."""

    cursor: Cursor
    behind: Mapping[Log, Cursor]


class StateFile:
    """Keeps one ``Kept`` over the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Kept | None:
        """What was saved last; None where nothing was. Raises FetchworkError."""
        try:
            state = json.loads(self._path.read_text())
            behind = {Log(owner, path, xml): Cursor.parse(at) for owner, path, xml, at in state["behind"]}
            return Kept(Cursor.parse(str(state["cursor"])), behind)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FetchworkError(f"cannot read state file '{self._path}': {error}") from None

    def save(self, kept: Kept) -> None:
        """Save, so that a crash leaves this or what was there."""
        behind = [[found.owner, found.path, found.xml, str(cursor)] for found, cursor in kept.behind.items()]
        text = json.dumps({"cursor": str(kept.cursor), "behind": behind, "saved_at": int(time.time())})
        temporary = self._path.with_name(self._path.name + ".new")
        temporary.write_text(text)
        temporary.replace(self._path)
