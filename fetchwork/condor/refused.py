"""Commands of HTCondor's that fetched work has no way to do: refused by name."""

from __future__ import annotations

from fetchwork.condor.invocation import Invocation

#: command -> why
REASONS = {
    "condor_ssh_to_job": "no shadow leads to a fetched job; 'fetchwork q JOB' has its host",
}


def main(run: Invocation) -> int:
    """Say why; the exit status is 1."""
    run.complain(f"{run.name}: {REASONS[run.name]}\n")
    return 1
