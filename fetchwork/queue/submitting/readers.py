"""The two readers of submit descriptions: HTCondor's older bindings, or its own condor_submit.

The bindings before 25 turn a description into job ads; those of 25 do not. Without the older ones the
condor_submit of an HTCondor 25 or later on this host does (``-dry-run``), with that version's defaults.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from fetchwork.classad import bindings
from fetchwork.classad.ads import parse_old
from fetchwork.classad.values import ClassAd
from fetchwork.errors import SubmitError

__all__ = ["Commands", "Description", "Refusal", "read"]

#: the errors of both readers about a description
Refusal = (RuntimeError, ValueError, bindings.HTCondorException)

#: attributes that only a program's ad has; the bindings know no file
_OF_PROGRAM = ("JobSubmitFile", "SubmitVersion")
_PATH = "/usr/sbin:/usr/local/sbin:/sbin"


class Commands(Protocol):
    """A description's commands, with names as they were written."""

    def keys(self) -> Iterable[str]: ...

    def get(self, name: str, default: str) -> str: ...

    def __getitem__(self, name: str) -> str: ...


class Description(Commands, Protocol):
    """A description that makes the ads of its jobs."""

    def __setitem__(self, name: str, value: str) -> None: ...

    def getQArgs(self) -> str:  # noqa: N802 - HTCondor's name
        """The arguments of the queue statement."""

    def procs(self, *, count: int, clusterid: int, procid: int) -> Iterator[object]:
        """The ads of the jobs; ``count`` 0 stands for the queue statement."""


def read(text: str) -> Description:
    """Read a description's commands; raises SubmitError if nothing here makes ads, or one of ``Refusal``."""
    try:
        older = bindings.old()
    except ImportError:
        return _ByProgram(text)
    description: Description = older.Submit(text)
    return description


class _ByProgram:
    """A description that condor_submit turns into ads."""

    def __init__(self, text: str) -> None:
        self._program = _program()
        self._text = text
        self._commands: Any = bindings.Submit(text)
        self._added: list[str] = []
        for name in ("max_materialize", "max_idle", "materialize_max_idle"):
            if self._commands.get(name, ""):
                # with it the program would write a factory's description in place of ads
                self[name] = ""
        self.keys = self._commands.keys
        self.get = self._commands.get
        self.getQArgs = self._commands.getQArgs

    def __getitem__(self, name: str) -> str:
        return str(self._commands[name])

    def __setitem__(self, name: str, value: str) -> None:
        self._added += ["-append", f"{name} = {value}"]

    def procs(self, *, count: int, clusterid: int, procid: int) -> Iterator[ClassAd]:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "ads"
            ended = subprocess.run(
                [
                    self._program,
                    "-terse",
                    *self._added,
                    f"-dry-run:full,cluster={clusterid}",
                    str(file),
                    "-",
                ],
                input=self._text,
                capture_output=True,
                text=True,
                check=False,
            )
            if ended.returncode:
                raise ValueError(_reason(ended.stderr))
            ads = file.read_text()
        for text in re.split(r"\n{2,}", ads):
            if "ClusterId = " in text:
                ad = parse_old(text)
                for name in _OF_PROGRAM:
                    ad.pop(name, None)
                yield ad


def _reason(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return "; ".join(errors or lines[-1:])


def _program() -> str:
    # beside the master: the directory of fetchwork's commands has a condor_submit of its own
    master = shutil.which("condor_master", path=f"{os.environ.get('PATH', '')}:{_PATH}")
    for directory in (Path(master).resolve().parent.parent / "bin", Path("/usr/bin")) if master else ():
        program = directory / "condor_submit"
        if program.exists():
            return str(program)
    raise SubmitError(
        "no HTCondor here reads submit descriptions; install its bindings (pip install 'htcondor<24.13')"
        " or HTCondor 25 or later on this host"
    )
