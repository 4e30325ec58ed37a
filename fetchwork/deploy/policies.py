"""Finds policies of the startd with which slots don't fetch, or with which jobs can't run in chains.

A keyword's ``chain_s`` asks for chains (``handlers.host.chains``).
"""

import os
import re
from collections.abc import Iterator

from fetchwork.classad.ads import parse_expr
from fetchwork.classad.values import ClassAd, changing_word, evaluate
from fetchwork.config import HostConfig
from fetchwork.deploy.condorconfig import CondorConfig, Settings
from fetchwork.errors import ClassAdError
from fetchwork.hook.wire import RUNNER

#: a setting's name, the problem, the allowed values
_Policy = tuple[str, str, str]
# by these the startd decides what becomes of a slot's job
_POLICY = re.compile(r"(?:SLOT(?:_TYPE_)?\d+_)?(?:START|PREEMPT|SUSPEND|CONTINUE|WANT_SUSPEND)")


def against_chains(config: HostConfig, keyword: str) -> Iterator[tuple[str, str]]:
    """Yield the reasons for which the agent begins no chains, and the allowed settings."""
    runner = config.hooks(keyword) / RUNNER
    if not config.keywords[keyword].chain_s:
        return
    if not os.access(runner, os.X_OK):
        yield (
            f"there are no chains without '{runner}', which belongs to the compiled hooks",
            f"0, or fetchwork hooks install -c '{config.host.file}' --compiled",
        )
    if config.agent.user == "" and os.geteuid() != 0:
        yield "there are no chains where the jobs of all Owners have one account", "0, or a condor of root"


def problems(config: HostConfig, actual: Settings, condor: CondorConfig) -> Iterator[_Policy]:
    """Yield the policies that work against the host file: name, problem and allowed values of each."""
    yield from _start(condor.value("START"))
    yield from _changing(config, actual, condor)


def _start(start: str | None) -> Iterator[_Policy]:
    """HTCondor evaluates START before there is a job: if it is false then, no slot ever fetches."""
    if not start:
        return
    try:
        alone = evaluate(ClassAd(), parse_expr(start))
    except ClassAdError as error:
        yield "START", str(error), "a ClassAd expression"
        return
    if alone is False:
        shown = start if len(start) <= 60 else start[:57] + "..."
        yield (
            "START",
            f"{shown!r} is false without a job, so no slot will ever fetch",
            "an expression that is true or undefined without a job: compare with == in place of =?=",
        )


def _changing(config: HostConfig, actual: Settings, condor: CondorConfig) -> Iterator[_Policy]:
    """Yield policies that may forbid the second job of a chain what the first was allowed."""
    chained = [name for name, keyword in config.keywords.items() if keyword.chain_s]
    for name in sorted(filter(_POLICY.fullmatch, actual)) if chained else ():
        word = changing_word(condor.value(name) or "")
        if word:
            yield (
                name,
                f"depends on {word}, so one starter must not run several jobs",
                f"an expression without {word}, or chain_s = 0 for {', '.join(chained)}",
            )
