-- Removes jobs that are Removed (X) while their runs still end (condor_rm -forcex), without waiting for their
-- processes, which their hosts then kill at once. Returns how many left. Events: EVICTED (004), ABORTED
-- (009). Locks: the jobs, then their runs.
CREATE OR REPLACE FUNCTION fetchwork.remove_now(
    jobs text [], reason text DEFAULT NULL, owner text DEFAULT NULL, gone_ok boolean DEFAULT false
)
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    role name := fetchwork.invoker();
    marked record;
    live fetchwork.run;
    gone integer := 0;
    clusters integer[];
    procs integer[];
    owners text[];
BEGIN
    FOR marked IN
        SELECT s.cluster_id, s.proc_id, s.owner
        FROM fetchwork.selected_jobs(jobs, remove_now.owner, role, gone_ok) AS s
        WHERE s.job_status = 3
    LOOP
        SELECT r.*
        INTO live
        FROM fetchwork.run AS r
        WHERE r.cluster_id = marked.cluster_id AND r.proc_id = marked.proc_id
        FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        live.end_reason := coalesce(remove_now.reason, live.end_reason);
        PERFORM fetchwork.close_run(live, 'removed', live.end_reason);
        PERFORM fetchwork.record_eviction(live, live.end_reason);
        PERFORM fetchwork.back_to_idle(live, live.end_reason);
        PERFORM fetchwork.tell_host(live.host_id);
        gone := gone + 1;
        clusters := clusters || marked.cluster_id;
        procs := procs || marked.proc_id;
        owners := owners || marked.owner;
    END LOOP;
    PERFORM fetchwork.note_job_action('remove_now', clusters, procs, owners, remove_now.reason);
    RETURN gone;
END
$$;
