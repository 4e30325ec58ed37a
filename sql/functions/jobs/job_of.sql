-- The job of this id, if it is in the queue, for statements about many jobs: "FROM unnest(clusters, procs) AS
-- k CROSS JOIN LATERAL job_of(k.cluster_id, k.proc_id) AS j".
-- The planner may take a queue for empty that was just filled, because statistics date from the last VACUUM
-- or ANALYZE. A join of "job" with the ids would then read all jobs of the queue for each id. OFFSET 0
-- prevents that: it keeps one look-up by the key for each id, even when the function is expanded into its
-- caller.
CREATE OR REPLACE FUNCTION fetchwork.job_of(cluster_id integer, proc_id integer)
RETURNS SETOF fetchwork.job
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT j.*
    FROM fetchwork.job AS j
    WHERE j.cluster_id = job_of.cluster_id AND j.proc_id = job_of.proc_id
    OFFSET 0;
END;
