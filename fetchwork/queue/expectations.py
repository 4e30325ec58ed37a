"""What a description expects of a schedd that does not come by itself here: said on a terminal only.

Programs that submit take any line on stderr for a failure.
"""

from __future__ import annotations

import re

_NO_MAIL = "nothing is mailed: 'fetchwork wait' and 'fetchwork events' tell how jobs end"
_NO_LOG = "no access point serves this host: event logs are written while 'fetchwork userlog --follow' runs"
_NO_FILES = "no access point serves this host: 'fetchwork wait' or 'condor_transfer_data' brings output files"


def unmet(text: str, *, served: bool) -> list[str]:
    """A line for each thing; ``served``: there is an access point, which does most of them."""
    said = []
    if (asked := _value(text, "notification")) is not None and asked.lower() != "never":
        said.append(_NO_MAIL)
    if served:
        return said
    if _value(text, "log") is not None:
        said.append(_NO_LOG)
    if (_value(text, "should_transfer_files") or "").lower() == "yes":
        said.append(_NO_FILES)
    return said


def _value(text: str, name: str) -> str | None:
    """What a description sets a command to last; None where it does not."""
    found = re.findall(rf"^[ \t]*{name}[ \t]*=[ \t]*(.*?)[ \t]*$", text, re.IGNORECASE | re.MULTILINE)
    return str(found[-1]) if found else None
