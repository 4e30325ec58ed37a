"""The slot attributes that a job in a container needs, as condor_submit writes them into Requirements.

An ad submitted by SQL lacks that clause. So does an ad with ``+SingularityImage``, from which a site's own
configuration makes a container; HTCondor would run such a job without a container on the host.
"""

from __future__ import annotations

from collections.abc import Mapping

#: attribute of the job's ad -> attribute that must be true in the slot's ad
_NEEDS = {"WantSIF": "HasSIF", "WantDockerImage": "HasDockerURL", "WantSandboxImage": "HasSandboxImage"}
_BY_CONFIGURATION = "SingularityImage"
#: a host with docker alone also has HasDockerURL, but its starter does not use docker for a fetched job
_RUNTIME = "HasSingularity"


def needs(ad: Mapping[str, object]) -> tuple[bytes, ...]:
    """Return the lines that a slot's ad must have for the jobs of an autocluster."""
    names = [slot for job, slot in _NEEDS.items() if ad.get(job) not in (None, False)]
    if names or ad.get(_BY_CONFIGURATION) not in (None, ""):
        names.append(_RUNTIME)
    return tuple(b"\n%s = true\n" % name.encode() for name in names)


def has_all(slot: bytes, needed: tuple[bytes, ...]) -> bool:
    """Whether a slot's ad, as FETCH_WORK brings it, has these lines."""
    return not needed or all(line in b"\n" + slot for line in needed)
