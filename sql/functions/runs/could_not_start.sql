-- Ends an accepted run whose job never ran, because its starter failed (bad Cmd, Iwd, account, ...). HTCondor
-- has no hook that tells the cause, so "reason" is fetchwork's own finding. Counts the try: at the limit the
-- job is Held with that reason, before it the job waits with a growing delay. With at_once the job is Held
-- now, as by HTCondor's shadow when it knows the fault. The caller has locked job and run.
CREATE OR REPLACE FUNCTION fetchwork.could_not_start(
    live fetchwork.run,
    reason text,
    code integer DEFAULT 6,
    report jsonb DEFAULT NULL,
    subcode integer DEFAULT 0,
    at_once boolean DEFAULT false
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    tries integer;
    status smallint;
    maximum integer := fetchwork.setting_value('max_not_started');
    delay double precision := fetchwork.setting_value('retry_delay');
    longest_delay double precision := fetchwork.setting_value('max_retry_delay');
BEGIN
    PERFORM fetchwork.close_run(live, 'could_not_start', could_not_start.reason, report);
    -- a job that missed its time (20) proves nothing about the host
    IF code <> 20 THEN
        PERFORM fetchwork.note_start(live, false, could_not_start.reason);
    END IF;
    UPDATE fetchwork.job AS j
    SET num_not_started = j.num_not_started + 1, last_reason = could_not_start.reason
    WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id
    RETURNING j.num_not_started, j.job_status INTO tries, status;
    IF live.started_at IS NOT NULL THEN
        PERFORM fetchwork.record_eviction(live, could_not_start.reason);
    END IF;
    IF (at_once OR tries >= maximum) AND status IN (1, 2, 7) THEN
        PERFORM fetchwork.hold_jobs(
            ARRAY[live.cluster_id],
            ARRAY[live.proc_id],
            CASE
                WHEN at_once THEN could_not_start.reason
                ELSE format(
                    'could not start %s times, last on %s: %s', tries, live.slot, could_not_start.reason
                )
            END,
            code,
            subcode
        );
        UPDATE fetchwork.job AS j
        SET num_not_started = 0
        WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
    ELSE
        PERFORM fetchwork.back_to_idle(
            live,
            could_not_start.reason,
            make_interval(secs => least(delay * power(2, tries - 1), longest_delay))
        );
    END IF;
END
$$;
