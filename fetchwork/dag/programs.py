"""HTCondor's own programs for DAGs on this host."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from fetchwork.errors import FetchworkError

_USUAL = "/usr/local/bin:/usr/bin:/bin:/usr/sbin"


def program(name: str, environment: Mapping[str, str]) -> Path:
    """Return the path of HTCondor's program, skipping fetchwork's own; raises FetchworkError."""
    for folder in f"{environment.get('PATH', '')}:{_USUAL}".split(os.pathsep):
        candidate = Path(folder or ".") / name
        if not candidate.is_file() or not os.access(candidate, os.X_OK):
            continue
        if candidate.resolve().name != "condor-command":
            return candidate
    raise FetchworkError(missing(name))


def missing(name: str) -> str:
    """Return the message for a missing program."""
    return (
        f"'{name}' is not on this host: DAGs are run by HTCondor's condor_dagman;"
        " install HTCondor's package here (Debian: condor, RPM: condor)"
    )


def major_version(environment: Mapping[str, str]) -> int:
    """Return the major version of this host's condor_dagman; raises FetchworkError."""
    dagman = program("condor_dagman", environment)
    ended = subprocess.run(
        [dagman, "-version"],
        env={
            **environment,
            "CONDOR_CONFIG": environment.get("CONDOR_CONFIG", "ONLY_ENV"),
            # otherwise it starts a log in its directory
            "_CONDOR_DAGMAN_LOG": os.devnull,
        },
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    found = re.search(r"\$CondorVersion: (\d+)\.", ended.stdout)
    if found is None:
        raise FetchworkError(f"'{dagman} -version' does not say its version: {ended.stdout[:200]!r}")
    return int(found[1])
