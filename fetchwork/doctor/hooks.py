"""The hooks and what they need on this host's disk: permissions, interpreter, spool."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from fetchwork.config import HostConfig
from fetchwork.configgen.check import Place, check_hooks, check_spool
from fetchwork.configgen.render import HOOKS
from fetchwork.doctor.line import Line, failed, ok, warned

_LEAST_FREE_BYTES = 50 * 1024 * 1024


def check(config: HostConfig, place: Place) -> Iterator[Line]:
    """Yield whether HTCondor would run the hooks, and whether they could leave a report."""
    for keyword in config.keywords_in_use():
        directory = config.hooks(keyword)
        findings = list(check_hooks(config, keyword, place))
        for finding in findings:
            yield failed("hooks", finding.wrong, finding.allowed)
        if not findings:
            yield from _interpreters(directory, keyword, place)
    yield from _spool(config, place)


def _interpreters(directory: Path, keyword: str, place: Place) -> Iterator[Line]:
    missing = {}
    for hook in HOOKS:
        path = directory / hook.lower()
        if problem := _interpreter_problem(path):
            missing[problem] = path
    for problem, path in missing.items():
        yield failed("hooks", f"'{path}' can't run: {problem}", f"fetchwork hooks install -c '{place.path}'")
    if not missing:
        yield ok("hooks", f"{keyword}: {directory}")


def _interpreter_problem(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            first = stream.readline(200).decode("utf-8", "replace")
    except OSError as error:
        return f"{(error.strerror or str(error)).lower()}"
    words = first.removeprefix("#!").split()
    if not first.startswith("#!") or not words:
        return "it has no '#!' line"
    return None if os.access(words[0], os.X_OK) else f"interpreter '{words[0]}' is not there"


def _spool(config: HostConfig, place: Place) -> Iterator[Line]:
    spool = config.agent.spool
    findings = list(check_spool(spool, place("agent", "spool")))
    for finding in findings:
        yield failed("spool", finding.wrong, finding.allowed)
    if findings:
        return
    free = shutil.disk_usage(spool).free
    if free < _LEAST_FREE_BYTES:
        mib = free // (1 << 20)
        yield warned("spool", f"'{spool}' has {mib} MiB left for reports of ended jobs", "free some space")
    else:
        yield ok("spool", str(spool))
