-- Ends the wait of these jobs' ends for their files: the jobs are held or removed, and their last exit does
-- not count. The caller has locked the jobs.
CREATE OR REPLACE FUNCTION fetchwork.forget_bringing(clusters integer [], procs integer [])
RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    DELETE FROM fetchwork.bringing AS b
    WHERE b.ctid = ANY (
        ARRAY(
            -- OFFSET 0: as in job_of
            SELECT old.ctid
            FROM unnest(forget_bringing.clusters, forget_bringing.procs) AS k (cluster_id, proc_id)
            CROSS JOIN LATERAL (
                SELECT n.ctid
                FROM fetchwork.bringing AS n
                WHERE n.cluster_id = k.cluster_id AND n.proc_id = k.proc_id
                OFFSET 0
            ) AS old
        )
    );
END;
