-- JOB_EXIT of a job that never ran, for finish(): 'withdrawn' if its end was requested, otherwise
-- 'could_not_start'. A job that was too late for its DeferralTime is Held, as by a schedd: its starter checks
-- that after PREPARE_JOB, and does not report it. The caller has locked job and run.
CREATE OR REPLACE FUNCTION fetchwork.finish_not_run(live fetchwork.run, report jsonb)
RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
    late_at timestamptz;
    missed boolean;
    prepared_at timestamptz := CASE
        WHEN live.transfer IS NULL THEN coalesce(live.started_at, clock_timestamp())
        ELSE clock_timestamp()
    END;
BEGIN
    IF live.end_requested IS NULL THEN
        -- if the time is an expression, the starter reports its value
        SELECT d.late_at
        INTO late_at
        FROM fetchwork.job AS j
        JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id
        CROSS JOIN LATERAL fetchwork.deferral(
            c.ad || j.ad || jsonb_strip_nulls(jsonb_build_object('DeferralTime', report -> 'DeferralTime'))
        ) AS d
        WHERE j.cluster_id = live.cluster_id
            AND j.proc_id = live.proc_id
            AND (c.ad || j.ad) ? 'DeferralTime';
        -- clocks differ
        missed := coalesce(late_at - interval '1 second' <= prepared_at, false)
            AND report ->> 'FetchWorkProblem' IS NULL;
        PERFORM fetchwork.could_not_start(
            live,
            CASE
                WHEN missed THEN 'Job missed deferred execution time'
                ELSE coalesce(
                    report ->> 'FetchWorkProblem',
                    'the starter could not start it, and HTCondor gives hooks no reason: '
                    'see StarterLog of the slot on the host'
                )
            END,
            CASE WHEN missed THEN 20 ELSE 6 END,
            finish_not_run.report,
            at_once => missed
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
