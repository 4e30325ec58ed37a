"""Loads HTCondor's own module and replaces the classes that speak to daemons by the queue's."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path

from fetchwork.client.link import socket_path

_HERE = Path(__file__).resolve().parent


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
