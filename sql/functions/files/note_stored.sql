-- Remembers the URLs of a checkpoint that plugins have uploaded, in the transaction that keeps it, until the
-- checkpoint is deleted there (forget_checkpoint). The host chooses the URLs, and a plug-in of the job's
-- owner deletes their files: so only URLs in a directory with the job's name and a number count
-- (sandbox/destination.py).
CREATE OR REPLACE FUNCTION fetchwork.note_stored(cluster integer, proc integer, run_id bigint)
RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    -- one value of the ads, which may be large, for all files
    WITH noted AS MATERIALIZED (
        SELECT
            j.owner,
            '/' || replace(fetchwork.global_job_id(j.cluster_id, j.proc_id, j.q_date), '#', '_') AS own,
            coalesce(j.ad ->> 'FetchWorkAccessPoint', c.ad ->> 'FetchWorkAccessPoint') AS access_point
        FROM fetchwork.job AS j
        JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id
        WHERE j.cluster_id = note_stored.cluster AND j.proc_id = note_stored.proc
    ),

    files AS MATERIALIZED (
        SELECT f.name, left(f.url, -length(f.name)) AS base
        FROM fetchwork.job_file AS f
        WHERE f.cluster_id = note_stored.cluster
            AND f.proc_id = note_stored.proc
            AND f.direction = 'spool'
            AND f.run_id = note_stored.run_id
            AND length(f.url) > length(f.name)
            AND right(f.url, length(f.name)) = f.name
    ),

    stored AS MATERIALIZED (
        SELECT f.base, array_agg(f.name ORDER BY f.name) AS names
        FROM files AS f
        GROUP BY f.base
    )

    INSERT INTO fetchwork.stored_checkpoint AS s (cluster_id, proc_id, base, owner, names, access_point)
    SELECT note_stored.cluster, note_stored.proc, f.base, n.owner, f.names, n.access_point
    FROM stored AS f
    CROSS JOIN noted AS n
    WHERE right(regexp_replace(f.base, '/[0-9]{4,}/$', ''), length(n.own)) = n.own
    ON CONFLICT (cluster_id, proc_id, base) DO UPDATE SET names = ARRAY(
        SELECT DISTINCT u.name
        FROM unnest(s.names || excluded.names) AS u (name)
        ORDER BY u.name
    );
END;
