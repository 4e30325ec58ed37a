"""The keys of credentials: can this host's agent open what people seal now?"""

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from fetchwork.config import HostConfig
from fetchwork.config.identity import identity_path, own_key_path
from fetchwork.credentials.keys import KeyFile, key_id
from fetchwork.db.calls import credentials
from fetchwork.db.database import Database
from fetchwork.doctor.line import Line, failed, ok, warned
from fetchwork.errors import FetchworkError

_SUBJECT = "credentials"
_PAGE = "fetchwork/credentials/CREDENTIALS.md"


def check(config: HostConfig) -> Iterator[Line]:
    """Yield the problems of a host's keys that keep jobs with credentials away, if credentials are used."""
    for name, settings in config.databases.items():
        identity = identity_path(settings.conninfo)
        own = KeyFile(own_key_path(identity)) if identity is not None else None
        is_sealed = False
        try:
            with Database(settings.conninfo, application_name="fetchwork doctor", timeout_s=10.0) as database:
                current = database.run(credentials.sealing_key())
                if own is not None and own.problem() is None:
                    # as its agent does
                    is_sealed = database.run(credentials.register_host_key(public_key=own.newest()))
        except FetchworkError:
            # the database's own lines say so
            continue
        if settings.credential_key is not None:
            yield _of_file(config, name, settings.credential_key, current)
        elif current is not None and own is not None:
            yield _of_own_key(name, own, is_sealed=is_sealed)
        elif current is not None:
            yield warned(
                _SUBJECT,
                f"{name}: this host has no key, so it is offered no jobs that need credentials",
                f"[database.{name}] credential_key, and the file from another host ({_PAGE})",
            )


def _of_file(config: HostConfig, name: str, path: Path, current: credentials.SealingKey | None) -> Line:
    keys = KeyFile(path)
    if problem := keys.problem() or _closed_to_agent(config, path):
        return failed(_SUBJECT, f"{name}: {problem}", f"put the file right ({_PAGE})")
    if current is None:
        return warned(
            _SUBJECT, f"{name}: nothing is sealed to the key yet", f"fetchwork db credential-key use {path}"
        )
    if current.key_id not in keys.key_ids():
        return failed(
            _SUBJECT,
            f"{name}: '{path}' lacks key {current.key_id}, to which credentials are sealed",
            "copy the file from a host that has it",
        )
    if config.agent.user and not config.agent.root_part:
        return warned(
            _SUBJECT,
            f"{name}: jobs get credentials when they start; running ones keep what they have",
            "agent.root_part = true, with HTCondor as root, has them replaced before they expire",
        )
    return ok(_SUBJECT, f"{name}: key {current.key_id}")


def _of_own_key(name: str, own: KeyFile, *, is_sealed: bool) -> Line:
    if problem := own.problem():
        return failed(_SUBJECT, f"{name}: {problem}", "the agent makes the file when it starts")
    if not is_sealed:
        return warned(
            _SUBJECT,
            f"{name}: no host with the pool's key is at work, so this one is offered no jobs that need"
            " credentials",
            f"a trusted host with the pool's key ({_PAGE})",
        )
    return ok(_SUBJECT, f"{name}: key {key_id(own.newest())}, of this host alone")


def _closed_to_agent(config: HostConfig, path: Path) -> str | None:
    """The reason why the agent's account can't read a file; None if it can, or if that is not known."""
    if not config.agent.user:
        return None
    try:
        account = pwd.getpwnam(config.agent.user)
        found = path.stat()
        groups = os.getgrouplist(account.pw_name, account.pw_gid)
    except (OSError, KeyError):
        return None
    mode = stat.S_IMODE(found.st_mode)
    reads = (found.st_uid == account.pw_uid and mode & 0o400) or (found.st_gid in groups and mode & 0o040)
    return None if reads else f"'{path}' can't be read by the agent's account '{account.pw_name}'"
