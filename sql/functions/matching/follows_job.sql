-- Whether an autocluster's ad has attributes that change while a job is in the queue: then the job may belong
-- to another autocluster when it waits again.
CREATE OR REPLACE FUNCTION fetchwork.follows_job(matched jsonb)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN matched ?| ARRAY[
    'EnteredCurrentStatus', 'LastJobStatus', 'CompletionDate', 'ExitStatus', 'ExitBySignal', 'ExitCode',
    'ExitSignal', 'CurrentHosts',
    'NumJobStarts', 'NumRestarts', 'NumJobCompletions', 'NumHolds', 'NumHoldsByReason', 'NumSystemHolds',
    'NumShadowStarts', 'NumJobMatches', 'JobRunCount', 'TotalSuspensions', 'LastSuspensionTime',
    'RemoteWallClockTime', 'LastRemoteWallClockTime', 'RemoteUserCpu', 'RemoteSysCpu', 'CommittedTime',
    'CommittedSlotTime', 'CumulativeSlotTime', 'CumulativeRemoteUserCpu', 'CumulativeRemoteSysCpu',
    'CpusProvisioned', 'MemoryProvisioned', 'DiskProvisioned', 'GPUsProvisioned',
    'BlockReads', 'BlockWrites', 'BlockReadKbytes', 'BlockWriteKbytes', 'BytesSent', 'BytesRecvd',
    'ToE', 'ImageSize', 'MemoryUsage', 'ResidentSetSize',
    'JobStartDate', 'JobCurrentStartDate', 'LastMatchTime', 'LastRemoteHost', 'LastVacateTime',
    'VacateReason', 'VacateReasonCode', 'VacateReasonSubCode', 'LastHoldReason', 'LastHoldReasonCode',
    'LastHoldReasonSubCode', 'ReleaseReason'
];
