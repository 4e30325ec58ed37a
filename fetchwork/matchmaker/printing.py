"""The job ad of a claimed run, as FETCH_WORK prints it."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from fetchwork.classad.ads import is_name, plain_text
from fetchwork.classad.jsonform import from_json
from fetchwork.classad.values import ClassAd, ExprTree, evaluate, number
from fetchwork.codes import Universe
from fetchwork.matching.autoclusters import REQUEST_DEFAULTS
from fetchwork.matchmaker.expansion import MATCH_EXP, Expansion, expand, has_macro

#: the largest 32-bit integer: HTCondor before 25.4 ends a fetched job when this lease of its claim runs out
JOB_LEASE_S = 2147483647
#: when a job starts, in seconds; evaluated when it is offered
TIMES = ("DeferralTime", "DeferralWindow")
#: lines of ads that are remembered, for most are those of many jobs; how long a text in one may be
_REMEMBERED = 4096
_MOST_REMEMBERED = 256
_UID_DOMAIN = re.compile(rb"^[ \t]*UidDomain[ \t]*=([^\n]*)", re.I | re.M)
_PLAIN_VALUE = re.compile(rb'\s*"([^"\\]*)"\s*')


@dataclass(frozen=True, slots=True)
class Run:
    """A claimed run; ``ad`` is its job's, in HTCondor's JSON form."""

    run_id: int
    token: str
    cluster_id: int
    proc_id: int
    owner: str
    has_policy: bool
    ad: Mapping[str, object]
    #: the path of the file for the starter's own words
    starter_log: str | None = None
    #: what of the job's own ad has macros and is something else in this one: a sandbox has names of its own
    hidden: Mapping[str, object] = field(default_factory=dict)


def build(
    run: Run,
    slot: ClassAd,
    *,
    kept: frozenset[str],
    host: str,
    keyword: str,
    uid_domain: str | None,
) -> tuple[ClassAd, ClassAd]:
    """The ad of a claimed run for the starter, and what the job's own ad is to remember of the slot's values.

    Raises ClassAdError if the job's ad can't be read, CannotExpand where a macro in it has no value.

    What is for matching and policy stays in the database. A request that is an expression becomes the number
    that it is on this slot, because the startd compares numbers.
    """
    # what is kept may be what a request is computed from
    whole = from_json({name: value for name, value in run.ad.items() if value is not None})
    remembered = _expand(whole, run, slot)
    ad = ClassAd()
    for name in whole:
        if name.lower() not in kept:
            ad[name] = whole.lookup(name)
    for name in list(ad):
        if name.lower().startswith("request") and isinstance(ad[name], ExprTree):
            value = number(evaluate(whole, name, slot))
            if value is not None:
                ad[name] = math.ceil(value)
            else:
                ad.pop(name)
    for name in TIMES:
        # the starter's clock would give another
        value = number(evaluate(whole, name, slot)) if isinstance(ad.get(name), ExprTree) else None
        if value is not None:
            ad[name] = int(value)
    for name, value in REQUEST_DEFAULTS.items():
        ad.setdefault(name, value)
    ad.setdefault("JobUniverse", Universe.VANILLA)
    ad.update(
        _of_run(run, host=host, keyword=keyword, uid_domain=uid_domain or slot.get("UidDomain") or host)
    )
    return ad, remembered


def _expand(whole: ClassAd, run: Run, slot: ClassAd) -> ClassAd:
    """Put values of the slot in place of the macros of an ad; returns what is to be remembered of that."""
    if not any(map(has_macro, (*run.ad.values(), *run.hidden.values()))):
        return ClassAd()
    job = ClassAd()
    job.update(whole)
    job.update({"ClusterId": run.cluster_id, "ProcId": run.proc_id, "Owner": run.owner})
    done = expand(whole, job, slot)
    hidden = expand(from_json(run.hidden), job, slot) if run.hidden else Expansion()
    for name in done.values:
        whole[name] = done.values.lookup(name)
        # of another slot
        whole.pop(MATCH_EXP + name, None)
    remembered = done.remembered
    remembered.update(hidden.remembered)
    return remembered


def print_plain(
    run: Run,
    slot: bytes,
    *,
    kept: frozenset[str],
    host: str,
    keyword: str,
    uid_domain: str | None,
    readable: Container[object],
) -> str | None:
    """The same as text, where the ad has nothing but plain values; None where HTCondor has to read it.

    Most ads are so, and nothing of them is evaluated: the agent can print them by itself. What is kept may be
    an expression that is ``readable``: HTCondor has read it before.
    """
    domain = uid_domain or _uid_domain(slot)
    if domain is None:
        return None
    added = _of_run(run, host=host, keyword=keyword, uid_domain=domain or host)
    #: by the name in lower case, in which order they are printed
    lines: dict[str, str] = {}
    spellings = {name.lower(): name for name in (*REQUEST_DEFAULTS, "JobUniverse", *added)}
    for name, value in (*run.ad.items(), *added.items()):
        if value is None:
            continue
        key, macro, text, line = (_remembered if _is_short(value) else _plain)(name, value)
        if macro:
            return None
        # one of another spelling would be given twice, or replace ours
        if spellings.setdefault(key, name) != name:
            return None
        if key in kept and name not in added:
            if text is None and not (isinstance(value, str) and value in readable):
                return None
            continue
        if line is None:
            return None
        lines[key] = line
    for name, number_of in (*REQUEST_DEFAULTS.items(), ("JobUniverse", int(Universe.VANILLA))):
        lines.setdefault(name.lower(), f"{name} = {number_of}\n")
    return "".join([lines[key] for key in sorted(lines)])


def _plain(name: str, value: object) -> tuple[str, bool, str | None, str | None]:
    """A name in lower case, whether its value may have a macro, the value as text, and the line of both."""
    text = plain_text(value)
    line = None if text is None or not is_name(name) else f"{name} = {text}\n"
    return name.lower(), has_macro(value), text, line


def _is_short(value: object) -> bool:
    """Whether a value may be remembered; no real, for 0.0 and -0.0 are the same as keys."""
    if type(value) is str:
        return len(value) < _MOST_REMEMBERED
    return type(value) is bool or (type(value) is int and -(2**63) <= value < 2**63)


#: typed: 1 and true are the same as keys, and printed as different things
_remembered = lru_cache(_REMEMBERED, typed=True)(_plain)


def _of_run(run: Run, *, host: str, keyword: str, uid_domain: object) -> dict[str, str | int | bool]:
    """What every fetched ad says of its run."""
    owner = run.owner
    values: dict[str, str | int | bool] = {
        "ClusterId": run.cluster_id,
        "ProcId": run.proc_id,
        # HTCondor 23 wants Owner, 25 one of the other two
        "Owner": owner,
        "User": f"{owner}@{uid_domain}",
        "OsUser": owner,
        "JobLeaseDuration": JOB_LEASE_S,
        # chooses the starter's hooks: never the submitter's word
        "HookKeyword": keyword,
        "FetchWorkRunId": run.run_id,
        "FetchWorkToken": run.token,
        "FetchWorkHost": host,
    }
    if run.starter_log is not None:
        values["StarterUserLog"] = run.starter_log
    if run.has_policy:
        values["FetchWorkHasPolicy"] = True
    return values


def _uid_domain(slot: bytes) -> str | None:
    """The UidDomain in a slot's ad, empty if it has none; None where it is more than one plain string."""
    lines = _UID_DOMAIN.findall(slot)
    if not lines:
        return ""
    found = _PLAIN_VALUE.fullmatch(lines[0])
    return found[1].decode("utf-8", "replace") if found and len(lines) == 1 else None
