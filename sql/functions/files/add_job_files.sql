-- Names the files that the jobs of a cluster need, in the transaction that submits the cluster.
-- files: [{"proc": n or absent for all jobs of the cluster, "name", "mode", "size", "sha256" in hex and/or
-- "path" at the submitter, or "url"}]; for a directory {"name": "d/", "mode"}. The later of two entries of
-- one name counts. Contents belong to the job's owner (end_content).
-- Errors: FWINV (a cluster of another transaction, a name), FWNOT (a content is not stored, or no longer:
-- send it and submit again), FWDEN (more than max_job_file_bytes).
-- Locks: the contents with KEY SHARE until commit, so that they are not deleted.
CREATE OR REPLACE FUNCTION fetchwork.add_job_files(cluster integer, files jsonb)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    problem text;
    max_job numeric := fetchwork.setting_value('max_job_file_bytes');
    bytes numeric;
BEGIN
    IF NOT EXISTS (
        SELECT FROM fetchwork.cluster AS c
        WHERE c.cluster_id = add_job_files.cluster
            AND c.submitted_by = fetchwork.asker()
            AND c.submitted_at = now()
    ) THEN
        RAISE EXCEPTION 'cluster % was not made in this transaction; allowed: add files right after '
            'making it',
            cluster USING ERRCODE = 'FWINV';
    END IF;
    SELECT left(f.file ->> 'name', 200)
    INTO problem
    FROM jsonb_array_elements(files) AS f (file)
    WHERE NOT fetchwork.is_sandbox_name(f.file ->> 'name')
        OR coalesce((f.file ->> 'proc')::integer, 0) < 0
        OR NOT coalesce(f.file ?| ARRAY['sha256', 'path', 'url'] OR f.file ->> 'name' LIKE '%/', false)
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'an input is called %; allowed: a relative path without "..", and where it '
            'comes from',
            quote_nullable(problem) USING ERRCODE = 'FWINV';
    END IF;
    INSERT INTO fetchwork.job_file (
        cluster_id, proc_id, direction, run_id, owner, name, permissions, size, content_id, path, url
    )
    SELECT DISTINCT ON (coalesce((f.file ->> 'proc')::integer, -1), f.file ->> 'name')
        add_job_files.cluster, coalesce((f.file ->> 'proc')::integer, -1), 'input', 0, j.owner,
        f.file ->> 'name',
        coalesce((f.file ->> 'mode')::integer & 511, 420), coalesce((f.file ->> 'size')::bigint, 0),
        CASE
            WHEN f.file ? 'sha256' THEN coalesce(
                (
                    SELECT max(c.content_id)
                    FROM fetchwork.content AS c
                    WHERE c.owner = j.owner
                        AND c.run_id IS NULL
                        AND c.sha256 = fetchwork.checked_sha256(f.file ->> 'sha256')
                        AND c.size = (f.file ->> 'size')::bigint
                        AND c.complete
                ),
                -1
            )
        END,
        f.file ->> 'path', f.file ->> 'url'
    FROM jsonb_array_elements(files) WITH ORDINALITY AS f (file, n)
    JOIN fetchwork.job AS j ON j.cluster_id = add_job_files.cluster
        AND j.proc_id = coalesce((f.file ->> 'proc')::integer, 0)
    ORDER BY coalesce((f.file ->> 'proc')::integer, -1), f.file ->> 'name', f.n DESC
    ON CONFLICT (cluster_id, proc_id, direction, run_id, name) DO UPDATE SET
        permissions = excluded.permissions, size = excluded.size, content_id = excluded.content_id,
        path = excluded.path, url = excluded.url;

    SELECT
        coalesce(max(s.bytes) FILTER (WHERE s.proc_id = -1), 0)
        + coalesce(max(s.bytes) FILTER (WHERE s.proc_id <> -1), 0)
    INTO bytes
    FROM (
        SELECT f.proc_id, sum(f.size) AS bytes
        FROM fetchwork.job_file AS f
        WHERE f.cluster_id = add_job_files.cluster AND f.content_id IS NOT NULL
        GROUP BY f.proc_id
    ) AS s;
    IF bytes > max_job THEN
        RAISE EXCEPTION 'the input files of a job have % bytes; allowed: % (setting max_job_file_bytes)',
            bytes, max_job USING ERRCODE = 'FWDEN';
    END IF;
EXCEPTION
    WHEN foreign_key_violation THEN
        RAISE EXCEPTION 'a content that the jobs need is not stored, or not any more: send it again'
            USING ERRCODE = 'FWNOT';
END
$$;
