-- The whole ad of a live run's job, with the counters that policy expressions read, by HTCondor's names: the
-- agent evaluates OnExit*, Periodic*, Allowed*Duration with it. NULL if the run is over, except a lost run:
-- it may still report, the policy then decides too (finish_late), and the ad is that of a running job.
CREATE OR REPLACE FUNCTION fetchwork.run_policy(run_id bigint, token uuid)
RETURNS jsonb
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run;
    ended fetchwork.run_history;
BEGIN
    SELECT r.*
    INTO live
    FROM fetchwork.run AS r
    WHERE r.run_id = run_policy.run_id AND fetchwork.proves(run_policy.token, r.token, r.host_id);
    IF NOT FOUND THEN
        SELECT h.*
        INTO ended
        FROM fetchwork.run_history AS h
        WHERE h.run_id = run_policy.run_id
            AND h.outcome = 'lost'
            AND fetchwork.proves(run_policy.token, h.token, h.host_id);
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        -- in the form of a live run
        live := jsonb_populate_record(NULL::fetchwork.run, to_jsonb(ended));
        live.job_status := 2;
    END IF;
    RETURN (
        SELECT fetchwork.whole_ad(j) || jsonb_strip_nulls(jsonb_build_object(
            'JobCurrentStartDate', extract(epoch FROM live.started_at)::bigint,
            'JobCurrentStartExecutingDate', extract(epoch FROM live.started_at)::bigint,
            'LastCkptTime', live.transfer -> 'LastCkptTime',
            'JobStatus', live.job_status,
            -- of this run, for AllowedExecuteDuration
            'FetchWorkSuspendedTime', live.suspended_s
                + coalesce(extract(epoch FROM clock_timestamp() - live.suspended_at), 0)
        )) || coalesce(live.usage, '{}')
        FROM fetchwork.job AS j
        WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id
    );
END
$$;
