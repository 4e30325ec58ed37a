"""Hooks of a site or a pilot that stand in the way of fetchwork's.

The starter takes the hooks of STARTER_JOB_HOOK_KEYWORD if that is set, else those of the ad's HookKeyword,
else those of STARTER_DEFAULT_JOB_HOOK_KEYWORD. A problem is a tuple of the setting, what is wrong with it,
and the remedy.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from fetchwork.config import HostConfig
from fetchwork.deploy.condorconfig import CondorConfig

STARTER_KEYWORD = "STARTER_JOB_HOOK_KEYWORD"
PREPARE_JOB = "_HOOK_PREPARE_JOB"

_EXAMPLE = "see config-examples/pilot-with-a-hook"


def starter_keyword(config: HostConfig, condor: CondorConfig) -> Iterator[tuple[str, str, str]]:
    """Yield what a STARTER_JOB_HOOK_KEYWORD that the host file does not make does to fetched jobs."""
    keyword = condor.value(STARTER_KEYWORD)
    if not keyword:
        return
    ours = [one.upper() for one in config.keywords_in_use()]
    if keyword.upper() not in ours:
        wrong = (
            f"is {keyword!r}: fetched jobs have its hooks, and fetchwork's PREPARE_JOB and JOB_EXIT never run"
        )
        remedy = f"STARTER_DEFAULT_JOB_HOOK_KEYWORD = {keyword} in its place ({_EXAMPLE})"
    else:
        wrong = f"gives every job of this host the hooks of {keyword!r}, not its slot's keyword's"
        # the host file sets it only where no ad chooses among keywords
        never = len(ours) > 1 or config.agent_updates
        remedy = "without this line" if never else "slots.fetched_only = true"
    yield STARTER_KEYWORD, wrong, remedy


def prepare_job(name: str, hook: str, condor: CondorConfig) -> Iterator[tuple[str, str, str]]:
    """Yield that a site's PREPARE_JOB, the setting ``name``, does not call our ``hook``."""
    program = condor.value(name)
    if not _calls(program, hook):
        wrong = f"is {program!r}, which does not call fetchwork's '{hook}'"
        yield name, wrong, f"without this line, or a script that calls both ({_EXAMPLE})"


def _calls(program: str | None, hook: str) -> bool:
    """Whether a script names a hook of ours, in a line that is no comment."""
    try:
        text = Path(program or "").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return re.search(rf"(?m)^[^#\n]*{re.escape(hook)}(?![\w.-])", text) is not None
