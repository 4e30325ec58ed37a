-- The access point that has to deliver a run's outputs before the job counts as ended. NULL if the run has no
-- kept outputs, or if the job was not submitted at an access point.
CREATE OR REPLACE FUNCTION fetchwork.leaves_for_access_point(run_id bigint, cluster integer, proc integer)
RETURNS text
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT (c.ad || j.ad) ->> 'FetchWorkAccessPoint'
    FROM fetchwork.job AS j
    JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id
    WHERE j.cluster_id = leaves_for_access_point.cluster
        AND j.proc_id = leaves_for_access_point.proc
        AND EXISTS (
            SELECT FROM fetchwork.job_file AS f
            WHERE f.cluster_id = leaves_for_access_point.cluster
                AND f.proc_id = leaves_for_access_point.proc
                AND f.direction = 'output'
                AND f.run_id = leaves_for_access_point.run_id
        );
END;
