-- Asks for the end of the live runs of jobs. A run that has not started is withdrawn at once, and the fence
-- refuses it from then on; a started run is ended by its host's agent when it gets the notification, or at
-- its next update. Returns how many started runs are still to end. The caller has locked the jobs.
-- Locks: the runs.
CREATE OR REPLACE FUNCTION fetchwork.end_live_runs(
    clusters integer [],
    procs integer [],
    request text,
    reason text
)
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    named record;
    live fetchwork.run;
    ending integer := 0;
BEGIN
    FOR named IN
        SELECT k.cluster_id, k.proc_id
        FROM unnest(clusters, procs) AS k (cluster_id, proc_id)
        -- not an EXISTS, which becomes a join (job_of)
        WHERE (
            SELECT r.run_id
            FROM fetchwork.run AS r
            WHERE r.cluster_id = k.cluster_id AND r.proc_id = k.proc_id
        ) IS NOT NULL
        ORDER BY k.cluster_id, k.proc_id
    LOOP
        SELECT r.*
        INTO live
        FROM fetchwork.run AS r
        WHERE r.cluster_id = named.cluster_id AND r.proc_id = named.proc_id
        FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        IF live.state <> 'running' THEN
            PERFORM fetchwork.close_run(live, 'withdrawn', end_live_runs.reason);
            CONTINUE;
        END IF;
        UPDATE fetchwork.run AS r
        SET end_requested = request,
            end_reason = end_live_runs.reason,
            job_status = CASE request WHEN 'remove' THEN 3 WHEN 'hold' THEN 5 ELSE r.job_status END
        WHERE r.run_id = live.run_id;
        PERFORM fetchwork.tell_host(live.host_id);
        ending := ending + 1;
    END LOOP;
    RETURN ending;
END
$$;
