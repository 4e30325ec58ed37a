"""The metrics for Prometheus: the state of a queue and its pool, events of jobs, and an agent's work.

Names follow HTCondor's condor_metricd: the attribute of a daemon's ad without a prefix, ``_total`` behind a
counter, the unit behind a measure. If HTCondor has the metric, the name is HTCondor's (METRICS.md lists all).
The number of label values is bounded: further values are counted under ``other``.
"""
