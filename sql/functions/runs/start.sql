-- The fence. PREPARE_JOB asks it and the starter waits for the answer: the run must be live, still own its
-- job, and not have started. Returns NULL if the job may start, otherwise the reason why it must not.
--
-- "starter" is the identity of the asking starter (pid and start time): the same starter asking again after a
-- lost answer gets the same answer, another one is refused. It is also the accept, where that got lost. From
-- here on the job is Running; EXECUTE event (001).
CREATE OR REPLACE FUNCTION fetchwork.start(run_id bigint, token uuid, starter text, slot text DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run;
    ended fetchwork.run_history;
    resources jsonb;
BEGIN
    live := fetchwork.live_run(run_id, token);
    IF live.run_id IS NULL THEN
        ended := fetchwork.ended_run(run_id, token);
        RETURN format('run %s is over: %s', start.run_id, coalesce(ended.reason, ended.outcome::text));
    END IF;
    IF live.end_requested IS NOT NULL THEN
        RETURN format('run %s is to end: %s', start.run_id, coalesce(live.end_reason, live.end_requested));
    END IF;
    IF live.state = 'running' THEN
        IF live.starter IS NOT DISTINCT FROM start.starter AND live.starter IS NOT NULL THEN
            RETURN NULL;
        END IF;
        RETURN format('run %s has started already', start.run_id);
    END IF;

    resources := fetchwork.slot_resources(live.host_id, coalesce(start.slot, live.slot));
    UPDATE fetchwork.run AS r
    SET state = 'running',
        job_status = 2,
        started_at = clock_timestamp(),
        contact_at = clock_timestamp(),
        starter = start.starter,
        accepted_at = coalesce(r.accepted_at, clock_timestamp()),
        slot = coalesce(start.slot, r.slot),
        deadline = clock_timestamp() + r.lease
    WHERE r.run_id = live.run_id;
    UPDATE fetchwork.job AS j
    SET job_status = 2,
        status_at = clock_timestamp(),
        run_id = live.run_id,
        num_starts = j.num_starts + 1,
        first_start_at = coalesce(j.first_start_at, clock_timestamp()),
        last_start_at = clock_timestamp(),
        facts = j.facts || jsonb_strip_nulls(jsonb_build_object(
            'LastJobStatus', 1,
            'LastMatchTime', extract(epoch FROM live.claimed_at)::bigint,
            'CpusProvisioned', resources -> 'Cpus',
            'MemoryProvisioned', resources -> 'Memory',
            'DiskProvisioned', resources -> 'Disk',
            'GPUsProvisioned', resources -> 'GPUs'
        ))
    WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
    INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, run_id, info)
    SELECT
        1, live.cluster_id, live.proc_id, live.run_id,
        jsonb_strip_nulls(jsonb_build_object(
            'ExecuteHost', h.name,
            'SlotName', coalesce(start.slot, live.slot),
            'ExecuteProps', nullif(resources, '{}')
        ))
    FROM fetchwork.host AS h
    WHERE h.host_id = live.host_id;
    RETURN NULL;
END
$$;
