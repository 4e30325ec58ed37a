"""Texts about the commands: versions, help, and reasons of refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fetchwork import __version__
from fetchwork.condor.arguments import Given, Said, is_option

if TYPE_CHECKING:
    from fetchwork.condor.invocation import Invocation

#: the HTCondor whose output and options these commands have
CONDOR_VERSION = "25.14.1"
CONDOR_DATE = "2026-10-16"

#: commands of HTCondor that can't be done for fetched work -> why
REFUSED = {
    "condor_ssh_to_job": "no shadow leads to a fetched job; 'fetchwork q JOB' has its host",
}


def version() -> str:
    """Return the output of condor_version: programs read the three numbers; fetchwork's name follows them."""
    import platform

    return (
        f"$CondorVersion: {CONDOR_VERSION} {CONDOR_DATE} PackageID: fetchwork-{__version__} $\n"
        f"$CondorPlatform: {platform.machine().upper()}-{platform.system()} $\n"
    )


def tell(run: Invocation, word: str) -> bool:
    """Print the command's help or version if a word asks for it; return whether it did."""
    if is_option(word, "help", 1):
        run.say(help_of(run.name))
        return True
    if is_option(word, "version", 1):
        run.say(version())
        return True
    return False


def help_of(command: str, word: str = "Usage") -> str:
    """Return the output of ``-help``, which begins with this word as HTCondor's does."""
    return f"{word}: {command} [options]\n"


def print_help(asked: object, given: Given) -> None:
    """The action of -help."""
    raise Said(help_of(given.command))


def print_help_on_stderr(asked: object, given: Given) -> None:
    """The action of -help, as some commands print it."""
    raise Said(help_of(given.command), stderr=True)


def print_version(asked: object, given: Given) -> None:
    """The action of -version."""
    raise Said(version())


def condor_version(run: Invocation) -> int:
    """condor_version: which HTCondor these commands behave as, and which fetchwork they are."""
    for word in run.argv[1:]:
        if is_option(word, "help", 1):
            run.say(help_of(run.name))
            return 0
        if not any(is_option(word, name, 1) for name in ("build_id", "syscall", "arch", "opsys", "verbose")):
            said = "unrecognized" if word.startswith("-") else "invalid"
            run.complain(f"ERROR: {said} argument: '{word}'\n" + help_of(run.name))
            return 1
    run.say(version())
    return 0


def refuse(run: Invocation) -> int:
    """Print why the command is refused; returns 1."""
    run.complain(f"{run.name}: {REFUSED[run.name]}\n")
    return 1
