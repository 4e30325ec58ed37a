-- JOB_EXIT: the run's end, and what becomes of the job. Returns what was made of it: a run_outcome, or 'duplicate' or 'late' for a run that had ended.
--
-- hook_reason is HTCondor's argument, "exit" or "evict"; it says less than the report does: an exec that failed is an "evict", a job that a hook ended is
-- an "exit". report: ExitCode | ExitBySignal + ExitSignal, JobPid, JobDuration, RemoteUserCpu, ... as JSON. What happened is told by
-- - a JobPid or an exit status: without any the job never ran;
-- - what had been asked for: a job that was told to end by a hook and then ended did so for that;
-- - verdict, the policy expressions' answer, evaluated by the agent where the ad is:
--   {"action": "complete" | "requeue" | "hold" | "remove", "reason": text, "code": n, "subcode": n, "delay_s": s}; NULL: complete.
--
-- A run that was given up (lost) reports late: kept on the run. If the job still waits, untaken, the report is as good as in time and is used.
-- Events: TERMINATED (005), EVICTED (004), HELD (012), ABORTED (009).
CREATE OR REPLACE FUNCTION fetchwork.finish(run_id bigint, token uuid, hook_reason text, report jsonb, verdict jsonb DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    its fetchwork.run;
    past fetchwork.run_history;
    the_job fetchwork.job;
    has_status boolean := fetchwork.integer_of(report -> 'ExitCode') IS NOT NULL OR fetchwork.integer_of(report -> 'ExitSignal') IS NOT NULL;
    did_run boolean := has_status OR fetchwork.integer_of(report -> 'JobPid') IS NOT NULL;
    revived boolean := false;
    action text;
    why text;
    run_s double precision;
    failed boolean;
    quick double precision := fetchwork.setting_value('quick_failure');
BEGIN
    IF hook_reason IS NULL OR hook_reason NOT IN ('exit', 'evict', 'remove', 'hold') THEN
        RAISE EXCEPTION USING ERRCODE = 'FWINV', MESSAGE = format('JOB_EXIT''s reason is %L; allowed: exit, evict, remove, hold', hook_reason);
    END IF;
    report := fetchwork.checked_report(report);
    its := fetchwork.live_run(finish.run_id, finish.token);
    IF its.run_id IS NULL THEN
        past := fetchwork.ended_run(finish.run_id, finish.token);
        IF past.report IS NOT NULL OR past.late_report IS NOT NULL THEN
            RETURN 'duplicate';
        END IF;
        UPDATE fetchwork.run_history AS h SET late_report = finish.report WHERE h.run_id = finish.run_id AND h.ended_at = past.ended_at AND h.late_report IS NULL AND h.report IS NULL;
        IF NOT FOUND THEN
            RETURN 'duplicate';
        END IF;
        -- SIGKILL: most likely the hook's that had heard that the run was given up
        IF past.outcome <> 'lost' OR hook_reason <> 'exit' OR NOT has_status OR report @> '{"ExitSignal": 9}' THEN
            RETURN 'late';
        END IF;
        SELECT j.* INTO the_job FROM fetchwork.job AS j WHERE j.cluster_id = past.cluster_id AND j.proc_id = past.proc_id AND j.job_status = 1 FOR UPDATE;
        -- a later try of the job, live or ended, has superseded this run
        IF NOT FOUND OR EXISTS (SELECT FROM fetchwork.run_history AS h WHERE h.cluster_id = past.cluster_id AND h.proc_id = past.proc_id AND h.run_id > past.run_id)
                OR NOT (fetchwork.dequeue(the_job) OR the_job.not_before IS NOT NULL) THEN
            RETURN 'late';
        END IF;
        revived := true;
        UPDATE fetchwork.run_history AS h
        SET outcome = 'completed', report = finish.report, late_report = NULL, reason = 'reported after it had been given up as lost'
        WHERE h.run_id = finish.run_id AND h.ended_at = past.ended_at;
        run_s := greatest(0, coalesce(fetchwork.number_of(finish.report -> 'JobDuration'), extract(epoch FROM past.ended_at - past.started_at), 0));
        its.run_id := past.run_id;
        its.cluster_id := past.cluster_id;
        its.proc_id := past.proc_id;
        its.autocluster_id := past.autocluster_id;
        its.host_id := past.host_id;
        its.slot := past.slot;
        its.started_at := past.started_at;
        its.state := past.state;
    ELSE
        SELECT j.* INTO the_job FROM fetchwork.job AS j WHERE j.cluster_id = its.cluster_id AND j.proc_id = its.proc_id;
        IF its.state <> 'running' OR NOT did_run THEN
            IF its.end_requested IS NOT NULL THEN
                PERFORM fetchwork.close_run(its, 'withdrawn', its.end_reason, finish.report);
                IF the_job.job_status IN (2, 7) THEN
                    PERFORM fetchwork.record_eviction(its, its.end_reason, finish.report);
                END IF;
                PERFORM fetchwork.back_to_idle(its, its.end_reason);
                RETURN 'withdrawn';
            END IF;
            PERFORM fetchwork.could_not_start(its, coalesce(report ->> 'FetchWorkProblem',
                CASE WHEN report ? 'DeferralTime' THEN 'the starter did not start it: deferral time missed?'
                    ELSE 'the starter could not start it, and HTCondor tells no hook why: see StarterLog of the slot on the host' END), 6, finish.report);
            RETURN 'could_not_start';
        END IF;
        run_s := greatest(0, coalesce(fetchwork.number_of(finish.report -> 'JobDuration'), extract(epoch FROM clock_timestamp() - its.started_at)));
    END IF;

    failed := fetchwork.integer_of(report -> 'ExitCode') IS DISTINCT FROM 0;
    action := coalesce(verdict ->> 'action', 'complete');
    UPDATE fetchwork.job AS j
    SET wall_s = j.wall_s + run_s, num_not_started = 0,
        user_cpu_s = j.user_cpu_s + coalesce(fetchwork.number_of(finish.report -> 'RemoteUserCpu'), 0),
        sys_cpu_s = j.sys_cpu_s + coalesce(fetchwork.number_of(finish.report -> 'RemoteSysCpu'), 0)
    WHERE j.cluster_id = its.cluster_id AND j.proc_id = its.proc_id;

    -- ended because someone asked for it, and a hook had passed that on (or HTCondor evicted it meanwhile)
    IF NOT revived AND its.end_requested IS NOT NULL AND (its.signalled_at IS NOT NULL OR hook_reason <> 'exit' OR its.end_requested IN ('remove', 'hold')) THEN
        PERFORM fetchwork.close_run(its, CASE its.end_requested WHEN 'remove' THEN 'removed' WHEN 'hold' THEN 'held' ELSE 'vacated' END::fetchwork.run_outcome, its.end_reason, finish.report);
        IF the_job.job_status IN (2, 7) THEN
            PERFORM fetchwork.record_eviction(its, its.end_reason, finish.report);
        END IF;
        PERFORM fetchwork.back_to_idle(its, its.end_reason);
        RETURN CASE its.end_requested WHEN 'remove' THEN 'removed' WHEN 'hold' THEN 'held' ELSE 'vacated' END;
    END IF;

    IF hook_reason <> 'exit' OR NOT has_status THEN
        why := coalesce(report ->> 'VacateReason', 'evicted by HTCondor');
        PERFORM fetchwork.close_run(its, 'evicted', why, finish.report);
        UPDATE fetchwork.job AS j SET num_evicted = j.num_evicted + 1 WHERE j.cluster_id = its.cluster_id AND j.proc_id = its.proc_id;
        PERFORM fetchwork.record_eviction(its, why, finish.report);
        PERFORM fetchwork.back_to_idle(its, why);
        RETURN 'evicted';
    END IF;

    IF NOT revived THEN
        PERFORM fetchwork.close_run(its, 'completed', verdict ->> 'reason', finish.report);
    END IF;
    PERFORM fetchwork.note_start(its, NOT (failed AND run_s < quick),
        CASE WHEN failed THEN format('job %s.%s failed after %s s', its.cluster_id, its.proc_id, round(run_s::numeric, 1)) END);
    UPDATE fetchwork.job AS j SET num_completions = j.num_completions + 1, run_id = CASE WHEN revived AND action IN ('complete', 'remove') THEN its.run_id ELSE j.run_id END
    WHERE j.cluster_id = its.cluster_id AND j.proc_id = its.proc_id;
    IF action = 'requeue' THEN
        PERFORM fetchwork.record_eviction(its, coalesce(verdict ->> 'reason', 'OnExitRemove is false: the job runs again'), finish.report);
        PERFORM fetchwork.back_to_idle(its, verdict ->> 'reason', make_interval(secs => coalesce((verdict ->> 'delay_s')::double precision, 0)));
    ELSIF action = 'hold' THEN
        PERFORM fetchwork.hold_job(its.cluster_id, its.proc_id, coalesce(verdict ->> 'reason', 'OnExitHold is true'), coalesce((verdict ->> 'code')::integer, 3), coalesce((verdict ->> 'subcode')::integer, 0));
        UPDATE fetchwork.job AS j SET run_id = NULL WHERE j.cluster_id = its.cluster_id AND j.proc_id = its.proc_id;
    ELSIF action = 'remove' THEN
        INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, run_id, info)
        VALUES (9, its.cluster_id, its.proc_id, its.run_id, jsonb_build_object('Reason', coalesce(verdict ->> 'reason', 'removed by its policy')));
        PERFORM fetchwork.retire_job(its.cluster_id, its.proc_id, 3::smallint, coalesce(verdict ->> 'reason', 'removed by its policy'), finish.report, its.slot);
    ELSE
        INSERT INTO fetchwork.event (event_type, cluster_id, proc_id, run_id, info)
        VALUES (5, its.cluster_id, its.proc_id, its.run_id, fetchwork.termination(finish.report, run_s));
        PERFORM fetchwork.retire_job(its.cluster_id, its.proc_id, 4::smallint, verdict ->> 'reason', finish.report, its.slot);
    END IF;
    RETURN 'completed';
END
$$;
