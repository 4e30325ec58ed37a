"""HTCondor's Python bindings, where they have no equal here: enumerations, and the reader of descriptions.

Both series warn on import that there is no condor_config, which nothing here needs.
"""

import warnings
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import htcondor2

JobAction = htcondor2.JobAction
JobEventType = htcondor2.JobEventType
JobStatus = htcondor2.JobStatus
QueryOpts = htcondor2.QueryOpts
Submit = htcondor2.Submit


def old() -> Any:
    """The older series, whose Submit makes job ads; a compiled module makes its names at run time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import htcondor

    return htcondor
