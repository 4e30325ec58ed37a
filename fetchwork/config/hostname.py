"""The name of this machine, as HTCondor has it, and addresses that it listens at.

The slots of a host are known by HTCondor's FULL_HOSTNAME. The machine's own answer may differ: with
``127.0.0.1 localhost`` as the first line of /etc/hosts it is ``localhost``.
"""

import functools
import hashlib
import os
import pwd
import re
import shutil
import socket
import subprocess
from pathlib import Path

_PROGRAM = "condor_config_val"
# a hook's PATH may be bare
_PATH = "/usr/local/bin:/usr/bin:/bin"
_TIMEOUT_S = 10
_WORD_LENGTH = 60
_LISTEN = re.compile(r"(?P<address>[A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")


@functools.cache
def full_hostname() -> str:
    """HTCondor's name for this machine; without HTCondor, the machine's own name."""
    return _asked_of_htcondor() or socket.getfqdn()


def pilot_name(directory: Path, machine: str) -> str:
    """A pilot's name, which no other pilot of the machine has: its account and directory come first."""
    try:
        uid = directory.stat().st_uid
    except OSError:
        uid = os.geteuid()
    try:
        account = pwd.getpwuid(uid).pw_name
    except KeyError:
        account = f"uid{uid}"
    return f"{_word(account)}-{directory_word(directory)}.{machine}"


def directory_word(directory: Path) -> str:
    """A directory as a word of a host's name: other directories have other words."""
    text = str(directory)
    word = _word(text)
    # the lost characters must not make two directories one
    if f"/{word.replace('-', '/')}" != text or len(word) > _WORD_LENGTH:
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{word[-_WORD_LENGTH:].strip('-')}-{digest}".lstrip("-")
    return word


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")


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


def listen_address(text: str) -> tuple[str, int]:
    """The address and port of 'ADDRESS:PORT', '[IPV6]:PORT' or ':PORT'; raises ValueError.

    The last means all addresses: '::' if an IPv6 socket accepts IPv4 connections too, else '0.0.0.0'.
    """
    found = _LISTEN.fullmatch(text)
    if found is None or not 1 <= int(found["port"]) <= 65535:
        raise ValueError(
            f"'{text}' is not an address; allowed: ADDRESS:PORT, such as 127.0.0.1:9118, or :PORT"
        )
    every = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 - asked for
    return found["address"].strip("[]") or every, int(found["port"])
