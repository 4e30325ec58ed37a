-- The outputs of one Owner's jobs whose ends wait until this access point delivers them (await_files), in the
-- form of job_outputs: at most most_jobs jobs after (after_cluster, after_proc), in the order of their ids.
-- Empty if the caller may not name the Owner. A call costs what it returns, however many jobs wait. Locks
-- nothing.
CREATE OR REPLACE FUNCTION fetchwork.awaited_outputs(
    access_point text,
    of_owner text,
    after_cluster integer DEFAULT -1,
    after_proc integer DEFAULT -1,
    most_jobs integer DEFAULT 100
)
RETURNS TABLE (cluster_id integer, proc_id integer, run_id bigint, owner text, ad jsonb, files jsonb)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    role name := fetchwork.invoker();
BEGIN
    IF NOT (
        fetchwork.is_admin(role)
        OR awaited_outputs.of_owner = ANY (fetchwork.own_owners(role))
        OR fetchwork.serves_all(role)
    ) THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT b.cluster_id, b.proc_id, b.run_id, l.owner, l.ad, l.files
    FROM fetchwork.bringing AS b
    CROSS JOIN LATERAL fetchwork.left_outputs(b.cluster_id, b.proc_id, b.run_id) AS l
    WHERE b.access_point = awaited_outputs.access_point
        AND b.owner = awaited_outputs.of_owner
        AND (b.cluster_id, b.proc_id) > (awaited_outputs.after_cluster, awaited_outputs.after_proc)
    ORDER BY b.cluster_id, b.proc_id
    LIMIT most_jobs;
END
$$;
