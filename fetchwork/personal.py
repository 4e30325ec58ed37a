"""``PersonalPool`` with the arguments and members of ``htcondor2.personal.PersonalPool``."""

from __future__ import annotations

import contextlib
import enum
import os
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fetchwork.classad.values import ClassAd
from fetchwork.errors import PoolError
from fetchwork.pool.personal import PersonalPool as Pool
from fetchwork.queue.collector import Collector
from fetchwork.queue.synchronous import Queue


class PersonalPoolState(enum.StrEnum):
    """What a pool does."""

    UNINITIALIZED = "UNINITIALIZED"
    INITIALIZED = "INITIALIZED"
    STARTING = "STARTING"
    READY = "READY"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"


class PersonalPool(Pool):
    """A pool of one's own, whose queue is a database.

    ``local_dir``: its directory, by default ``~/.fetchwork/personal``. ``config``: HTCondor configuration, by
    names. ``raw_config``: the same as text. ``detach``: the pool goes on when the object's context ends.
    ``use_config``: the pool is the local one for this process from its start on (FETCHWORK_DSN and
    CONDOR_CONFIG). Further arguments are those of ``fetchwork.PersonalPool``.
    """

    def __init__(
        self,
        local_dir: Path | str | None = None,
        config: Mapping[str, str | None] | None = None,
        raw_config: str | None = None,
        detach: bool = False,
        use_config: bool = True,
        **settings: Any,
    ) -> None:
        if config is not None and not isinstance(config, Mapping):
            raise TypeError("config is a mapping of names to values; raw_config is text")
        lines = [f"{name} = {value or ''}" for name, value in (config or {}).items()]
        text = "\n".join([*lines, textwrap.dedent(raw_config or "")])
        super().__init__(local_dir or _default(), config=text.strip() and f"{text}\n", **settings)
        self._state = PersonalPoolState.UNINITIALIZED
        self._use_config = use_config
        if detach:
            self.detach()
        if use_config:
            self.initialize()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(local_dir={self.local_dir}, state={self.state.value})"

    @classmethod
    def attach(cls, local_dir: Path | str | None = None) -> PersonalPool:  # type: ignore[override]
        """The running pool in a directory, which goes on when the object's context ends."""
        directory = Path(local_dir or _default())
        kept = Pool.attach(directory).settings
        pool = cls(directory, use_config=False, detach=True)
        pool.settings = kept
        if not pool.running:
            raise PoolError(f"the pool in '{directory}' does not run")
        pool._state = PersonalPoolState.READY
        return pool

    @property
    def local_dir(self) -> Path:
        """The pool's directory."""
        return self.directory

    @property
    def config_file(self) -> Path:
        """HTCondor's configuration."""
        return self.condor.config_file

    @property
    def state(self) -> PersonalPoolState:
        """What the pool does."""
        return self._state

    def initialize(self, overwrite_config: bool = True) -> PersonalPool:
        """Make the pool's directory; its configuration is written at the start."""
        if self._state is PersonalPoolState.UNINITIALIZED:
            if not overwrite_config and self.config_file.exists():
                raise FileExistsError(f"'{self.config_file}' exists")
            self._make_directory()
            self._state = PersonalPoolState.INITIALIZED
        return self

    def start(self) -> PersonalPool:
        """Start what does not run."""
        if self._state is PersonalPoolState.READY:
            return self
        self._state = PersonalPoolState.STARTING
        super().start()
        self._state = PersonalPoolState.READY
        if self._use_config:
            os.environ.update(self._environment())
        return self

    def stop(self, how: Any = "fast") -> PersonalPool:  # type: ignore[override]  # as HTCondor's does
        """Stop all of it."""
        if self._state not in (PersonalPoolState.UNINITIALIZED, PersonalPoolState.STOPPED):
            self._state = PersonalPoolState.STOPPING
            super().stop(how)
            self._state = PersonalPoolState.STOPPED
        return self

    @contextlib.contextmanager
    def use_config(self) -> Iterator[PersonalPool]:
        """While it lasts, the pool is the local one for this process."""
        before = {name: os.environ.get(name) for name in self._environment()}
        os.environ.update(self._environment())
        try:
            yield self
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def _environment(self) -> dict[str, str]:
        return {"FETCHWORK_DSN": self.conninfo, "CONDOR_CONFIG": str(self.config_file)}

    @property
    def schedd(self) -> Queue:
        """The pool's queue."""
        return Queue(self.conninfo)

    @property
    def collector(self) -> Collector:
        """What the queue knows of the pool."""
        return Collector(self.conninfo)

    def get_config_val(self, macro: str, default: str | None = None) -> str:
        """A value of HTCondor's configuration; raises KeyError where it has none and no default is given."""
        answer = self.run_command(["condor_config_val", macro])
        if answer.returncode == 0:
            return answer.stdout.strip()
        if default is None:
            raise KeyError(macro)
        return default

    def who(self) -> ClassAd:
        """The first process of each part, and whether all of them run (``IsReady``)."""
        ad = ClassAd()
        processes = self.processes()
        ad["IsReady"] = None not in processes.values()
        for part, pid in processes.items():
            if pid is not None:
                ad[f"{part.capitalize()}Pid"] = pid
        return ad


def _default() -> Path:
    return Path.home() / ".fetchwork" / "personal"
