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
AdTypes = htcondor2.AdTypes
DaemonType = htcondor2.DaemonType
DaemonTypes = htcondor2.DaemonTypes
FileTransferEventType = htcondor2.FileTransferEventType
JobAction = htcondor2.JobAction
#: reads files; fetchwork's own class reads the database
JobEventLog = htcondor2.JobEventLog
JobEventType = htcondor2.JobEventType
JobStatus = htcondor2.JobStatus
LogLevel = htcondor2.LogLevel
QueryOpt = htcondor2.QueryOpt
QueryOpts = htcondor2.QueryOpts
Submit = htcondor2.Submit
SubmitMethod = htcondor2.SubmitMethod
SubsystemType = htcondor2.SubsystemType
TransactionFlag = htcondor2.TransactionFlag
TransactionFlags = htcondor2.TransactionFlags

classad = htcondor2.classad
# 23.9 lacks this function, and an exception of its own
disable_debug = getattr(htcondor2, "disable_debug", None)
enable_debug = htcondor2.enable_debug
enable_log = htcondor2.enable_log
param = htcondor2.param
platform = htcondor2.platform
reload_config = htcondor2.reload_config
set_subsystem = htcondor2.set_subsystem
version = htcondor2.version

#: a base class of all fetchwork's errors from now on
HTCondorException = getattr(htcondor2, "HTCondorException", RuntimeError)
join_bindings()


def old() -> Any:
    """Return the older series, whose Submit makes job ads; a compiled module, so without types."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import htcondor

    return htcondor
