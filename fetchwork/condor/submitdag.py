"""condor_submit_dag: runs HTCondor's own, with this queue's condor_submit.

Refuses DAGs that can't be run here before anything is written or submitted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from fetchwork.condor.invocation import Invocation
from fetchwork.dag import check, environment, programs
from fetchwork.errors import one_line

#: options whose next word is a value, without their dash and in lower case; HTCondor takes prefixes of them
_VALUED = (
    "maxidle", "maxjobs", "maxpre", "maxpost", "maxhold", "notification", "debug", "outfile_dir", "config",
    "lockfile", "insert_sub_file", "append", "batch-name", "autorescue", "dorescuefrom", "dagman",
    "load_save", "rescuefile", "priority", "insert_env", "include_env", "schedd-daemon-ad-file",
    "schedd-address-file", "submitmethod", "add_attr", "batch-id",
)  # fmt: skip


def main(run: Invocation) -> int:
    """Run the command; returns only where it can't."""
    words = list(run.argv[1:])
    found = refusals(words, run.environment, Path(run.directory))
    for problem in found:
        run.complain(f"ERROR: {one_line(problem)}\n")
    if found:
        return 1
    own = programs.program("condor_submit_dag", run.environment)
    run.stdout.flush()
    run.stderr.flush()
    os.chdir(run.directory)
    # the kernel passes a script's path as it was found
    commands = Path(sys.argv[0]).absolute().parent
    asked = environment.of_submit_dag(run.environment, commands)
    return os.execve(own, [str(own), *words], asked)  # noqa: S606 - it does not return


def refusals(words: Sequence[str], variables: Mapping[str, str], directory: Path) -> list[str]:
    """Return the reasons why the DAGs on this command line can't be run here. Raises FetchworkError."""
    if any(word.lower() in ("-r", "-remote") for word in words):
        return ["-remote is not supported: the DAG runs on the host where it is submitted"]
    paths = [path for name in files(words) if (path := directory / name).is_file()]
    # HTCondor's own reports missing files best
    if not paths:
        return []
    version = programs.major_version(variables)
    own = any(_is(word, "usedagdir") for word in words)
    return [
        problem
        for path in paths
        for problem in check.problems(path, path.parent if own else directory, version)
    ]


def _is(word: str, option: str) -> bool:
    name = word.lstrip("-").lower()
    return word.startswith("-") and len(name) > 1 and option.startswith(name)


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
