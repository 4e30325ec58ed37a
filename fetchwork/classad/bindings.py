"""The parts of HTCondor's Python bindings that fetchwork uses as they are: enumerations, and ``Submit``.

Both series warn on import that there is no condor_config, which nothing here needs.
"""

import warnings
from typing import Any

from fetchwork.errors import join_bindings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import htcondor2

AdType = htcondor2.AdType
#: for a real pool, by the configuration that the bindings find
Collector = htcondor2.Collector
Schedd = htcondor2.Schedd
DaemonType = htcondor2.DaemonType
JobAction = htcondor2.JobAction
#: reads files; fetchwork's own class reads the database
JobEventLog = htcondor2.JobEventLog
JobEventType = htcondor2.JobEventType
JobStatus = htcondor2.JobStatus
QueryOpts = htcondor2.QueryOpts
Submit = htcondor2.Submit

classad = htcondor2.classad

# 23.9 has no exception of its own
#: a base class of all fetchwork's errors from now on
HTCondorException = getattr(htcondor2, "HTCondorException", RuntimeError)
join_bindings()


def old() -> Any:
    """Return the older series, whose Submit makes job ads; a compiled module, so without types."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import htcondor

    return htcondor
