"""Tells whether an execute host can fetch work, and what to do if it can't.

Each check looks at one thing, in the order in which work passes it (host file, HTCondor, hooks, agent,
database), and says ``ok``, ``warn`` or ``FAIL`` of it; the first FAIL is usually the cause of those below it.
Nothing is changed, and no job is claimed.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from fetchwork import config as host_file
from fetchwork.deploy.check import Locator, check_agent_reads, check_secrets
from fetchwork.deploy.condorconfig import CondorConfig
from fetchwork.doctor import agent, condor, credentials, daemons, database, files, hooks
from fetchwork.doctor.line import Line, failed, ok
from fetchwork.errors import ConfigError, FetchworkError

__all__ = ["Line", "diagnose"]


def diagnose(path: Path, condor_config: CondorConfig | None = None) -> Iterator[Line]:
    """Yield a line about each thing looked at on this host; ``condor_config`` asks its HTCondor."""
    try:
        config = host_file.load(path)
    except ConfigError as error:
        for problem in error.problems:
            yield failed("host file", problem, f"fetchwork config check -c '{path}'")
        return
    yield ok("host file", f"{path}: {config.name}, {', '.join(config.keywords_in_use())}")
    locate = Locator(path)
    for finding in (*check_secrets(config, locate), *check_agent_reads(config, locate)):
        yield failed("host file", finding.wrong, finding.allowed)
    asked = condor_config or CondorConfig()
    running = daemons.running()
    checks: list[tuple[str, Callable[[], Iterator[Line]]]] = [
        ("HTCondor", lambda: condor.check(config, asked)),
        ("daemons", lambda: daemons.check(running)),
        ("hooks", lambda: hooks.check(config, locate)),
        ("agent", lambda: agent.check(config, master_runs=daemons.MASTER in running)),
        ("files", lambda: files.check(config)),
        ("database", lambda: database.check(config)),
        ("credentials", lambda: credentials.check(config)),
        ("access point", agent.check_access_point),
    ]
    for subject, check in checks:
        try:
            yield from check()
        except FetchworkError as error:
            yield failed(subject, str(error), "see the message")
