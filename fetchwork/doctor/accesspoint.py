"""The access point of this host, where people submit on it: does it answer, and does it keep up?"""

import os
from collections.abc import Iterator
from pathlib import Path

from fetchwork import __version__
from fetchwork.client.link import SOCKET, VARIABLE, Link
from fetchwork.doctor.line import Line, ok, warned
from fetchwork.errors import FetchworkError

TIMEOUT_S = 5.0


def check() -> Iterator[Line]:
    """Yield a line where this host has an access point, or did: fetching does not need one."""
    path = os.environ.get(VARIABLE) or SOCKET
    if path == "none" or not Path(path).exists():
        return
    try:
        with Link(path, patience_s=0) as link:
            state = link.ask("status", silence_s=TIMEOUT_S)
    except FetchworkError as error:
        yield warned(
            "access point", str(error), "start it: fetchwork access-point, by systemd or condor_master"
        )
        return
    if state["version"] != __version__:
        text = f"is version {state['version']}; version {__version__} is installed"
        yield warned("access point", text, "restart it to run the new one")
    elif state["database"] != "up":
        yield warned("access point", f"database: {state['database']}", "see its log")
    elif state["logs_behind"]:
        whose = ", ".join(state["logs_behind"])
        yield warned("access point", f"can't write event logs of {whose}", "see its log for the reason")
    else:
        yield ok("access point", f"answers at '{path}', version {state['version']}, serves {state['serves']}")
