"""condor_version: which HTCondor these commands behave as, and which fetchwork they are."""

from __future__ import annotations

from fetchwork.condor import texts
from fetchwork.condor.arguments import is_option
from fetchwork.condor.invocation import Invocation


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    for word in run.argv[1:]:
        if is_option(word, "help", 1):
            run.say(texts.help_of(run.name))
            return 0
        if not any(is_option(word, name, 1) for name in ("build_id", "syscall", "arch", "opsys", "verbose")):
            said = "unrecognized" if word.startswith("-") else "invalid"
            run.complain(f"ERROR: {said} argument: '{word}'\n" + texts.help_of(run.name))
            return 1
    run.say(texts.version())
    return 0
