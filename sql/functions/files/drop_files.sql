-- Deletes the files that ended jobs no longer need: their inputs, the inputs and the key of their cluster
-- after its last job, files that their runs saved, outputs of runs that did not end by themselves, and
-- contents that no job names any more. Adds up the stored bytes. maintain_queue calls it, one call at a time,
-- at most 500 jobs in a call.
CREATE OR REPLACE FUNCTION fetchwork.drop_files()
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    clusters integer[];
    procs integer[];
    dropped bigint[];
    dropped_clusters bigint[];
BEGIN
    IF NOT EXISTS (SELECT FROM fetchwork.files_over AS o)
        AND NOT EXISTS (SELECT FROM fetchwork.content_change AS c)
        OR NOT fetchwork.take_turn('files')
    THEN
        RETURN 0;
    END IF;
    WITH over AS (
        DELETE FROM fetchwork.files_over AS o
        WHERE o.ctid = ANY (ARRAY(SELECT n.ctid FROM fetchwork.files_over AS n LIMIT 500))
        RETURNING o.cluster_id, o.proc_id
    )
    SELECT array_agg(o.cluster_id), array_agg(o.proc_id)
    INTO clusters, procs
    FROM over AS o
    -- an ended job may be back in the queue
    WHERE NOT EXISTS (
        SELECT FROM fetchwork.job AS j
        WHERE j.cluster_id = o.cluster_id AND j.proc_id = o.proc_id
    );
    WITH gone AS (
        DELETE FROM fetchwork.job_file AS f
        USING unnest(clusters, procs) AS k (cluster_id, proc_id)
        WHERE f.cluster_id = k.cluster_id
            AND f.proc_id = k.proc_id
            AND (
                f.direction <> 'output'
                OR f.run_id IS DISTINCT FROM fetchwork.ready_outputs(k.cluster_id, k.proc_id)
            )
        RETURNING f.content_id
    )
    SELECT array_agg(DISTINCT g.content_id)
    INTO dropped
    FROM gone AS g;
    WITH gone AS (
        DELETE FROM fetchwork.job_file AS f
        WHERE f.cluster_id = ANY (ARRAY(
                SELECT DISTINCT k.cluster_id
                FROM unnest(clusters) AS k (cluster_id)
                WHERE NOT EXISTS (SELECT FROM fetchwork.job AS j WHERE j.cluster_id = k.cluster_id)
            ))
            AND f.proc_id = -1
        RETURNING f.content_id
    )
    SELECT array_agg(DISTINCT g.content_id)
    INTO dropped_clusters
    FROM gone AS g;
    PERFORM fetchwork.delete_contents(dropped || dropped_clusters);
    DELETE FROM fetchwork.job_key AS b
    WHERE b.cluster_id = ANY (clusters)
        AND NOT EXISTS (SELECT FROM fetchwork.job AS j WHERE j.cluster_id = b.cluster_id);

    WITH change AS (
        DELETE FROM fetchwork.content_change AS c
        RETURNING c.owner, c.bytes
    )
    INSERT INTO fetchwork.content_tally AS t (owner, bytes)
    SELECT c.owner, sum(c.bytes)
    FROM change AS c
    GROUP BY c.owner
    ON CONFLICT (owner) DO UPDATE SET bytes = t.bytes + excluded.bytes;
    DELETE FROM fetchwork.content_tally AS t
    WHERE t.bytes = 0;
    RETURN coalesce(cardinality(clusters), 0);
END
$$;
