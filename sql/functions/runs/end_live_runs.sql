-- Asks for the end of the live runs of jobs, as end_live_run does for one; returns how many started runs live
-- on until then. The caller has locked the jobs.
CREATE OR REPLACE FUNCTION fetchwork.end_live_runs(
    clusters integer [],
    procs integer [],
    request text,
    reason text
)
RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    run record;
    ending integer := 0;
BEGIN
    FOR run IN
        SELECT r.cluster_id, r.proc_id
        FROM unnest(clusters, procs) AS k (cluster_id, proc_id)
        JOIN fetchwork.run AS r ON r.cluster_id = k.cluster_id AND r.proc_id = k.proc_id
        ORDER BY r.cluster_id, r.proc_id
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
