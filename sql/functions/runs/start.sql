-- The fence. PREPARE_JOB asks it and the starter waits for the answer: the run must be live, still own its job, and not have started.
-- Returns NULL for "go", otherwise the reason why the job must not start.
--
-- "starter" is the identity of the asking starter (pid and start time): the same starter asking again after a lost answer hears the same,
-- another one is refused. It is also the accept, where that got lost. From here on the job is Running; EXECUTE event (001).
CREATE OR REPLACE FUNCTION fetchwork.start(run_id bigint, token uuid, starter text, slot text DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    its fetchwork.run;
    past fetchwork.run_history;
BEGIN
    its := fetchwork.live_run(run_id, token);
    IF its.run_id IS NULL THEN
        past := fetchwork.ended_run(run_id, token);
        RETURN format('run %s is over: %s', start.run_id, coalesce(past.reason, past.outcome::text));
    END IF;
    IF its.end_requested IS NOT NULL THEN
        RETURN format('run %s is to end: %s', start.run_id, coalesce(its.end_reason, its.end_requested));
    END IF;
    IF its.state = 'running' THEN
        IF its.starter IS NOT DISTINCT FROM start.starter AND its.starter IS NOT NULL THEN
            RETURN NULL;
        END IF;
        RETURN format('run %s has started already', start.run_id);
    END IF;

    UPDATE fetchwork.run AS r
    SET state = 'running', job_status = 2, started_at = clock_timestamp(), contact_at = clock_timestamp(), starter = start.starter,
        accepted_at = coalesce(r.accepted_at, clock_timestamp()), slot = coalesce(start.slot, r.slot), deadline = clock_timestamp() + r.lease
    WHERE r.run_id = its.run_id;
    UPDATE fetchwork.job AS j
    SET job_status = 2, status_at = clock_timestamp(), run_id = its.run_id, num_starts = j.num_starts + 1,
        first_start_at = coalesce(j.first_start_at, clock_timestamp()), last_start_at = clock_timestamp()
    WHERE j.cluster_id = its.cluster_id AND j.proc_id = its.proc_id;
    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, run_id, info)
    SELECT 1, its.cluster_id, its.proc_id, its.run_id, jsonb_build_object('ExecuteHost', h.name, 'SlotName', coalesce(start.slot, its.slot))
    FROM fetchwork.host AS h
    WHERE h.host_id = its.host_id;
    RETURN NULL;
END
$$;
