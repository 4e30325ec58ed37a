"""HTCondor's settings of this host, as its starter reads them: condor_config_val prints several at a time.

The agent remembers the answers; PREPARE_JOB, which needs few settings for few jobs, asks by itself.
"""

import subprocess
from collections.abc import Sequence

#: seconds for an answer
ANSWER_S = 5.0
# no setting contains this character
_BETWEEN = "\x1f"


class SettingsUnknown(Exception):
    """condor_config_val does not tell the settings; the text is one line."""


def command(names: Sequence[str]) -> tuple[str, ...]:
    """The command that prints these settings, for ``read``."""
    macro = _BETWEEN.join(f"$({name})" for name in names)
    return "condor_config_val", "-subsystem", "STARTER", "-macro", macro


def read(printed: bytes, names: Sequence[str]) -> list[str]:
    """The values of the settings that the command printed, empty for a setting that is not set.

    Raises SettingsUnknown.
    """
    values = printed.decode("utf-8", "replace").rstrip("\n").split(_BETWEEN)
    if len(values) != len(names):
        raise SettingsUnknown(f"condor_config_val does not say what {', '.join(names)} are")
    return values


def ask(*names: str) -> list[str]:
    """The values of these settings, empty for a setting that is not set; raises SettingsUnknown."""
    try:
        done = subprocess.run(
            command(names), stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_S, check=False
        )
    except OSError as error:
        raise SettingsUnknown(f"cannot run 'condor_config_val': {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise SettingsUnknown(f"'condor_config_val' was not done in {ANSWER_S:.0f} s") from None
    if done.returncode:
        raise SettingsUnknown(f"'condor_config_val' ends with {done.returncode}")
    return read(done.stdout, names)
