-- EVICTED (004) for a run that started and ended without ending its job.
CREATE OR REPLACE FUNCTION fetchwork.record_eviction(
    live fetchwork.run,
    reason text,
    report jsonb DEFAULT NULL
)
RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, run_id, info)
    VALUES (4, (live).cluster_id, (live).proc_id, (live).run_id, jsonb_strip_nulls(jsonb_build_object(
        'Checkpointed', false,
        'TerminatedAndRequeued', report ? 'ExitCode',
        'Reason', record_eviction.reason,
        'ReturnValue', report -> 'ExitCode',
        'TerminatedBySignal', report -> 'ExitSignal'
    )));
END;
