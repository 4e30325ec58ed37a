"""condor_transfer_data: refused, as fetched work spools no files."""

from __future__ import annotations

from fetchwork.condor import texts
from fetchwork.condor.arguments import is_option
from fetchwork.condor.invocation import Invocation


def main(run: Invocation) -> int:
    """Run the command; returns its exit status."""
    words = run.argv[1:]
    if not words:
        run.complain("You did not specify any jobs\n" + texts.help_of(run.name))
        return 1
    if any(is_option(word, "version", 1) for word in words):
        run.say(texts.version())
        return 0
    run.complain(f"{run.name}: no job has spooled files: fetched work has no file transfer\n")
    return 1
