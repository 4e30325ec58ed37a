-- Jobs with policy expressions that don't run (PeriodicHold, PeriodicRelease, PeriodicRemove; LeaveJobInQueue
-- of a Completed one), for the periodic pass of an agent: one page, behind the id after_cluster.after_proc.
CREATE OR REPLACE FUNCTION fetchwork.policy_jobs(
    after_cluster integer DEFAULT 0,
    after_proc integer DEFAULT -1,
    page integer DEFAULT 500
)
RETURNS TABLE (cluster_id integer, proc_id integer, ad jsonb)
LANGUAGE sql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT fetchwork.require_trusted_host();
    SELECT j.cluster_id, j.proc_id, fetchwork.whole_ad(j)
    FROM fetchwork.job AS j
    WHERE j.has_policy
        AND j.job_status IN (1, 4, 5, 6)
        AND (j.cluster_id, j.proc_id) > (policy_jobs.after_cluster, policy_jobs.after_proc)
    ORDER BY j.cluster_id, j.proc_id
    LIMIT policy_jobs.page;
END;
