-- The times and the exit of a run, for TERMINATED and EVICTED events. If the report has the attributes of
-- note_transfer and bytes_moved, also the bytes of its files and of those of all runs. The names are
-- JobEventLog's where fetchwork has the value; fetchwork/queue/events/jobevents.py makes the rest.
CREATE OR REPLACE FUNCTION fetchwork.termination(report jsonb, run_s double precision)
RETURNS jsonb
LANGUAGE sql
STABLE
RETURN jsonb_strip_nulls(jsonb_build_object(
    'TerminatedNormally', (report -> 'ExitBySignal' = 'true') IS NOT TRUE,
    'ReturnValue', report -> 'ExitCode',
    'TerminatedBySignal', report -> 'ExitSignal',
    'RunSeconds', run_s,
    'RunUserCpu', report -> 'RemoteUserCpu',
    'RunSysCpu', report -> 'RemoteSysCpu',
    'SentBytes', report -> 'TransferOutputBytes',
    'ReceivedBytes', report -> 'TransferInputBytes',
    'TotalSentBytes', report -> 'BytesSent',
    'TotalReceivedBytes', report -> 'BytesRecvd'
));
