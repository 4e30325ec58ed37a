"""The hooks and what they need on this host's disk: permissions, interpreter, spool."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fetchwork.config import HostConfig
from fetchwork.deploy import compiled
from fetchwork.deploy.check import Locator, check_hooks, check_leftovers, check_socket, check_spool
from fetchwork.deploy.render import HOOKS
from fetchwork.doctor.line import Line, failed, ok, warned
from fetchwork.hook.spool import AT_ONCE, BAD

_LEAST_FREE_BYTES = 50 * 1024 * 1024


def check(config: HostConfig, locate: Locator) -> Iterator[Line]:
    """Yield whether HTCondor would run the hooks, and whether they could leave a report."""
    for keyword in config.keywords_in_use():
        directory = config.hooks(keyword)
        findings = list(check_hooks(config, keyword, locate))
        for finding in findings:
            yield failed("hooks", finding.wrong, finding.allowed)
        if not findings:
            yield from _interpreters(directory, keyword, locate, config.keywords[keyword].chain_s)
    for finding in check_socket(config, locate):
        yield failed("socket", finding.wrong, finding.allowed)
    for finding in check_leftovers(config):
        verdict = warned if finding.warning else failed
        yield verdict("leftover", f"{finding.where}: {finding.wrong}", finding.allowed)
    yield from _spool(config, locate)


def _interpreters(directory: Path, keyword: str, locate: Locator, chain_s: int) -> Iterator[Line]:
    """Whether what runs the hooks is there: the interpreter, or this version's build of the compiled ones."""
    problems = {}
    languages = set()
    again = f"fetchwork hooks install -c '{locate.path}'"
    for hook in HOOKS:
        path = directory / hook.lower()
        build = _build_of(path)
        languages.add("in Python" if build is None else "compiled")
        # the compiled hook becomes this script if there is more to do
        script = path if build is None else path.with_name(f"{path.name}.py")
        if problem := _interpreter_problem(script):
            problems[problem] = failed("hooks", f"'{script}' can't run: {problem}", again)
        if build is not None and (problem := _build_problem(build)):
            # the agent still understands an older build of its own protocol
            line = warned if build.protocol == compiled.this_build().protocol else failed
            problems[problem] = line("hooks", f"'{path}' {problem}", f"{again} --compiled")
    if len(languages) > 1:
        problems["mixed"] = failed("hooks", f"'{directory}': some hooks are compiled, some are not", again)
    yield from problems.values()
    if not problems:
        chains = f", chains of up to {chain_s} s" if chain_s else ""
        yield ok("hooks", f"{keyword}: {directory}, {languages.pop()}{chains}")


def _build_of(path: Path) -> compiled.Build | None:
    try:
        return compiled.build_of(path)
    except OSError:
        return None


def _build_problem(build: compiled.Build) -> str | None:
    ours = compiled.this_build()
    if build.protocol != ours.protocol:
        return f"speaks {build.protocol}, and the agent of this version speaks {ours.protocol}"
    return None if build == ours else "was compiled from another version of fetchwork"


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


def _spool(config: HostConfig, locate: Locator) -> Iterator[Line]:
    spool = config.agent.spool
    findings = list(check_spool(config, locate("agent", "spool")))
    for finding in findings:
        told = warned if finding.warning else failed
        yield told("spool", finding.wrong, finding.allowed)
    if findings:
        return
    free = shutil.disk_usage(spool).free
    if free < _LEAST_FREE_BYTES:
        mib = free // (1 << 20)
        yield warned("spool", f"'{spool}' has {mib} MiB left for reports of ended jobs", "free some space")
    crowds = list(_crowds(spool))
    yield from crowds
    if free >= _LEAST_FREE_BYTES and not crowds:
        yield ok("spool", str(spool))


def _crowds(spool: Path) -> Iterator[Line]:
    for directory, most, what, logged in (
        (spool, AT_ONCE, "reports that can't be delivered, or no reports", "spool"),
        (spool / BAD, 0, "no reports, or of runs of others", "spool_rejected"),
    ):
        try:
            owners = Counter(entry.stat(follow_symlinks=False).st_uid for entry in os.scandir(directory))
        except OSError:
            # listing them is for the agent's account
            continue
        if (files := owners.total()) > most:
            uid, of_one = owners.most_common(1)[0]
            yield warned(
                "spool",
                f"'{directory}' holds {files} files, {of_one} of them of uid {uid}: {what}",
                f"ls -ln '{directory}', see '{logged}' in the agent's log, and delete what is not needed",
            )
