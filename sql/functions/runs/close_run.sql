-- Ends a live run: its row moves to run_history with what is known of it, its use is charged to its submitter. The job is the caller's.
-- The caller has locked the run's row.
CREATE OR REPLACE FUNCTION fetchwork.close_run(its fetchwork.run, outcome fetchwork.run_outcome, reason text, report jsonb DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
BEGIN
    DELETE FROM fetchwork.run AS r WHERE r.run_id = its.run_id;
    INSERT INTO fetchwork.run_history (
        run_id, cluster_id, proc_id, autocluster_id, host_id, state, outcome, reason, weight, token, slot,
        claimed_at, accepted_at, started_at, ended_at, starter, job_pid, usage, report, output
    )
    VALUES (
        its.run_id, its.cluster_id, its.proc_id, its.autocluster_id, its.host_id, its.state, close_run.outcome, close_run.reason, its.weight,
        its.token, its.slot, its.claimed_at, its.accepted_at, its.started_at, clock_timestamp(), its.starter,
        coalesce(fetchwork.integer_of(close_run.report -> 'JobPid'), its.job_pid), its.usage, close_run.report - 'FetchWorkOutput', close_run.report -> 'FetchWorkOutput'
    );
    IF its.started_at IS NOT NULL THEN
        INSERT INTO fetchwork.tally_change (autocluster_id, usage)
        VALUES (its.autocluster_id, its.weight * extract(epoch FROM clock_timestamp() - its.started_at));
    END IF;
END
$$;
