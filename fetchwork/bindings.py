"""HTCondor's Python bindings, as far as they have no equal here: enumerations, and the reader of
descriptions.

Both series warn on import that there is no condor_config, which nothing here needs.
"""

import warnings
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import htcondor
    import htcondor2

JobAction = htcondor2.JobAction
JobEventType = htcondor2.JobEventType
JobStatus = htcondor2.JobStatus
QueryOpts = htcondor2.QueryOpts
Submit = htcondor2.Submit

#: the older series, whose Submit makes job ads; its names are made at run time, from a compiled module
old: Any = htcondor
