"""What evaluating one item may take."""

from __future__ import annotations

#: seconds of CPU for one item: an autocluster put against a slot, a job's policy, the ad of a run.
#: HTCondor's own evaluations take microseconds; the longest sane Requirements seen took 3 ms
ITEM_CPU_S = 0.2
#: seconds of CPU that the items of one submitter get in each period
SUBMITTER_CPU_S = 2.0
PERIOD_S = 10.0
#: seconds of CPU that one submitter gets before the others in one look at a slot; the rest waits for them
SLICE_S = 0.05
#: seconds of CPU for all that waited for others in one look; what is left waits for the next
LATE_S = 0.25
#: once a request has taken so many seconds of CPU, no submitter gets more of it than the second figure
LONG_REQUEST_S = 4.0
LONG_SHARE_S = 0.1
#: how long a strike lasts, and the seconds in each period that what is not proven then gets
STRIKE_S = 60.0
DOUBTFUL_S = 0.5
#: wall seconds of one request: a worker that does not answer in this is replaced, and nobody is blamed
REQUEST_S = 15.0
#: bytes of address space beyond what a worker has when it begins
MEMORY_BYTES = 1 << 30
#: bytes of one ad in JSON, of all that a worker keeps, and of one answer
AD_BYTES = 4 << 20
KEPT_BYTES = 128 << 20
ANSWER_BYTES = 64 << 20
#: workers that may end over one request; then what was never evaluated waits for the next one
ENDS_A_REQUEST = 4
