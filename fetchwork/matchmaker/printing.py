"""The job ad of a claimed run, as FETCH_WORK prints it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fetchwork.classad.jsonform import from_json
from fetchwork.classad.values import ClassAd, ExprTree, evaluate, number
from fetchwork.codes import Universe
from fetchwork.matching.autoclusters import REQUEST_DEFAULTS

#: the largest 32-bit integer: HTCondor before 25.4 ends a fetched job when this lease of its claim runs out
JOB_LEASE_S = 2147483647


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


def build(
    run: Run,
    slot: ClassAd,
    *,
    kept: frozenset[str],
    host: str,
    keyword: str,
    uid_domain: str | None,
) -> ClassAd:
    """The ad of a claimed run for the starter; ClassAdError if the job's own ad can't be read.

    What is for matching and policy stays in the database. A request that is an expression becomes the number
    that it is on this slot, because the startd compares numbers.
    """
    ad = from_json(
        {name: value for name, value in run.ad.items() if name.lower() not in kept and value is not None}
    )
    requests = from_json({name: value for name, value in run.ad.items() if value is not None})
    for name in list(ad):
        if name.lower().startswith("request") and isinstance(ad[name], ExprTree):
            value = number(evaluate(requests, name, slot))
            if value is not None:
                ad[name] = math.ceil(value)
            else:
                ad.pop(name)
    for name, value in REQUEST_DEFAULTS.items():
        ad.setdefault(name, value)
    owner = run.owner
    domain = uid_domain or slot.get("UidDomain") or host
    ad.setdefault("JobUniverse", Universe.VANILLA)
    ad.update(
        {
            "ClusterId": run.cluster_id,
            "ProcId": run.proc_id,
            # HTCondor 23 wants Owner, 25 one of the other two
            "Owner": owner,
            "User": f"{owner}@{domain}",
            "OsUser": owner,
            "JobLeaseDuration": JOB_LEASE_S,
            # chooses the starter's hooks: never the submitter's word
            "HookKeyword": keyword,
            "FetchWorkRunId": run.run_id,
            "FetchWorkToken": run.token,
            "FetchWorkHost": host,
        }
    )
    if run.has_policy:
        ad["FetchWorkHasPolicy"] = True
    return ad
