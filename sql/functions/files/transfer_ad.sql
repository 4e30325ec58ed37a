-- The attributes of a job's whole ad that the transfer of its files reads, so that the ad that FETCH_WORK
-- prints need not carry lists of files. A file name with $$(Attr) has the value of the last offer
-- (note_match).
CREATE OR REPLACE FUNCTION fetchwork.transfer_ad(ad jsonb)
RETURNS jsonb
LANGUAGE sql
IMMUTABLE
BEGIN ATOMIC
    SELECT coalesce(
            jsonb_object_agg(
                e.key,
                CASE
                    WHEN e.value #>> '{}' ~ '[$]{2}[(]'
                            AND e.key = ANY (ARRAY[
                                'Cmd', 'Iwd', 'In', 'Out', 'Err', 'TransferInput', 'TransferOutput',
                                'TransferOutputRemaps', 'TransferPlugins', 'OutputDestination',
                                'PublicInputFiles', 'FailureFiles'
                            ])
                        THEN coalesce(transfer_ad.ad -> ('MATCH_EXP_' || e.key), e.value)
                    ELSE e.value
                END
            ),
            '{}'
        )
    FROM jsonb_each(transfer_ad.ad) AS e
    WHERE e.key = ANY (ARRAY[
        'Owner', 'Cmd', 'Iwd', 'In', 'Out', 'Err', 'FetchWorkFiles', 'FetchWorkAccessPoint',
        'ShouldTransferFiles', 'WhenToTransferOutput', 'TransferExecutable', 'TransferIn', 'TransferOut',
        'TransferErr', 'TransferInput', 'TransferOutput', 'TransferOutputRemaps', 'TransferPlugins',
        'OutputDestination', 'PublicInputFiles', 'PreserveRelativePaths', 'MaxTransferInputMB',
        'MaxTransferOutputMB', 'FailureFiles', 'JobSuccessExitCode', 'SuccessExitCode', 'EC2AccessKeyId',
        'EC2SecretAccessKey', 'AWSRegion', 'WantFTOnCheckpoint', 'SuccessCheckpointExitCode',
        'SuccessCheckpointExitBySignal', 'SuccessCheckpointExitSignal', 'TransferCheckpoint',
        'CheckpointDestination'
    ])
        -- attributes for plugins: PluginData, SCHEME_PluginData
        OR lower(e.key) LIKE '%plugindata';
END;
