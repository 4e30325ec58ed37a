-- How a run went, for TERMINATED and EVICTED events: its time, its CPU time, and how its job ended, by
-- report. With what note_transfer and bytes_moved say in it, the bytes of its files and of those of all
-- runs, too. The names are those of JobEventLog where they are fetchwork's to give;
-- fetchwork/queue/events.py makes the rest.
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
