-- The run of a job whose outputs are to be delivered: the last one that left outputs and ended by itself.
-- NULL if there is no such run, as while the run is live.
CREATE OR REPLACE FUNCTION fetchwork.ready_outputs(cluster integer, proc integer)
RETURNS bigint
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT max(f.run_id)
    FROM fetchwork.job_file AS f
    WHERE f.cluster_id = ready_outputs.cluster
        AND f.proc_id = ready_outputs.proc
        AND f.direction = 'output'
        AND EXISTS (
            SELECT FROM fetchwork.run_history AS h
            WHERE h.run_id = f.run_id AND h.outcome = 'completed'
        );
END;
