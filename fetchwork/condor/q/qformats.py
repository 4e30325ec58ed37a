"""The tables that condor_q has by itself, in the words of print formats (``printformat``)."""

from __future__ import annotations

_ID = [
    "ClusterId AS ' ID' NOSUFFIX WIDTH 5 PRINTF '%4d.'",
    "ProcId AS ' ' NOPREFIX WIDTH 3 PRINTF '%-3d'",
]
_OWNER = "Owner AS OWNER WIDTH -14 PRINTAS OWNER OR ??"
_SUBMITTED = "QDate AS '  SUBMITTED' WIDTH 11 PRINTAS QDATE"
_STATE = "JobStatus AS ST PRINTAS JOB_STATUS"
_USED = "RemoteUserCpu AS '    {time}' WIDTH 12 PRINTAS CPU_TIME"
_WHAT = [
    "JobPrio AS PRI WIDTH AUTO",
    "ImageSize AS SIZE WIDTH 4 PRINTAS MEMORY_USAGE",
    "Cmd AS CMD WIDTH 0 PRINTAS JOB_DESCRIPTION",
]

_COUNTED = "WIDTH 6 PRINTF %6d OR _"


def _io(standard: str, other: str) -> str:
    """The universe that counted its own files is long gone; its attributes are still asked first."""
    return f"IfThenElse(JobUniverse==1,{standard},{other})"


#: name -> lines; {time} is RUN_TIME or CPU_TIME
FORMATS: dict[str, list[str]] = {
    "default": ["SELECT", *_ID, _OWNER, _SUBMITTED, _USED, _STATE, *_WHAT, "SUMMARY STANDARD"],
    "dag": [
        "SELECT",
        *_ID,
        "Owner AS 'OWNER/NODENAME' WIDTH -17 PRINTAS DAG_OWNER",
        _SUBMITTED,
        _USED,
        _STATE,
        *_WHAT,
        "SUMMARY STANDARD",
    ],
    "run": [
        "SELECT",
        *_ID,
        _OWNER,
        _SUBMITTED + " OR ??",
        _USED + " OR ??",
        "Owner AS 'HOST(S)' WIDTH 0 PRINTAS REMOTE_HOST OR ??",
        "SUMMARY NONE",
    ],
    "idle": [
        "SELECT",
        *_ID,
        _OWNER,
        "JobUniverse AS 'UNIVERSE ' PRINTAS JOB_UNIVERSE",
        "RequestCpus AS CPUS PRINTF '%4d'",
        "RequestMemory AS MEMORY PRINTF '%6d'",
        "NumShadowStarts?:0 AS STARTS PRINTF '%6d'",
        "LastRemoteHost AS LAST_HOST WIDTH 0",
        "SUMMARY NONE",
    ],
    "grid": [
        "SELECT",
        *_ID,
        "Owner AS OWNER WIDTH -14 PRINTAS OWNER",
        "GridJobStatus AS STATUS WIDTH -10 PRINTAS GRID_STATUS",
        "GridResource AS 'GRID->MANAGER    HOST' WIDTH -27 PRINTAS GRID_RESOURCE",
        "GridJobId AS GRID_JOB_ID WIDTH 0 PRINTAS GRID_JOB_ID",
        "SUMMARY NONE",
    ],
    "grid:ec2": [
        "SELECT",
        *_ID,
        "Owner AS OWNER WIDTH -14 PRINTAS OWNER",
        "GridJobStatus AS STATUS WIDTH -10 PRINTAS GRID_STATUS",
        "GridJobId AS 'INSTANCE ID' WIDTH AUTO PRINTAS GRID_JOB_ID",
        "Cmd AS CMD WIDTH AUTO PRINTF '%s'",
        "SUMMARY NONE",
    ],
    "hold": [
        "SELECT",
        *_ID,
        _OWNER,
        "EnteredCurrentStatus AS HELD_SINCE WIDTH 11 PRINTAS QDATE OR ??",
        "HoldReasonCode AS CODE NOSUFFIX PRINTF %4d OR ?",
        "HoldReasonSubCode AS '/SUB' NOPREFIX PRINTF '/%-3d' TRUNCATE OR ' '",
        "HoldReason AS HOLD_REASON WIDTH 0",
        "SUMMARY STANDARD",
    ],
    "holdcodes": [
        "SELECT",
        _OWNER,
        "HoldReasonCode AS CODE NOSUFFIX PRINTF %4d OR ?",
        "HoldReasonSubCode AS '/SUB' NOPREFIX PRINTF '/%-3d' OR ' '",
        "JobStatus AS '   COUNT ' PRINTF %9d OR _",
        "ClusterId AS OLDEST_JOB_ID PRINTAS JOB_ID",
        "EnteredCurrentStatus AS HELD_SINCE WIDTH 11 PRINTAS QDATE OR ??",
        "HoldReason AS HOLD_REASON WIDTH 0",
        "GROUP BY",
        "HoldReasonCode",
        "HoldReasonSubCode",
        "SUMMARY NONE",
    ],
    "io": [
        "SELECT",
        *_ID,
        _OWNER,
        _io("NumCkpts_RAW", "NumJobStarts") + " AS RUNS PRINTF '%4d' OR ?",
        _STATE,
        _io("FileReadBytes", "BytesRecvd") + " AS ' INPUT' PRINTAS READABLE_BYTES OR ??",
        _io("FileWriteBytes", "BytesSent") + " AS ' OUTPUT' PRINTAS READABLE_BYTES OR ??",
        _io("FileReadBytes+FileWriteBytes", "BytesRecvd+BytesSent")
        + " AS ' RATE' WIDTH 10 PRINTAS READABLE_BYTES OR ??",
        "JobUniverse AS 'MISC' PRINTAS BUFFER_IO_MISC",
        "WHERE JobUniverse==1 || TransferQueued=?=true || TransferringOutput=?=true"
        " || TransferringInput=?=true",
        "SUMMARY STANDARD",
    ],
    "factory": [
        "SELECT",
        "ClusterId AS ' ID' NOSUFFIX WIDTH 5 PRINTF '%4d.'",
        "ProcId AS ' ' NOPREFIX WIDTH 3 PRINTF '%-3d' OR ' '",
        "Owner AS OWNER WIDTH -14 PRINTAS OWNER",
        _SUBMITTED,
        "JobMaterializeLimit AS ' LIMIT' WIDTH 6 PRINTF %6d OR _",
        "JobsPresent AS PRESNT WIDTH 6 PRINTF %6d OR _",
        "JobsRunning AS '  RUN ' WIDTH 6 PRINTF %6d OR _",
        "JobsIdle AS '  IDLE' WIDTH 6 PRINTF %6d OR _",
        "JobsHeld AS '  HOLD' WIDTH 6 PRINTF %6d OR _",
        "JobMaterializeNextProcId AS NEXTID WIDTH 6 PRINTF %6d OR _",
        "JobMaterializePaused AS MODE PRINTAS JOB_FACTORY_MODE",
        "JobMaterializeDigestFile AS DIGEST WIDTH 0 OR ' '",
        "SUMMARY NONE",
    ],
    "totals": ["SELECT NOHEADER", "SUMMARY STANDARD"],
    "batch": [
        "SELECT",
        "Owner AS OWNER WIDTH AUTO PRINTAS DAG_OWNER OR ??",
        "Cmd AS BATCH_NAME WIDTH -12 PRINTAS BATCH_NAME",
        "QDate AS '   SUBMITTED' WIDTH 12 PRINTAS QDATE",
        f"JobStatus AS '  DONE' {_COUNTED}",
        f"JobUniverse AS '  RUN ' {_COUNTED}",
        f"DAG_NodesQueued AS '  IDLE' {_COUNTED}",
        f"DAG_NodesDone AS '  HOLD' {_COUNTED}",
        f"DAG_NodesTotal?:TotalSubmitProcs AS ' TOTAL' {_COUNTED}",
        "JobStatus?:JobMaterializeNextProcId AS JOB_IDS WIDTH 0 PRINTAS JOB_STATUS",
        "SUMMARY STANDARD",
    ],
    "autocluster": [
        "SELECT",
        "AutoClusterId AS '   ID' WIDTH 5 PRINTF %5d",
        "JobCount AS COUNT WIDTH 5 PRINTF %5d",
        "JobUniverse AS UNIVERSE WIDTH -8 PRINTAS JOB_UNIVERSE OR ??",
        "RequestCPUs AS CPUS WIDTH 4 PRINTF %4d OR ??",
        "RequestMemory AS MEMORY WIDTH 6 PRINTF %6d OR ??",
        "RequestDisk AS '    DISK' WIDTH 8 PRINTF %8d OR ??",
        "Requirements AS REQUIREMENTS PRINTF %r",
        "SUMMARY NONE",
    ],
}


_COUNTS = ("Completed", "Removed", "Idle", "Running", "Held", "Suspended")


def _totals(prefix: str, title: str) -> list[str]:
    lines = [f"{prefix}Jobs AS Jobs PRINTF '{title}: %d jobs;'"]
    return lines + [
        f"{prefix}{name} AS {name} PRINTF '%d {name.lower()}{'' if name == 'Suspended' else ','}'"
        for name in _COUNTS
    ]


def summary_format(me: str | None, *, everyone: bool) -> list[str]:
    """Return the format of the totals: of the query, of a user ``me``, and if asked for of everyone."""
    lines = ["SELECT", *_totals("", "Total for query")]
    if me is not None:
        lines += _totals("My", f"\\nTotal for {me}")
    return lines + (_totals("Allusers", "\\nTotal for all users") if everyone else [])
