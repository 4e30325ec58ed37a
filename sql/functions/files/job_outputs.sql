-- What jobs of Owners that the caller may name have left and nobody has brought back: of the jobs "42.0",
-- "42" (a cluster), or of all with NULL; with "access_point", of those that were submitted to it; "awaited":
-- of those whose end waits for it (await_files), which costs what these are many. At most most_jobs of them,
-- after the job (after_cluster, after_proc), in the order of their ids. ad: what of the job's ad is about
-- files; files as run_files has them. Locks nothing.
CREATE OR REPLACE FUNCTION fetchwork.job_outputs(
    jobs text [],
    access_point text DEFAULT NULL,
    after_cluster integer DEFAULT -1,
    after_proc integer DEFAULT -1,
    most_jobs integer DEFAULT 100,
    awaited boolean DEFAULT false
)
RETURNS TABLE (cluster_id integer, proc_id integer, run_id bigint, owner text, ad jsonb, files jsonb)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    role name := fetchwork.invoker();
    sees_all boolean := fetchwork.is_admin(role)
        OR (
            fetchwork.acting_for(role) IS NULL AND pg_has_role(role, 'fetchwork_access_point', 'USAGE')
        );
    own text[] := fetchwork.own_owners(role);
BEGIN
    RETURN QUERY
    SELECT
        r.cluster_id, r.proc_id, r.run_id, e.owner,
        fetchwork.transfer_ad(c.ad || e.ad) || jsonb_build_object(
            'ClusterId', r.cluster_id, 'ProcId', r.proc_id
        ),
        (
            SELECT jsonb_agg(fetchwork.described_file(f) ORDER BY f.name)
            FROM fetchwork.job_file AS f
            WHERE f.cluster_id = r.cluster_id
                AND f.proc_id = r.proc_id
                AND f.direction = 'output'
                AND f.run_id = r.run_id
        )
    FROM (
        SELECT b.cluster_id, b.proc_id, b.run_id
        FROM fetchwork.bringing AS b
        WHERE job_outputs.awaited
            AND b.access_point = job_outputs.access_point
            AND (b.cluster_id, b.proc_id) > (job_outputs.after_cluster, job_outputs.after_proc)
        UNION ALL
        SELECT k.cluster_id, k.proc_id, fetchwork.ready_outputs(k.cluster_id, k.proc_id) AS run_id
        FROM (
            SELECT DISTINCT f.cluster_id, f.proc_id
            FROM fetchwork.job_file AS f
            WHERE NOT job_outputs.awaited
                AND f.direction = 'output'
                AND (f.cluster_id, f.proc_id) > (job_outputs.after_cluster, job_outputs.after_proc)
                AND (
                    job_outputs.jobs IS NULL
                    OR EXISTS (
                        SELECT FROM unnest(job_outputs.jobs) AS n (name)
                        CROSS JOIN LATERAL fetchwork.parse_job_id(n.name) AS id
                        WHERE id.cluster_id = f.cluster_id AND coalesce(id.proc_id, f.proc_id) = f.proc_id
                    )
                )
        ) AS k
    ) AS r
    JOIN fetchwork.cluster AS c ON c.cluster_id = r.cluster_id
    CROSS JOIN LATERAL (
        SELECT j.owner, j.ad
        FROM fetchwork.job AS j
        WHERE j.cluster_id = r.cluster_id AND j.proc_id = r.proc_id
        UNION ALL
        SELECT h.owner, h.ad
        FROM fetchwork.job_history AS h
        WHERE h.cluster_id = r.cluster_id AND h.proc_id = r.proc_id
        LIMIT 1
    ) AS e
    WHERE r.run_id IS NOT NULL
        AND (sees_all OR e.owner = ANY (own))
        AND (
            job_outputs.access_point IS NULL
            OR coalesce(e.ad, '{}') ->> 'FetchWorkAccessPoint' = job_outputs.access_point
            OR c.ad ->> 'FetchWorkAccessPoint' = job_outputs.access_point
        )
    ORDER BY r.cluster_id, r.proc_id
    LIMIT most_jobs;
END
$$;
