-- Writes EVICTED (004) for a run that started and ended without ending its job. requeued: the job exited by
-- itself, and its policy makes it run again.
CREATE OR REPLACE FUNCTION fetchwork.record_eviction(
    live fetchwork.run,
    reason text,
    report jsonb DEFAULT NULL,
    requeued boolean DEFAULT false
)
RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, run_id, info)
    SELECT 4, (live).cluster_id, (live).proc_id, (live).run_id, (
        jsonb_build_object('Checkpointed', false, 'TerminatedAndRequeued', requeued)
        || jsonb_strip_nulls(jsonb_build_object('Reason', record_eviction.reason))
        || coalesce(fetchwork.requested_resources(live, ran.report, ran.seconds), '{}')
        || CASE
            WHEN requeued THEN ran.ending
            ELSE (ran.ending - ARRAY['ReturnValue', 'TerminatedBySignal']) || '{"TerminatedNormally": false}'
        END
    )
    FROM (
        SELECT
            r.report, r.seconds, fetchwork.termination(r.report, r.seconds) AS ending
        FROM (
            SELECT
                coalesce((live).usage, '{}') || coalesce(record_eviction.report, '{}')
                    || coalesce((live).transfer, '{}') AS report,
                greatest(0, coalesce(
                    fetchwork.number_of(record_eviction.report -> 'JobDuration'),
                    extract(epoch FROM clock_timestamp() - (live).started_at)
                )) AS seconds
        ) AS r
    ) AS ran;
END;
