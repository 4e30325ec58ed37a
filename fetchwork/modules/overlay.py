"""Loads HTCondor's own module and replaces the classes that speak to daemons by the queue's."""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType

from fetchwork.client.link import socket_path

_HERE = Path(__file__).resolve().parent


class _Personal(MetaPathFinder, Loader):
    """Finds the module ``personal`` of HTCondor's packages: ours, whose pools have a queue."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        wanted = ("htcondor.personal", "htcondor2.personal")
        return ModuleSpec(fullname, self) if fullname in wanted else None

    def exec_module(self, module: ModuleType) -> None:
        # it imports what a client of an access point does without
        from fetchwork import personal

        for name in ("PersonalPool", "PersonalPoolState", "SetConfig"):
            setattr(module, name, getattr(personal, name))


_PERSONAL = _Personal()


def lay_over(name: str) -> None:
    """Make ``name`` ('htcondor2' or 'htcondor') HTCondor's module with the queue's classes in it.

    Raises ImportError if HTCondor's bindings are not installed, or if there is neither an access point nor a
    database driver.
    """
    if socket_path() is None and find_spec("psycopg") is None:
        raise ImportError(
            f"{name} over a fetchwork queue needs an access point on this host, or psycopg in this Python"
            f" ({sys.executable}) to ask the database by itself",
            name=name,
        )
    if name == "htcondor" and "htcondor2" not in sys.modules:
        # the queue uses the second version, which must be complete
        lay_over("htcondor2")
    path = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]
    spec = PathFinder.find_spec(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(
            f"HTCondor's module {name} is not installed for this Python; install the package htcondor",
            name=name,
        )
    if _PERSONAL not in sys.meta_path:
        sys.meta_path.insert(0, _PERSONAL)
    module = module_from_spec(spec)
    # the importer returns the entry that stands here at the end
    sys.modules[name] = module
    spec.loader.exec_module(module)
    if name == "htcondor2":
        from fetchwork.modules.second import classes
    else:
        from fetchwork.modules.first import classes
    for attribute, value in classes(module).items():
        setattr(module, attribute, value)
