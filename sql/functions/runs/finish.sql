-- JOB_EXIT: ends a run and decides about its job. Returns the run_outcome, or 'duplicate' or 'late' for a run
-- that had ended (finish_late).
-- hook_reason is HTCondor's argument, "exit" or "evict". It is less exact than the report: a failed exec is
-- an "evict", and a job that a hook ended is an "exit". report: ExitCode | ExitBySignal + ExitSignal, JobPid,
-- JobDuration, RemoteUserCpu, ... as JSON. The outcome follows from
-- - a JobPid or an exit status: without both the job never ran (finish_not_run);
-- - a requested end: a job that ended after a hook had signalled it ended for that reason;
-- - verdict, the result of the policy expressions, which the agent evaluates (follow_verdict): {"action":
-- "complete" | "requeue" | "hold" | "remove", "reason": text, "code": n, "subcode": n, "delay_s": s}; NULL:
-- complete.
-- Events: TERMINATED (005), EVICTED (004), HELD (012), ABORTED (009), JOB_UNSUSPENDED (011). Locks: the job,
-- then the run (live_run).
CREATE OR REPLACE FUNCTION fetchwork.finish(
    run_id bigint,
    token uuid,
    hook_reason text,
    report jsonb,
    verdict jsonb DEFAULT NULL
)
RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live fetchwork.run;
    has_status boolean := fetchwork.integer_of(report -> 'ExitCode') IS NOT NULL
        OR fetchwork.integer_of(report -> 'ExitSignal') IS NOT NULL;
    did_run boolean := has_status OR fetchwork.integer_of(report -> 'JobPid') IS NOT NULL;
    outcome fetchwork.run_outcome;
    reason text;
    run_s double precision;
BEGIN
    IF hook_reason IS NULL OR hook_reason NOT IN ('exit', 'evict', 'remove', 'hold') THEN
        RAISE EXCEPTION 'JOB_EXIT''s reason is %; allowed: exit, evict, remove, hold',
            quote_nullable(hook_reason) USING ERRCODE = 'FWINV';
    END IF;
    report := fetchwork.checked_report(report);
    live := fetchwork.live_run(finish.run_id, finish.token);
    IF live.run_id IS NULL THEN
        RETURN fetchwork.finish_late(
            finish.run_id, finish.token, finish.report, finish.verdict, has_status AND hook_reason = 'exit'
        );
    END IF;
    IF live.state <> 'running' OR NOT did_run THEN
        RETURN fetchwork.finish_not_run(live, finish.report);
    END IF;

    -- a stopped process does not exit: it had gone on, and ended before an update told that
    IF live.job_status = 7
        AND live.end_requested IS NULL
        AND fetchwork.integer_of(finish.report -> 'ExitCode') IS NOT NULL
    THEN
        PERFORM fetchwork.heartbeat(
            finish.run_id, finish.token, coalesce(live.usage, '{}') || '{"JobState": "Running"}'
        );
        live := fetchwork.live_run(finish.run_id, finish.token);
    END IF;

    -- most jobs end so
    IF hook_reason = 'exit'
        AND finish.verdict IS NULL
        AND fetchwork.finish_runs(ARRAY[live.run_id], ARRAY[live.token], ARRAY[finish.report]) <> '{}'
    THEN
        RETURN 'completed';
    END IF;

    run_s := greatest(0, coalesce(
        fetchwork.number_of(finish.report -> 'JobDuration'),
        extract(epoch FROM clock_timestamp() - live.started_at)
    ));
    PERFORM fetchwork.charge_job(live.cluster_id, live.proc_id, finish.report, run_s);

    -- ended on a request that a hook had passed on (or HTCondor evicted it meanwhile)
    IF live.end_requested IS NOT NULL
        AND (
            live.signalled_at IS NOT NULL
            OR hook_reason <> 'exit'
            OR live.end_requested IN ('remove', 'hold')
        )
    THEN
        outcome := CASE live.end_requested
            WHEN 'remove' THEN 'removed'
            WHEN 'hold' THEN 'held'
            ELSE 'vacated'
        END;
        PERFORM fetchwork.close_run(live, outcome, live.end_reason, finish.report);
        PERFORM fetchwork.record_eviction(live, live.end_reason, finish.report);
        PERFORM fetchwork.back_to_idle(live, live.end_reason);
        RETURN outcome;
    END IF;

    IF hook_reason <> 'exit' OR NOT has_status THEN
        reason := coalesce(finish.report ->> 'VacateReason', 'evicted by HTCondor');
        PERFORM fetchwork.close_run(live, 'evicted', reason, finish.report);
        UPDATE fetchwork.job AS j
        SET num_evicted = j.num_evicted + 1
        WHERE j.cluster_id = live.cluster_id AND j.proc_id = live.proc_id;
        PERFORM fetchwork.record_eviction(live, reason, finish.report);
        PERFORM fetchwork.back_to_idle(live, reason);
        RETURN 'evicted';
    END IF;

    PERFORM fetchwork.close_run(live, 'completed', finish.verdict ->> 'reason', finish.report);
    PERFORM fetchwork.follow_verdict(live, finish.report, finish.verdict, run_s);
    RETURN 'completed';
END
$$;
