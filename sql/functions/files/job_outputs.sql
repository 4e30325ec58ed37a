-- The undelivered outputs of jobs whose Owners the caller may name: of the jobs "42.0", "42" (a cluster), or
-- with NULL of all that were not removed; with access_point, of jobs submitted to it; with of_owner, of this
-- Owner's jobs. At most
-- most_jobs jobs after (after_cluster, after_proc), in the order of their ids. A call costs time by the
-- outputs of these owners, however many others have. ad, files: left_outputs. Locks nothing.
CREATE OR REPLACE FUNCTION fetchwork.job_outputs(
    jobs text [],
    access_point text DEFAULT NULL,
    after_cluster integer DEFAULT -1,
    after_proc integer DEFAULT -1,
    most_jobs integer DEFAULT 100,
    of_owner text DEFAULT NULL
)
RETURNS TABLE (cluster_id integer, proc_id integer, run_id bigint, owner text, ad jsonb, files jsonb)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- the arguments decide which index is best
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
DECLARE
    role name := fetchwork.invoker();
    sees_all boolean := fetchwork.is_admin(role) OR fetchwork.serves_all(role);
    own text[] := fetchwork.own_owners(role);
    -- NULL: all owners
    owners text[] := CASE
        WHEN job_outputs.of_owner IS NULL THEN CASE WHEN NOT sees_all THEN own END
        WHEN sees_all OR job_outputs.of_owner = ANY (own) THEN ARRAY[job_outputs.of_owner]
        ELSE '{}'
    END;
    only_owner text := CASE WHEN cardinality(owners) = 1 THEN owners[1] END;
    clusters integer[];
    whole integer[];
    single bigint[];
BEGIN
    IF job_outputs.jobs IS NOT NULL THEN
        SELECT
            coalesce(array_agg(id.cluster_id), '{}'),
            coalesce(array_agg(id.cluster_id) FILTER (WHERE id.proc_id IS NULL), '{}'),
            coalesce(
                array_agg(id.cluster_id::bigint << 32 | id.proc_id) FILTER (WHERE id.proc_id IS NOT NULL),
                '{}'
            )
        INTO clusters, whole, single
        FROM unnest(job_outputs.jobs) AS n (name)
        CROSS JOIN LATERAL fetchwork.parse_job_id(n.name) AS id;
    END IF;
    RETURN QUERY
    SELECT k.cluster_id, k.proc_id, r.run_id, l.owner, l.ad, l.files
    FROM (
        SELECT DISTINCT f.cluster_id, f.proc_id
        FROM fetchwork.job_file AS f
        WHERE f.direction = 'output'
            AND (f.cluster_id, f.proc_id) > (job_outputs.after_cluster, job_outputs.after_proc)
            AND (owners IS NULL OR f.owner = ANY (owners))
            AND (only_owner IS NULL OR f.owner = only_owner)
            AND (
                (
                    job_outputs.jobs IS NULL
                    AND NOT EXISTS (
                        SELECT FROM fetchwork.job_history AS h
                        WHERE h.cluster_id = f.cluster_id AND h.proc_id = f.proc_id AND h.job_status = 3
                    )
                )
                OR (
                    f.cluster_id = ANY (clusters)
                    AND (
                        f.cluster_id = ANY (whole)
                        OR (f.cluster_id::bigint << 32 | f.proc_id) = ANY (single)
                    )
                )
            )
        ORDER BY f.cluster_id, f.proc_id
    ) AS k
    CROSS JOIN LATERAL fetchwork.ready_outputs(k.cluster_id, k.proc_id) AS r (run_id)
    CROSS JOIN LATERAL fetchwork.left_outputs(k.cluster_id, k.proc_id, r.run_id) AS l
    WHERE r.run_id IS NOT NULL
        AND (job_outputs.access_point IS NULL OR l.access_point = job_outputs.access_point)
    ORDER BY k.cluster_id, k.proc_id
    LIMIT most_jobs;
END
$$;
