-- REPLY_FETCH said reject: ends the run, and the job waits again. With rest, the autocluster backs off from
-- this slot, longer each time, so that the same job is not offered and refused for ever; without rest the
-- slot was only busy at the moment. False if the run is over or has started. Harmless when repeated.
CREATE OR REPLACE FUNCTION fetchwork.reject(
    run_id bigint,
    token uuid,
    reason text DEFAULT 'rejected by the startd',
    rest boolean DEFAULT true
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run;
    first_rest double precision := fetchwork.setting_value('refusal_rest');
    longest_rest double precision := fetchwork.setting_value('max_refusal_rest');
BEGIN
    live := fetchwork.known_run(run_id, token);
    IF live.run_id IS NULL OR live.state = 'running' THEN
        RETURN false;
    END IF;
    PERFORM fetchwork.close_run(live, 'rejected', reject.reason);
    IF rest THEN
        INSERT INTO fetchwork.slot_rest AS s (host_id, slot, autocluster_id, rest_until)
        VALUES (
            live.host_id, live.slot, live.autocluster_id,
            clock_timestamp() + make_interval(secs => first_rest)
        )
        ON CONFLICT (host_id, slot, autocluster_id) DO UPDATE SET
            refusals = s.refusals + 1,
            rest_until = clock_timestamp() + make_interval(
                secs => least(first_rest * power(2, least(s.refusals, 30)), longest_rest)
            );
    END IF;
    PERFORM fetchwork.back_to_idle(live, NULL);
    RETURN true;
END
$$;
