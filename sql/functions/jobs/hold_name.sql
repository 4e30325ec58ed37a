-- HTCondor's name of a hold code in NumHoldsByReason.
CREATE OR REPLACE FUNCTION fetchwork.hold_name(code integer)
RETURNS text
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN CASE code
    WHEN 1 THEN 'UserRequest'
    WHEN 3 THEN 'JobPolicy'
    WHEN 4 THEN 'CorruptedCredential'
    WHEN 5 THEN 'JobPolicyUndefined'
    WHEN 6 THEN 'FailedToCreateProcess'
    WHEN 7 THEN 'UnableToOpenOutput'
    WHEN 8 THEN 'UnableToOpenInput'
    WHEN 9 THEN 'UnableToOpenOutputStream'
    WHEN 10 THEN 'UnableToOpenInputStream'
    WHEN 12 THEN 'TransferOutputError'
    WHEN 13 THEN 'TransferInputError'
    WHEN 14 THEN 'IwdError'
    WHEN 15 THEN 'SubmittedOnHold'
    WHEN 19 THEN 'HookPrepareJobFailure'
    WHEN 20 THEN 'MissedDeferredExecutionTime'
    WHEN 21 THEN 'StartdHeldJob'
    WHEN 23 THEN 'FailedToAccessUserAccount'
    WHEN 26 THEN 'SystemPolicy'
    WHEN 32 THEN 'MaxTransferInputSizeExceeded'
    WHEN 33 THEN 'MaxTransferOutputSizeExceeded'
    WHEN 34 THEN 'JobOutOfResources'
    WHEN 45 THEN 'SingularityTestFailed'
    WHEN 46 THEN 'JobDurationExceeded'
    WHEN 47 THEN 'JobExecuteExceeded'
    ELSE 'Unspecified'
END;
