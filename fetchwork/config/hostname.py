"""The name of this machine, as HTCondor has it.

The slots of a host are known by HTCondor's FULL_HOSTNAME. The machine's own answer may differ: with
``127.0.0.1 localhost`` as the first line of /etc/hosts it is ``localhost``.
"""

import functools
import os
import re
import shutil
import socket
import subprocess

_PROGRAM = "condor_config_val"
# a hook's PATH may be bare
_PATH = "/usr/local/bin:/usr/bin:/bin"
_TIMEOUT_S = 10


@functools.cache
def full_hostname() -> str:
    """HTCondor's name for this machine; where there is no HTCondor to ask, the machine's own."""
    return _asked_of_htcondor() or socket.getfqdn()


def _asked_of_htcondor() -> str | None:
    program = shutil.which(_PROGRAM, path=f"{os.environ.get('PATH', '')}:{_PATH}")
    if program is None:
        return None
    try:
        asked = subprocess.run(
            [program, "FULL_HOSTNAME"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    name = asked.stdout.strip()
    return name if asked.returncode == 0 and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", name) else None
