"""Tells which expectations of a submit description nothing meets here by itself.

The client of an access point imports this module: it needs neither HTCondor's bindings nor any package.
"""

from __future__ import annotations

import re

__all__ = ["unmet"]

_NO_MAIL = "nothing is mailed: 'fetchwork wait' and 'fetchwork events' tell how jobs end"
_NO_LOG = "event logs are written while 'fetchwork userlog --follow' runs"
_NO_FILES = "'fetchwork wait' or 'condor_transfer_data' brings output files"


def unmet(text: str, *, served: bool, on_terminal: bool) -> list[str]:
    """A line for each thing that a description expects of a schedd and that does not happen by itself here.

    ``served``: there is an access point, which writes logs and brings files. Without one a line says so to
    programs too; that nothing is mailed is for terminals alone, because programs that submit may take a line
    on stderr for a failure.
    """
    said = []
    asked = _last_value(text, "notification")
    if on_terminal and asked is not None and asked.lower() != "never":
        said.append(_NO_MAIL)
    undone = []
    if _last_value(text, "log") is not None:
        undone.append(_NO_LOG)
    if (_last_value(text, "should_transfer_files") or "").lower() == "yes":
        undone.append(_NO_FILES)
    if undone and not served:
        said.append(f"no access point serves this host: {', and '.join(undone)}")
    return said


def _last_value(text: str, name: str) -> str | None:
    """A description's last value of a command; None if it does not set the command."""
    found = re.findall(rf"^[ \t]*{name}[ \t]*=[ \t]*(.*?)[ \t]*$", text, re.IGNORECASE | re.MULTILINE)
    return str(found[-1]) if found else None
