"""Printing the job ad of a claimed run for FETCH_WORK."""

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
#: attributes for a job's start time, in seconds; evaluated for the offer
TIMES = ("DeferralTime", "DeferralWindow")
#: the most lines of ads that are remembered, since many jobs share them; and the longest text in such a line
_REMEMBERED = 4096
_MOST_REMEMBERED = 256
_UID_DOMAIN = re.compile(rb"^[ \t]*UidDomain[ \t]*=([^\n]*)", re.I | re.M)
_PLAIN_VALUE = re.compile(rb'\s*"([^"\\]*)"\s*')


@dataclass(frozen=True, slots=True)
class Run:
    """A claimed run; ``ad`` is its job's ad, in HTCondor's JSON form."""

    run_id: int
    token: str
    cluster_id: int
    proc_id: int
    owner: str
    has_policy: bool
    ad: Mapping[str, object]
    #: the path of the file for the starter's log
    starter_log: str | None = None
    #: attributes of the job's own ad that have macros and differ in ``ad``: a sandbox renames files
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
    """Return the ad of a claimed run for the starter, and the slot's values to store in the job's own ad.

    Raises ClassAdError if the job's ad can't be read, CannotExpand if a macro in it has no value.

    Attributes for matching and policy (``kept``) stay in the database. A request that is an expression
    becomes its value on this slot, because the startd compares numbers.
    """
    # requests may refer to kept attributes
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
        # the starter would evaluate it at another time
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
    """Replace the macros of an ad by the slot's values; return attributes to store in the job's own ad."""
    if not any(map(has_macro, (*run.ad.values(), *run.hidden.values()))):
        return ClassAd()
    job = ClassAd()
    job.update(whole)
    job.update({"ClusterId": run.cluster_id, "ProcId": run.proc_id, "Owner": run.owner})
    done = expand(whole, job, slot)
    hidden = expand(from_json(run.hidden), job, slot) if run.hidden else Expansion()
    for name in done.values:
        whole[name] = done.values.lookup(name)
        # it has the value of an earlier slot
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
    """Return the ad as text, if it has nothing but literal values; None if HTCondor has to read it.

    Most ads are like that. Nothing in them is evaluated, so the agent can print them by itself. A kept
    attribute may be an expression if it is ``readable``: HTCondor has read it before.
    """
    domain = uid_domain or _uid_domain(slot)
    if domain is None:
        return None
    added = _of_run(run, host=host, keyword=keyword, uid_domain=domain or host)
    #: lines by name in lower case; they are printed in the order of these names
    lines: dict[str, str] = {}
    spellings = {name.lower(): name for name in (*REQUEST_DEFAULTS, "JobUniverse", *added)}
    for name, value in (*run.ad.items(), *added.items()):
        if value is None:
            continue
        key, macro, text, line = (_remembered if _is_short(value) else _plain)(name, value)
        if macro:
            return None
        # a name in two spellings would be printed twice, or replace fetchwork's
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
    """Return the name in lower case, whether the value may have a macro, the value's text, and the line."""
    text = plain_text(value)
    line = None if text is None or not is_name(name) else f"{name} = {text}\n"
    return name.lower(), has_macro(value), text, line


def _is_short(value: object) -> bool:
    """Whether a value may be remembered; reals may not, for 0.0 and -0.0 are equal as keys."""
    if type(value) is str:
        return len(value) < _MOST_REMEMBERED
    return type(value) is bool or (type(value) is int and -(2**63) <= value < 2**63)


#: typed: 1 and true are equal as keys, but print differently
_remembered = lru_cache(_REMEMBERED, typed=True)(_plain)


def _of_run(run: Run, *, host: str, keyword: str, uid_domain: object) -> dict[str, str | int | bool]:
    """Return the attributes of a run that every fetched ad has."""
    owner = run.owner
    values: dict[str, str | int | bool] = {
        "ClusterId": run.cluster_id,
        "ProcId": run.proc_id,
        # HTCondor 23 needs Owner, 25 one of the other two
        "Owner": owner,
        "User": f"{owner}@{uid_domain}",
        "OsUser": owner,
        "JobLeaseDuration": JOB_LEASE_S,
        # chooses the starter's hooks, so the submitter's value is never used
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
    """The UidDomain in a slot's ad, empty if it has none; None unless it is one plain string."""
    lines = _UID_DOMAIN.findall(slot)
    if not lines:
        return ""
    found = _PLAIN_VALUE.fullmatch(lines[0])
    return found[1].decode("utf-8", "replace") if found and len(lines) == 1 else None
