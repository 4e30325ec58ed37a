-- What of a job's whole ad the transfer of its files looks at, so that lists of files need not travel in the
-- ad that FETCH_WORK prints.
CREATE OR REPLACE FUNCTION fetchwork.transfer_ad(ad jsonb)
RETURNS jsonb
LANGUAGE sql
IMMUTABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT coalesce(jsonb_object_agg(e.key, e.value), '{}')
    FROM jsonb_each(transfer_ad.ad) AS e
    WHERE e.key = ANY (ARRAY[
        'Owner', 'Cmd', 'Iwd', 'In', 'Out', 'Err', 'FetchWorkFiles', 'FetchWorkAccessPoint',
        'ShouldTransferFiles', 'WhenToTransferOutput', 'TransferExecutable', 'TransferIn', 'TransferOut',
        'TransferErr', 'TransferInput', 'TransferOutput', 'TransferOutputRemaps', 'TransferPlugins',
        'OutputDestination', 'PublicInputFiles', 'PreserveRelativePaths', 'MaxTransferInputMB',
        'MaxTransferOutputMB', 'FailureFiles', 'JobSuccessExitCode', 'SuccessExitCode', 'EC2AccessKeyId',
        'EC2SecretAccessKey', 'AWSRegion', 'WantFTOnCheckpoint', 'SuccessCheckpointExitCode',
        'SuccessCheckpointExitBySignal', 'SuccessCheckpointExitSignal', 'TransferCheckpoint'
    ]);
END;
