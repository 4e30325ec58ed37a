"""condor_config_val: runs HTCondor's own if it is installed, else answers for a queue without daemons."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from fetchwork.condor import texts
from fetchwork.condor.invocation import Invocation


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    own = _htcondors(run)
    if own is not None:
        run.stdout.flush()
        ended = subprocess.run(
            [own, *run.argv[1:]],
            env=dict(run.environment),
            cwd=run.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        run.stdout.write(ended.stdout)
        run.stdout.flush()
        run.stderr.write(ended.stderr)
        return ended.returncode
    names = [word for word in run.argv[1:] if not word.startswith("-")]
    if not names:
        run.complain(texts.help_of(run.name))
        return 1
    known = _settings(run)
    status = 0
    for name in names:
        setting = known.get(name.upper())
        if setting is None:
            run.complain(f"Not defined: {name}\n")
            status = 1
        else:
            run.say(setting + "\n")
    return status


def _htcondors(run: Invocation) -> str | None:
    """HTCondor's own command: the first of its name on PATH that is not ours."""
    ours = Path(run.argv[0]).name
    for folder in run.environment.get("PATH", os.defpath).split(os.pathsep):
        candidate = Path(folder) / ours
        if (
            candidate.is_file()
            and os.access(candidate, os.X_OK)
            and "fetchwork" not in str(candidate.resolve())
        ):
            return str(candidate)
    return None


def _settings(run: Invocation) -> dict[str, str]:
    """Return the settings that programs ask for, without HTCondor."""
    from fetchwork.condor.invocation import host_name

    name = host_name()
    return {
        "FULL_HOSTNAME": name,
        "HOSTNAME": name.partition(".")[0],
        "SCHEDD_NAME": name,
        "SCHEDD_HOST": name,
    }
