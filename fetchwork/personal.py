"""``PersonalPool`` with the arguments and members of ``htcondor2.personal.PersonalPool``."""

from __future__ import annotations

import atexit
import enum
import os
import subprocess
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, Unpack

from fetchwork.classad.values import ClassAd
from fetchwork.errors import PoolError
from fetchwork.pool.personal import PersonalPool as Pool
from fetchwork.pool.personal import Shape
from fetchwork.queue.collector import Collector
from fetchwork.queue.synchronous import Queue


class PersonalPoolState(enum.StrEnum):
    """The states of a pool."""

    UNINITIALIZED = "UNINITIALIZED"
    INITIALIZED = "INITIALIZED"
    STARTING = "STARTING"
    READY = "READY"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"


class SetConfig:
    """Sets environment variables, and restores their former values."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._before: dict[str, str | None] = {}

    def set(self) -> None:
        """Set the variables."""
        self._before = {name: os.environ.get(name) for name in self._variables}
        os.environ.update(self._variables)

    def unset(self) -> None:
        """Restore the former values."""
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def __enter__(self) -> SetConfig:
        self.set()
        return self

    def __exit__(self, *_: object) -> None:
        self.unset()


class PersonalPool(Pool):
    """A personal pool whose queue is a database; its arguments and members are those of HTCondor's class.

    ``local_dir``: the pool's directory, by default ``~/.fetchwork/personal``. ``config``: HTCondor
    configuration, by names. ``raw_config``: the same as text. ``detach``: ``stop`` does nothing, so the pool
    outlives the object's context and the program; else both stop it. ``use_config``: once started, the pool
    is the local one for this process (FETCHWORK_DSN and CONDOR_CONFIG). ``settings`` are those of
    ``fetchwork.pool.PersonalPool``: slots, partitionable, suite, host, database, host_of.
    """

    def __init__(
        self,
        local_dir: Path | str | None = None,
        config: Mapping[str, str | None] | None = None,
        raw_config: str | None = None,
        detach: bool = False,
        use_config: bool = True,
        **settings: Unpack[Shape],
    ) -> None:
        if config is not None and not isinstance(config, Mapping):
            raise TypeError("config is a mapping of names to values; raw_config is text")
        lines = [f"{name} = {value or ''}" for name, value in (config or {}).items()]
        text = "\n".join([*lines, textwrap.dedent(raw_config or "")])
        super().__init__(local_dir or _default(), config=text.strip() and f"{text}\n", **settings)
        self._state = PersonalPoolState.UNINITIALIZED
        self._use_config = use_config
        self._context: SetConfig | None = None
        #: the process that stops the pool when it exits; its forked children do not stop it
        self._process = os.getpid()
        if detach:
            self.detach()
        if use_config:
            self.initialize()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(local_dir={self.local_dir}, state={self.state.value})"

    def __enter__(self) -> Self:
        self.start()
        self._context = self.use_config()
        self._context.set()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._context is not None:
            self._context.unset()

    @classmethod
    def attach(cls, local_dir: Path | str | None = None) -> Self:  # type: ignore[override]
        """The running pool in a directory; like a pool started here, it stops with the program."""
        directory = Path(local_dir or _default())
        kept = Pool.attach(directory).settings
        pool = cls(directory, use_config=False)
        pool.settings = kept
        if not pool.running:
            raise PoolError(f"the pool in '{directory}' does not run")
        pool._ready()
        pool.use_config().set()
        return pool

    @property
    def local_dir(self) -> Path:
        """The pool's directory."""
        return self.directory

    @property
    def config_file(self) -> Path:
        """HTCondor's configuration, which is written at the start."""
        return self.condor.config_file

    @property
    def state(self) -> PersonalPoolState:
        """The pool's state."""
        return self._state

    def initialize(self, overwrite_config: bool = True) -> Self:
        """Make the pool's directory; its configuration is written at the start."""
        if self._state not in (
            PersonalPoolState.INITIALIZED,
            PersonalPoolState.STARTING,
            PersonalPoolState.READY,
        ):
            if not overwrite_config and self.config_file.exists():
                raise FileExistsError(f"'{self.config_file}' exists")
            self._make_directory()
            self._state = PersonalPoolState.INITIALIZED
        return self

    def start(self) -> Self:
        """Start the parts that do not run; a failed start leaves nothing running."""
        if self._state is PersonalPoolState.READY:
            return self
        self.initialize()
        self._state = PersonalPoolState.STARTING
        try:
            super().start()
        except BaseException:
            super().stop()
            self._state = PersonalPoolState.STOPPED
            raise
        self._ready()
        if self._use_config:
            self.use_config().set()
        return self

    def _ready(self) -> None:
        self._state = PersonalPoolState.READY
        atexit.register(self._at_exit)

    def _at_exit(self) -> None:
        if os.getpid() == self._process:
            self.stop()

    def stop(self, how: Literal["graceful", "fast"] = "fast") -> Self:  # type: ignore[override]
        """Stop all parts; does nothing if the pool does not run or is detached."""
        if self._state is PersonalPoolState.READY and not self._detached:
            self._state = PersonalPoolState.STOPPING
            super().stop(how)
            atexit.unregister(self._at_exit)
            self._state = PersonalPoolState.STOPPED
        return self

    def use_config(self) -> SetConfig:
        """Make the pool the local one for this process, as a context manager or by ``set`` and ``unset``."""
        return SetConfig({"FETCHWORK_DSN": self.conninfo, "CONDOR_CONFIG": str(self.config_file)})

    @property
    def schedd(self) -> Queue:
        """The pool's queue."""
        return Queue(self.conninfo)

    @property
    def collector(self) -> Collector:
        """The queue's knowledge of the pool, with the methods of HTCondor's Collector."""
        return Collector(self.conninfo)

    def run_command(
        self, command: Sequence[object], *, user: str | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the pool's machine, with its configuration; trailing white space is cut.

        ``options`` are those of ``subprocess.run``.
        """
        done = super().run_command(list(map(str, command)), user=user, **options)
        done.stdout, done.stderr = (
            text.rstrip() if isinstance(text, str) else text for text in (done.stdout, done.stderr)
        )
        return done

    def get_config_val(self, macro: str, default: str | None = None) -> str:
        """A value of HTCondor's configuration; raises KeyError if it has none and no default is given."""
        answer = self.run_command(["condor_config_val", macro])
        if answer.returncode == 0:
            return answer.stdout.strip()
        if default is None:
            raise KeyError(macro)
        return default

    def who(self) -> ClassAd:
        """The processes of the pool, with condor_who's names; empty if no process runs.

        It names HTCondor's master, the agent (``AGENT``) and PostgreSQL (``POSTGRES``), and whether all run.
        """
        ad = ClassAd()
        processes = self.processes()
        for part, pid in processes.items():
            if pid is not None:
                name = _NAMES.get(part, part.upper())
                ad[name] = "Alive"
                ad[f"{name}_PID"] = pid
        if len(ad):
            ad["IsReady"] = None not in processes.values()
        return ad


#: HTCondor's names for the parts of a pool
_NAMES = {"access-point": "ACCESS_POINT", "condor": "MASTER"}


def _default() -> Path:
    return Path.home() / ".fetchwork" / "personal"
