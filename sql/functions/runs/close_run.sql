-- Ends a live run: moves its row to run_history, charges its use to its submitter, and notes its facts in the
-- job's ad. The caller decides about the job, and has locked the job and the run.
CREATE OR REPLACE FUNCTION fetchwork.close_run(
    live fetchwork.run,
    outcome fetchwork.run_outcome,
    reason text,
    report jsonb DEFAULT NULL
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    -- one time for the history and the charge
    closed_at timestamptz := clock_timestamp();
BEGIN
    DELETE FROM fetchwork.run AS r
    WHERE r.run_id = live.run_id;
    INSERT INTO fetchwork.run_history
    SELECT h.*
    FROM fetchwork.closed_run(
        live,
        (SELECT a.owner FROM fetchwork.autocluster AS a WHERE a.autocluster_id = live.autocluster_id),
        close_run.outcome, close_run.reason, closed_at, close_run.report
    ) AS h;
    IF live.started_at IS NOT NULL THEN
        INSERT INTO fetchwork.tally_change (autocluster_id, usage)
        VALUES (live.autocluster_id, live.weight * fetchwork.charged_s(live, closed_at));
        UPDATE fetchwork.job AS j
        SET facts = j.facts || fetchwork.run_facts(
            live, close_run.outcome, close_run.reason,
            coalesce(live.usage, '{}') || coalesce(close_run.report, '{}'),
            greatest(0, coalesce(
                fetchwork.number_of(close_run.report -> 'JobDuration'),
                fetchwork.number_of(live.usage -> 'JobDuration'),
                extract(epoch FROM closed_at - live.started_at)
            )),
            closed_at
        ) || fetchwork.bytes_moved(j.facts, live.transfer)
        || fetchwork.suspension_facts(j.facts, live, closed_at)
        WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
    END IF;
END
$$;
