"""What Prometheus reads: the state of a queue and its pool, what happens to jobs, and what an agent does.

Names follow HTCondor's condor_metricd: the attribute of a daemon's ad without a prefix, ``_total`` behind a
counter, the unit behind a measure. Where HTCondor has the thing, the name is HTCondor's (METRICS.md lists
all). The number of label values is bounded: what is beyond it is counted under ``other``.
"""
