-- Remembers a checkpoint of which plugins have taken files to URLs, with the transaction that keeps it: until
-- somebody has deleted it there (forget_checkpoint). URLs are a host's word, and its owner's plug-in deletes
-- what they name: so only what lies in a directory that is called as the job and has a number
-- (sandbox/destination.py).
CREATE OR REPLACE FUNCTION fetchwork.note_stored(cluster integer, proc integer, run_id bigint)
RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    INSERT INTO fetchwork.stored_checkpoint AS s (cluster_id, proc_id, base, owner, names, access_point)
    SELECT
        f.cluster_id, f.proc_id, b.base, j.owner, array_agg(f.name ORDER BY f.name),
        coalesce(j.ad ->> 'FetchWorkAccessPoint', c.ad ->> 'FetchWorkAccessPoint')
    FROM fetchwork.job_file AS f
    JOIN fetchwork.job AS j ON j.cluster_id = f.cluster_id AND j.proc_id = f.proc_id
    JOIN fetchwork.cluster AS c ON c.cluster_id = j.cluster_id
    CROSS JOIN LATERAL (
        SELECT
            left(f.url, -length(f.name)) AS base,
            '/' || replace(fetchwork.global_job_id(j.cluster_id, j.proc_id, j.q_date), '#', '_') AS own
    ) AS b
    WHERE f.cluster_id = note_stored.cluster
        AND f.proc_id = note_stored.proc
        AND f.direction = 'spool'
        AND f.run_id = note_stored.run_id
        AND length(f.url) > length(f.name)
        AND right(f.url, length(f.name)) = f.name
        AND right(regexp_replace(b.base, '/[0-9]{4,}/$', ''), length(b.own)) = b.own
    GROUP BY f.cluster_id, f.proc_id, b.base, j.owner, j.ad, c.ad
    ON CONFLICT (cluster_id, proc_id, base) DO UPDATE SET names = ARRAY(
        SELECT DISTINCT n.name
        FROM unnest(s.names || excluded.names) AS n (name)
        ORDER BY n.name
    );
END;
