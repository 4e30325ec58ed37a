-- end_live_run for many jobs; returns how many started runs are still to end. The caller has locked the jobs.
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
    run record;
    ending integer := 0;
BEGIN
    FOR run IN
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
        IF fetchwork.end_live_run(
            run.cluster_id, run.proc_id, end_live_runs.request, end_live_runs.reason
        ) THEN
            ending := ending + 1;
        END IF;
    END LOOP;
    RETURN ending;
END
$$;
