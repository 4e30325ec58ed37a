-- The row of run_history for a run that ends at "at", from its live row. report: JOB_EXIT's, or NULL. Returns
-- a set so that PostgreSQL inlines it into the caller's statement.
CREATE OR REPLACE FUNCTION fetchwork.closed_run(
    live fetchwork.run,
    owner text,
    outcome fetchwork.run_outcome,
    reason text,
    at timestamptz,
    report jsonb
)
RETURNS SETOF fetchwork.run_history
LANGUAGE sql
STABLE
BEGIN ATOMIC
    SELECT
        (live).run_id, (live).cluster_id, (live).proc_id, (live).autocluster_id, closed_run.owner,
        (live).host_id, (live).state, closed_run.outcome, closed_run.reason, (live).weight, (live).token,
        (live).slot, (live).claimed_at, (live).accepted_at, (live).started_at, closed_run.at, (live).starter,
        (live).chain,
        coalesce(fetchwork.integer_of(closed_run.report -> 'JobPid'), (live).job_pid), (live).usage,
        closed_run.report - 'FetchWorkOutput', NULL::jsonb, closed_run.report -> 'FetchWorkOutput',
        (live).transfer;
END;
