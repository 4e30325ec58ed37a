"""Asks HTCondor's own ``condor_config_val`` for the settings that HTCondor would use.

It reads the configuration as the daemons do, ``CONDOR_CONFIG`` and ``_CONDOR_*`` variables included, so run
in the environment of condor_master it prints the settings of the daemons. The case of names does not matter.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from fetchwork.errors import FetchworkError

PROGRAM = "condor_config_val"
TIMEOUT_S = 20


class CondorConfigError(FetchworkError):
    """``condor_config_val`` is there, but can't read HTCondor's configuration."""


class Settings(Mapping[str, str]):
    """Setting name -> value; the case of a name does not count."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = {name.upper(): value for name, value in values.items()}

    def __getitem__(self, name: str) -> str:
        return self._values[name.upper()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def installed() -> bool:
    """Whether there is an HTCondor on this machine to ask."""
    return shutil.which(PROGRAM) is not None


class CondorConfig:
    """HTCondor's configuration on this machine; ``command`` is how ``condor_config_val`` is called."""

    def __init__(self, command: Sequence[str] = (PROGRAM,)) -> None:
        self._command = tuple(command)

    def version(self) -> tuple[int, ...]:
        """Return the version of the HTCondor on this machine."""
        text = self._ask("CONDOR_VERSION").strip()
        if not re.fullmatch(r"\d+(\.\d+)+", text):
            raise CondorConfigError(f"{PROGRAM} does not print HTCondor's version but {text!r}")
        return tuple(map(int, text.split(".")))

    def settings(self) -> Settings:
        """Return every setting that HTCondor has, defaults included, its macros not expanded."""
        return Settings(parse_settings(self._ask("-dump")))

    def value(self, name: str) -> str | None:
        """Return the startd's value of a setting with macros expanded; None if it is not set."""
        try:
            return self._ask("-subsystem", "STARTD", name).strip()
        except CondorConfigError as error:
            if "Not defined" in str(error):
                return None
            raise

    def origins(self, names: Sequence[str]) -> dict[str, str]:
        """Return the last place of each setting, ``FILE:LINE`` or ``<Environment>``; without defaults."""
        if not names:
            return {}
        text = self._ask("-verbose", *names, partly=True)
        locations: dict[str, str] = {}
        for block in re.split(r"\n\s*\n", text):
            name = re.match(r"\s*([\w.]+)\s*=", block)
            location = re.search(r"(?m)^ # at: (.+?)(?:, line (\d+))?$", block)
            if name and location and location[1] != "<Default>":
                file, line = location.groups()
                locations[name[1].upper()] = f"{file}:{line}" if line else file
        return locations

    def _ask(self, *arguments: str, partly: bool = False) -> str:
        try:
            done = subprocess.run(
                [*self._command, *arguments],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError:
            raise CondorConfigError(f"no HTCondor found: {self._command[0]!r} is not on PATH") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CondorConfigError(f"cannot run {self._command[0]!r}: {error}") from error
        # asked for several settings it ends with 1 if one of them is not set
        if done.returncode and not (partly and done.stdout.strip()):
            message = " ".join((done.stderr or done.stdout).split())
            raise CondorConfigError(f"{PROGRAM} {' '.join(arguments)} failed: {message}")
        return done.stdout


def parse_settings(text: str) -> dict[str, str]:
    """Return the ``NAME = value`` lines of a configuration, continued lines joined; the last one counts."""
    values: dict[str, str] = {}
    joined = re.sub(r"[ \t]*\\\n\s*", " ", re.sub(r"(?m)^[ \t]*#.*\n", "", text))
    for line in joined.splitlines():
        if match := re.match(r"([A-Za-z_][\w.]*)\s*=(?!=)\s*(.*?)\s*$", line):
            values[match[1]] = match[2]
    return values
