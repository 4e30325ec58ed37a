"""The directory of a pilot, with all that its HTCondor reads and writes.

DIR/condor_config    what CONDOR_CONFIG names; where HTCondor is installed, as its own configuration says
DIR/config.d         where the configuration made from the host file goes
DIR/condor           LOCAL_DIR: log, lock, run, spool, execute
"""

import shutil
from pathlib import Path

from fetchwork.config import HostConfig
from fetchwork.deploy.condorconfig import CondorConfig, CondorConfigError
from fetchwork.errors import FetchworkError

CONFIG_FILE = "condor_config"
CONFIG_DIRECTORY = "config.d"

_INSTALLED = ("RELEASE_DIR", "BIN", "SBIN", "LIB", "LIBEXEC", "SHARE")
_DIRECTORIES = ("log", "lock", "run", "spool", "execute")
_TEXT = """\
# HTCondor of the pilot in {directory}. Made from {file}: do not edit; settings of
# your own go into {directory}/{config_directory}.
#     CONDOR_CONFIG={directory}/{config_file} condor_master

{installed}
LOCAL_DIR = {directory}/condor
LOG = $(LOCAL_DIR)/log
LOCK = $(LOCAL_DIR)/lock
RUN = $(LOCAL_DIR)/run
SPOOL = $(LOCAL_DIR)/spool
EXECUTE = $(LOCAL_DIR)/execute
CONDOR_HOST = 127.0.0.1
LOCAL_CONFIG_FILE =
LOCAL_CONFIG_DIR = {directory}/{config_directory}
"""


def prepare(config: HostConfig, condor: CondorConfig) -> tuple[Path, str]:
    """Make the pilot's directories; return the path and text of its configuration file."""
    directory = config.pilot_directory
    try:
        for path in (directory / CONFIG_DIRECTORY, *(directory / "condor" / name for name in _DIRECTORIES)):
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o755)
    except OSError as error:
        raise FetchworkError(f"cannot make directory '{error.filename}': {error.strerror}") from error
    text = _TEXT.format(
        directory=directory,
        file=config.host.file,
        config_file=CONFIG_FILE,
        config_directory=CONFIG_DIRECTORY,
        installed="\n".join(f"{name} = {value}" for name, value in _installed(condor).items()),
    )
    return directory / CONFIG_FILE, text


def _installed(condor: CondorConfig) -> dict[str, str]:
    """HTCondor's directories: by its own configuration, else by the location of its master."""
    try:
        told = {name: condor.value(name) for name in _INSTALLED}
    except CondorConfigError:
        told = {}
    if told.get("RELEASE_DIR") and told.get("LIBEXEC"):
        return {name: value for name, value in told.items() if value}
    master = shutil.which("condor_master")
    if master is None:
        raise FetchworkError("'condor_master' is not on PATH, so HTCondor's installation can't be found")
    return {"RELEASE_DIR": str(Path(master).resolve().parents[1])}
