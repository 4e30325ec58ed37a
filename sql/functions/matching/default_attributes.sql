-- The attributes that every HTCondor job's ad has from its submission on, which fetchwork does not store: the
-- job's own ad, the queue's columns and the facts of its life override them.
CREATE OR REPLACE FUNCTION fetchwork.default_attributes()
RETURNS jsonb
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN '{
    "MyType": "Job", "TargetType": "Machine", "JobSubmitMethod": 2, "JobNotification": 0,
    "MinHosts": 1, "MaxHosts": 1, "CurrentHosts": 0, "JobLeaseDuration": 2400, "LeaveJobInQueue": false,
    "Rank": 0.0, "ShouldTransferFiles": "IF_NEEDED", "WhenToTransferOutput": "ON_EXIT",
    "ExitBySignal": false, "ExitStatus": 0, "ImageSize": 0,
    "NumCkpts": 0, "NumCkpts_RAW": 0,
    "NumRestarts": 0, "NumSystemHolds": 0, "TotalSuspensions": 0, "LastSuspensionTime": 0,
    "CommittedTime": 0, "CommittedSlotTime": 0, "CommittedSuspensionTime": 0, "CumulativeSlotTime": 0,
    "CumulativeSuspensionTime": 0, "CumulativeRemoteUserCpu": 0.0, "CumulativeRemoteSysCpu": 0.0
}'::jsonb;
