-- The live runs of an access point's scheduler-universe jobs, for the access point itself. Runs it does not
-- know are left over from before its restart; runs with end_requested must be ended. Renews the leases of the
-- runs in alive, once a quarter of them is over. Locks: the renewed runs; skips locked ones.
CREATE OR REPLACE FUNCTION fetchwork.tend_scheduler_runs(access_point text, alive bigint [])
RETURNS TABLE (
    run_id bigint,
    token uuid,
    cluster_id integer,
    proc_id integer,
    owner text,
    state text,
    starter text,
    end_requested text
)
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    role name := fetchwork.invoker();
BEGIN
    UPDATE fetchwork.run AS r
    SET deadline = clock_timestamp() + r.lease, contact_at = clock_timestamp()
    WHERE r.run_id IN (
        SELECT k.run_id
        FROM fetchwork.run AS k
        JOIN fetchwork.autocluster AS a ON a.autocluster_id = k.autocluster_id
        WHERE k.run_id = ANY (alive)
            AND k.state = 'running'
            AND k.deadline < clock_timestamp() + k.lease * 0.75
            AND a.access_point = tend_scheduler_runs.access_point
            AND fetchwork.runs_jobs_of(role, a.owner)
        FOR UPDATE OF k SKIP LOCKED
    );
    RETURN QUERY
    SELECT
        r.run_id, r.token, r.cluster_id, r.proc_id, a.owner, r.state::text, r.starter, r.end_requested
    FROM fetchwork.host AS h
    JOIN fetchwork.run AS r ON r.host_id = h.host_id
    JOIN fetchwork.autocluster AS a ON a.autocluster_id = r.autocluster_id
    WHERE h.name = format('access point %s', tend_scheduler_runs.access_point)
        AND h.access_point
        AND a.access_point = tend_scheduler_runs.access_point
        AND fetchwork.runs_jobs_of(role, a.owner);
END
$$;
