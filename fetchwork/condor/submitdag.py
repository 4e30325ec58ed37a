"""condor_submit_dag: HTCondor's own, whose condor_submit is this queue's.

What can't be run here is refused before anything is written or submitted.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fetchwork.condor import directory
from fetchwork.condor.invocation import Invocation
from fetchwork.dag import check, environment, programs
from fetchwork.errors import one_line

#: options whose next word is a value, without their dash and in lower case; HTCondor takes prefixes of them
_VALUED = (
    *("maxidle", "maxjobs", "maxpre", "maxpost", "maxhold", "notification", "debug", "outfile_dir", "config"),
    *("lockfile", "insert_sub_file", "append", "batch-name", "autorescue", "dorescuefrom", "dagman"),
    *("load_save", "rescuefile", "priority", "insert_env", "include_env", "schedd-daemon-ad-file"),
    *("schedd-address-file", "submitmethod", "add_attr", "batch-id"),
)


def main(run: Invocation) -> int:
    """Run the command; returns only where it can't."""
    words = list(run.argv[1:])
    if any(word.lower() in ("-r", "-remote") for word in words):
        run.complain("ERROR: -remote is not supported: the DAG runs on the host where it is submitted\n")
        return 1
    own = programs.program("condor_submit_dag", run.environment)
    version: int | None = None
    found: list[str] = []
    for name in files(words):
        path = Path(run.directory, name)
        if not path.is_file():
            # HTCondor's own says that best
            continue
        version = programs.major_version(run.environment) if version is None else version
        found += check.problems(path, version)
    for problem in found:
        run.complain(f"ERROR: {one_line(problem)}\n")
    if found:
        return 1
    run.stdout.flush()
    run.stderr.flush()
    os.chdir(run.directory)
    asked = environment.of_submit_dag(run.environment, directory.made())
    return os.execve(own, [str(own), *words], asked)  # noqa: S606 - it does not return


def files(words: Sequence[str]) -> list[str]:
    """The DAG files among the words of a condor_submit_dag."""
    found = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-"):
            name = word.lstrip("-").lower().replace("_", "-")
            skip = len(name) > 2 and any(valued.replace("_", "-").startswith(name) for valued in _VALUED)
        else:
            found.append(word)
    return found
