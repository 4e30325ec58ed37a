"""What the commands say of themselves: versions and help."""

from __future__ import annotations

from fetchwork import __version__

#: the HTCondor whose output and options these commands have
CONDOR_VERSION = "25.14.1"
CONDOR_DATE = "2026-10-16"


def version() -> str:
    """What condor_version prints: programs look for the three numbers; fetchwork is named behind them."""
    import platform

    return (
        f"$CondorVersion: {CONDOR_VERSION} {CONDOR_DATE} PackageID: fetchwork-{__version__} $\n"
        f"$CondorPlatform: {platform.machine().upper()}-{platform.system()} $\n"
    )


def help_of(command: str) -> str:
    """What ``-help`` prints."""
    return f"Usage: {command} [options]\n"
