-- JOB_EXIT of a job that never ran, for finish(): 'withdrawn' if its end had been asked for, otherwise
-- 'could_not_start'. The caller has locked job and run.
CREATE OR REPLACE FUNCTION fetchwork.finish_not_run(live fetchwork.run, report jsonb)
RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF live.end_requested IS NULL THEN
        PERFORM fetchwork.could_not_start(
            live,
            CASE
                WHEN report ->> 'FetchWorkProblem' IS NOT NULL THEN report ->> 'FetchWorkProblem'
                WHEN report ? 'DeferralTime' THEN 'the starter did not start it: deferral time missed?'
                ELSE 'the starter could not start it, and HTCondor gives hooks no reason: '
                    'see StarterLog of the slot on the host'
            END,
            6,
            finish_not_run.report
        );
        RETURN 'could_not_start';
    END IF;
    PERFORM fetchwork.close_run(live, 'withdrawn', live.end_reason, finish_not_run.report);
    IF live.started_at IS NOT NULL THEN
        PERFORM fetchwork.record_eviction(live, live.end_reason, finish_not_run.report);
    END IF;
    PERFORM fetchwork.back_to_idle(live, live.end_reason);
    RETURN 'withdrawn';
END
$$;
