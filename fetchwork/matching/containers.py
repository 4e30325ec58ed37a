"""Which slots have what a job in a container needs: as condor_submit writes it into Requirements.

An ad that came by SQL does not have that clause, nor has one with ``+SingularityImage``, by which a site's
own configuration makes a container; HTCondor would run such a job bare on the host.
"""

from __future__ import annotations

from collections.abc import Mapping

#: what a job's ad says, and what a slot then has to be
_NEEDS = {"WantSIF": "HasSIF", "WantDockerImage": "HasDockerURL", "WantSandboxImage": "HasSandboxImage"}
_BY_CONFIGURATION = "SingularityImage"
#: a host with docker alone has HasDockerURL too, and its starter does not use docker for a fetched job
_RUNTIME = "HasSingularity"


def needs(ad: Mapping[str, object]) -> tuple[bytes, ...]:
    """The lines that a slot's ad has to have for the jobs of an autocluster."""
    found = [slot for job, slot in _NEEDS.items() if ad.get(job) not in (None, False)]
    if found or ad.get(_BY_CONFIGURATION) not in (None, ""):
        found.append(_RUNTIME)
    return tuple(b"\n%s = true\n" % name.encode() for name in found)


def has_all(slot: bytes, needed: tuple[bytes, ...]) -> bool:
    """Whether a slot's ad, as FETCH_WORK brings it, has these lines."""
    return not needed or all(line in b"\n" + slot for line in needed)
