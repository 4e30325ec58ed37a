-- Makes jobs of the late clusters of which these jobs have just left Idle, or, with ended, the queue. It
-- tries only if about a fifth of the jobs that may be there has gone, so that jobs are made many at a time,
-- and costs one look into an empty table if there are no late clusters. ended null: jobs of any state left
-- the queue, so it tries in any case. Locks: as materialize.
CREATE OR REPLACE FUNCTION fetchwork.materialize_after(clusters integer [], procs integer [], ended boolean)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    due integer;
BEGIN
    IF NOT EXISTS (SELECT FROM fetchwork.factory) THEN
        RETURN;
    END IF;
    FOR due IN
        SELECT k.cluster_id
        FROM unnest(clusters, procs) AS k (cluster_id, proc_id)
        CROSS JOIN LATERAL (
            SELECT CASE WHEN ended IS NULL THEN 0 WHEN ended THEN f.end_mark ELSE f.start_mark END AS mark
            FROM fetchwork.factory AS f
            WHERE f.cluster_id = k.cluster_id
            OFFSET 0
        ) AS f
        WHERE k.proc_id >= f.mark
        GROUP BY k.cluster_id
    LOOP
        PERFORM fetchwork.materialize(due);
    END LOOP;
END
$$;
