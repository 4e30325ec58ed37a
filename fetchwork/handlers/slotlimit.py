"""How much of a resource a run may use: what its slot has, as a schedd's job.

Of a dynamic slot that is still to be made for it, that is what HTCondor will round its request up to.
"""

from __future__ import annotations

import re

_NUMBER = rb"(?mi)^%s\s*=\s*(\d{1,15})(?:\.\d*)?\s*$"
_PARTITIONABLE = re.compile(rb'(?mi)^SlotType\s*=\s*"Partitionable"\s*$')


def limit_of(job: bytes, slot: bytes, resource: bytes, step: int) -> int | None:
    """What a job's ad may use in a slot's, both as hooks have them; None where they do not say.

    ``step`` is that of HTCondor's MODIFY_REQUEST_EXPR_REQUEST...: quantize(Request..., {step}).
    """
    if _PARTITIONABLE.search(slot):
        asked = re.search(_NUMBER % (b"Request" + resource), job)
        return None if asked is None else -(-int(asked[1]) // step) * step
    has = re.search(_NUMBER % resource, slot)
    return None if has is None else int(has[1])
